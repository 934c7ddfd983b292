"""ReAct (arXiv:2210.03629): thoughts, actions and the final answer as labeled lines.

    Thought: I should look it up.
    Action: search
    Action Input: {"query": "cats"}

The turn stops at `Observation:`, which is not the model's to write. `Final Answer:` ends the chain.
"""

import re
from collections.abc import Iterator, Sequence

from agentfly.chat.formats.call_format import (
    CUT_OFF,
    CallFormat,
    Found,
    Reading,
    assemble,
    tool_instructions,
    unreadable,
    with_content,
)
from agentfly.chat.formats.json_calls import arguments_at
from agentfly.types import ToolCall, ToolSpec

_OBSERVATION = re.compile(r"^[ \t]*+Observation:", re.M)
_ACTION_OR_ANSWER = re.compile(
    r"^[ \t]*+(?:(?P<answer>Final Answer:)|Action:(?P<action>.*+)$)", re.M
)
_BLANK_TO_END = re.compile(r"\s*+\Z")
_INPUT = re.compile(r"\s*+Action Input:")
_ENDS = re.compile(r"^[ \t]*+(?:Thought|Action|Final Answer|Observation):", re.M)


def _read(text: str) -> Reading:
    observed = _OBSERVATION.search(text)
    own = text[: observed.start()] if observed else text
    first = _ACTION_OR_ANSWER.search(own)
    if first and first["answer"]:
        return Reading(content=own[first.end() :].strip())
    return assemble(own, _find(own, cut=observed is None))


def _find(text: str, *, cut: bool) -> Iterator[Found]:
    end = 0
    while action := _ACTION_OR_ANSWER.search(text, end):
        if action["answer"]:
            return
        call, end = _call_at(text, action, cut=cut)
        yield Found(action.start(), end, [call])


def _call_at(text: str, action: re.Match[str], *, cut: bool) -> tuple[ToolCall, int]:
    name = action["action"].strip(" \t`*\"'")
    given = _INPUT.match(text, action.end())
    if given:
        arguments = arguments_at(text, given.end(), _ENDS)
        return arguments.call(name), arguments.end
    if cut and _BLANK_TO_END.match(text, action.end()):
        return unreadable(CUT_OFF, "", name=name), len(text)
    problem = 'an "Action:" line needs an "Action Input:" line with a JSON object right after it'
    return unreadable(problem, "", name=name), action.end()


def _write(calls: Sequence[ToolCall], content: str = "") -> str:
    if not calls:
        return f"Final Answer: {content}"
    thought = content if content.startswith("Thought:") or not content else f"Thought: {content}"
    actions = (f"Action: {call.name}\nAction Input: {call.arguments}" for call in calls)
    return with_content(thought, "\n".join(actions))


def _instructions(tools: Sequence[ToolSpec]) -> str:
    how = (
        "Work step by step. To use a tool, write exactly these lines and then stop:\n"
        "Thought: what you need to find out next\n"
        "Action: the name of one tool\n"
        'Action Input: its arguments as one JSON object, such as {"key": "value"}\n'
        'The result comes back as "Observation:". When you know the answer, write:\n'
        "Final Answer: the answer"
    )
    return tool_instructions(tools, how)


REACT = CallFormat(
    name="react",
    read=_read,
    write=_write,
    stop_strings=("Observation:",),
    instructions=_instructions,
)
