"""Groups of finished chains, made by hand."""

from collections.abc import Mapping, Sequence

from agentfly.types import (
    Completion,
    FinishReason,
    Group,
    Message,
    Score,
    Span,
    StopReason,
    Task,
    TokenStream,
    ToolCall,
    ToolResult,
    ToolStatus,
    Trajectory,
    Turn,
)


def turn(
    *statuses: ToolStatus, index: int = 0, tokens: int = 4, version: int = 0, text: str = "said"
) -> Turn:
    return Turn(
        index=index,
        context_ids=(1, 2, 3),
        completion=Completion(
            token_ids=(7,) * tokens,
            logprobs=(-1.0,) * tokens,
            versions=((version, tokens),),
            finish_reason=FinishReason.STOP,
        ),
        message=Message(
            role="assistant",
            content=text,
            tool_calls=tuple(
                ToolCall(id=str(i), name="calculator", arguments='{"expression": "6*7"}')
                for i, _ in enumerate(statuses)
            ),
        ),
        temperature=1.0,
        results=tuple(ToolResult(observation="42", status=status) for status in statuses),
        replies=tuple(
            Message(role="tool", content="42", tool_call_id=str(i)) for i, _ in enumerate(statuses)
        ),
    )


def chain(
    reward: float | None,
    *turns: Turn,
    stop: StopReason = StopReason.ANSWERED,
    error: str | None = None,
    parts: Mapping[str, float] | None = None,
    spans: tuple[Span, ...] = (),
    attempt: int = 0,
) -> Trajectory:
    """A chain without a home; `group` gives it one."""
    return Trajectory(
        task=Task(id="?", messages=()),
        group_id="?",
        chain_id="?",
        messages=(Message(role="user", content="What is 6*7?"),),
        streams=(TokenStream(turns=turns),) if turns else (),
        stop=stop,
        score=None if reward is None else Score(value=reward, parts=parts or {}),
        error=error,
        spans=spans,
        attempt=attempt,
    )


def group(task: str, members: Sequence[Trajectory], *, source: str = "default") -> Group:
    question = Message(role="user", content=f"What is {task}?")
    home = Task(id=task, messages=(question,), fields={"answer": "42"}, source=source)
    return Group(
        id=f"{task}/0",
        task=home,
        members=tuple(
            Trajectory(
                **{
                    **{name: getattr(member, name) for name in Trajectory.__slots__},
                    "task": home,
                    "group_id": f"{task}/0",
                    "chain_id": f"{task}/0/{index}",
                    "messages": (Message(role="system", content="Use the tool."), question),
                }
            )
            for index, member in enumerate(members)
        ),
    )


def scored(task: str, *rewards: float | None, source: str = "default") -> Group:
    """A group whose chains said one word each; None is a chain that failed."""
    return group(
        task,
        [
            chain(reward, turn())
            if reward is not None
            else chain(None, stop=StopReason.ENV_CRASHED, error="EnvError: gone")
            for reward in rewards
        ],
        source=source,
    )
