"""The JSON protocol between a pool and an environment server, which any language can speak.

    POST   /sessions             {"options": {}}                 ──►  {"session": "8f2c"}
    POST   /sessions/8f2c/step   {"number": 2, "args": ["buy"]}  ──►  {"value": {"observation": ""}}
    GET    /sessions/8f2c/total                                  ──►  {"value": 3}
    DELETE /sessions/8f2c                                        ──►  204

A session is one instance. `number` counts its calls: one that is sent again gets the answer of the
first time, so that a broken connection never makes an environment act twice. `docs/environments.md`
has the whole of it.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agentfly.types import Message, Seed, Step, Task

PROTOCOL = 1
MAX_BYTES = 64 * 2**20
"""The longest body of a request or an answer."""


def to_plain(value: object) -> Any:
    """Turn what passes between chain and environment into JSON values, at the top level.

    >>> to_plain(Seed(7)), to_plain(Step(observation="ok"))["observation"]
    (7, 'ok')
    """
    if isinstance(value, Seed):
        return value.value
    if isinstance(value, Step):
        return asdict(value)
    if isinstance(value, Task):
        messages = [message.to_dict() for message in value.messages]
        return {"id": value.id, "messages": messages, "fields": dict(value.fields)}
    return value


def task_of(plain: Mapping[str, Any]) -> Task:
    """Read a task.

    >>> task_of({"id": "t", "messages": [], "fields": {"goal": 2}}).fields["goal"]
    2
    """
    messages = tuple(Message.from_dict(message) for message in plain.get("messages", ()))
    return Task(id=str(plain["id"]), messages=messages, fields=plain.get("fields", {}))


def observed(value: Any) -> Any:
    """Read what `reset` or `step` answered: a step if it looks like one."""
    return Step(**value) if isinstance(value, dict) and "observation" in value else value
