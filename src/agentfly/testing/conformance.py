"""Conformance checkers for tools, rewards, environments and renderers.

A checker reports everything that is wrong at once.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agentfly.errors import AgentFlyError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.invoke import invoke
from agentfly.testing.context import make_context
from agentfly.types import (
    Completion,
    Context,
    EnvSpec,
    FinishReason,
    Message,
    Renderer,
    Reward,
    Score,
    Seed,
    Step,
    Task,
    Tool,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
    Trajectory,
)

_CALL_SECONDS = 60.0
_TOOL = ToolSpec(
    name="weather",
    description="Tell the weather of a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The city."}},
        "required": ["city"],
    },
)
_OPENING = (Message(role="user", content="Is it raining in Oslo?"),)


class ConformanceError(AgentFlyError, AssertionError):
    """A part that does not keep the contract of its Protocol."""


@dataclass(slots=True)
class Findings:
    """Collects violations of a contract."""

    what: str
    wrong: list[str] = field(default_factory=list)

    def expect(self, holds: object, otherwise: str) -> None:
        """Add a violation unless the claim holds."""
        if not holds:
            self.wrong.append(otherwise)

    @contextmanager
    def no_error(self, doing: str) -> Iterator[None]:
        """Add a violation if the body raises."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - reported with all other findings
            self.wrong.append(f"{doing} raised {type(error).__name__}: {error}")

    @contextmanager
    def error(self, kind: type[BaseException], doing: str) -> Iterator[None]:
        """Add a violation unless the body raises this kind of error."""
        try:
            yield
        except kind:
            return
        except Exception as error:  # noqa: BLE001 - reported with all other findings
            self.wrong.append(
                f"{doing} must raise {kind.__name__}, but raised {type(error).__name__}: {error}"
            )
        else:
            self.wrong.append(f"{doing} must raise {kind.__name__}, but raised nothing")

    def report(self) -> None:
        """Raise ConformanceError if anything was wrong."""
        if self.wrong:
            lines = "".join(f"\n  - {line}" for line in self.wrong)
            raise ConformanceError(f"{self.what} breaks its contract:{lines}")


async def check_tool(
    tool: Tool, arguments: Mapping[str, Any], *, context: Context | None = None
) -> ToolResult:
    """Raise ConformanceError unless the tool keeps its contract; return its result.

    `arguments` is one call that must succeed.
    """
    findings = Findings(f"tool {tool.spec.name!r}")
    context = context or make_context()
    _check_schema(findings, tool)
    result = ToolResult(observation="")
    with findings.no_error("the good call"):
        result = await tool.run(_call(tool, json.dumps(dict(arguments))), context)
        findings.expect(
            result.status is ToolStatus.OK,
            f"the good call gave status {result.status}: {result.observation}",
        )
    for bad in ('{"no_such_argument": 1}', "[1, 2", "null", '"text"'):
        with findings.no_error(f"the bad arguments {bad}"):
            answer = await tool.run(_call(tool, bad), context)
            findings.expect(
                answer.status.invalid, f"the bad arguments {bad} gave status {answer.status}"
            )
            findings.expect(answer.observation, f"the bad arguments {bad} gave no observation")
    findings.report()
    return result


def _check_schema(findings: Findings, tool: Tool) -> None:
    spec = tool.spec
    findings.expect(spec.description, "it has no description")
    findings.expect(
        spec.parameters.get("type") == "object", "its parameters are not of type `object`"
    )
    properties = spec.parameters.get("properties", {})
    unknown = [name for name in spec.parameters.get("required", ()) if name not in properties]
    findings.expect(not unknown, f"required parameters {unknown} are not among its properties")
    with findings.no_error("writing the schema as JSON"):
        json.dumps(spec.to_openai())


def _call(tool: Tool, arguments: str) -> ToolCall:
    return ToolCall(id="call_0", name=tool.spec.name, arguments=arguments)


async def check_reward(
    reward: Reward, trajectory: Trajectory, *, context: Context | None = None
) -> Score:
    """Raise ConformanceError unless the reward keeps its contract; return its score."""
    findings = Findings(f"reward {reward.name!r}")
    context = context or make_context(trajectory.task)
    scores: list[Score] = []
    with findings.no_error("scoring"):
        scores = [await reward.score(trajectory, context) for _ in range(2)]
        _check_score(findings, scores[0], turns=len(trajectory.turns))
        findings.expect(scores[0] == scores[1], f"scoring twice gave {scores}")
    findings.report()
    return scores[0]


def _check_score(findings: Findings, score: object, *, turns: int) -> None:
    if not isinstance(score, Score):
        findings.expect(None, f"it returned {score!r}, not a Score")
    elif score.per_turn is not None:
        findings.expect(
            len(score.per_turn) == turns,
            f"it gave {len(score.per_turn)} per-turn values for {turns} turns",
        )


async def check_environment(spec: EnvSpec, task: Task, actions: Sequence[str]) -> None:
    """Raise ConformanceError unless an environment keeps its contract.

    `actions` are played twice, on one instance after a reset and on a new one: with the same task
    and seed, both must answer the same.
    """
    findings = Findings(f"environment {spec.name}")
    with findings.no_error("making and playing it"):
        one, other = spec.make(), spec.make()
        try:
            first = await _play(findings, one, task, actions)
            second = await _play(findings, one, task, actions)
            fresh = await _play(findings, other, task, actions)
            findings.expect(first == second, "after a reset the same actions differed")
            findings.expect(first == fresh, "two instances answered the same actions differently")
        finally:
            for instance in (one, other):
                with findings.no_error("closing it"):
                    await _invoke(instance.close, "close")
    findings.report()


async def _play(
    findings: Findings, instance: Any, task: Task, actions: Sequence[str]
) -> list[object]:
    said = await _invoke(lambda: instance.reset(task, Seed(5)), "reset")
    findings.expect(
        isinstance(said, (str, Step)), f"reset must return an observation, got {said!r}"
    )
    answers: list[object] = [said]
    for action in actions:
        step = await _invoke(lambda action=action: instance.step(action), "step")
        findings.expect(isinstance(step, Step), f"step must return a Step, got {step!r}")
        answers.append(step)
        if isinstance(step, Step) and step.done:
            break
    return answers


async def _invoke(call: Any, name: str) -> Any:
    clock = LoopClock()
    return await invoke(call, name=name, clock=clock, deadline=clock.now() + _CALL_SECONDS)


def check_renderer(renderer: Renderer) -> None:
    """Raise ConformanceError unless the renderer keeps its contract."""
    findings = Findings(type(renderer).__name__)
    with findings.no_error("opening a conversation"):
        _check_open(findings, renderer)
    with findings.no_error("extending a turn"):
        _check_extend(findings, renderer)
    _check_parse_is_total(findings, renderer)
    findings.report()


def _check_open(findings: Findings, renderer: Renderer) -> None:
    plain = renderer.open(_OPENING, ())
    with_tool = renderer.open(_OPENING, (_TOOL,))
    findings.expect(plain, "open rendered no tokens")
    findings.expect(
        "raining in Oslo" in renderer.decode(plain), "the question is missing from the prompt"
    )
    findings.expect(_TOOL.name in renderer.decode(with_tool), "the tool is missing from the prompt")
    findings.expect(
        renderer.stop_token_ids or renderer.stop_strings, "nothing ends a turn: no stop tokens"
    )


def _check_extend(findings: Findings, renderer: Renderer) -> None:
    """Check that a suffix closes an open turn, and does not close a closed one twice."""
    said = Message(role="assistant", content="I will look.")
    history = (*_OPENING, said)
    reply = (Message(role="user", content="Please hurry."),)
    spoken = renderer.open((Message(role="user", content=said.content),), ())
    cut = _completion(spoken[:3], FinishReason.LENGTH)
    open_turn = renderer.extend(history, cut, reply, ()).token_ids
    findings.expect(
        "Please hurry." in renderer.decode(open_turn), "extend does not render the reply"
    )
    for stop_id in renderer.stop_token_ids[:1]:
        ended = _completion((*spoken[:3], stop_id), FinishReason.STOP)
        closed_turn = renderer.extend(history, ended, reply, ()).token_ids
        findings.expect(
            len(closed_turn) < len(open_turn),
            "extend repeats the end token that the model itself had sampled",
        )


def _check_parse_is_total(findings: Findings, renderer: Renderer) -> None:
    ids = renderer.open(_OPENING, (_TOOL,))
    for sampled in ((), ids[:1], ids, ids[::-1], ids[::3]):
        with findings.no_error(f"parsing the tokens {sampled[:5]}…"):
            parsed = renderer.parse(_completion(sampled, FinishReason.LENGTH))
            findings.expect(
                parsed.message.role == "assistant",
                f"parse gave a message of role {parsed.message.role!r}",
            )


def _completion(ids: tuple[int, ...], finish_reason: FinishReason) -> Completion:
    return Completion(
        token_ids=ids,
        logprobs=(-1.0,) * len(ids),
        versions=((0, len(ids)),) if ids else (),
        finish_reason=finish_reason,
    )
