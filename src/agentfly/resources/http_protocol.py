"""The JSON protocol between a pool and an environment server, which any language can implement.

    POST   /sessions             {"options": {}}                 ──►  {"session": "8f2c"}
    POST   /sessions/8f2c/step   {"number": 1, "args": ["buy"]}  ──►  {"value": {"observation": ""}}
    GET    /sessions/8f2c/total                                  ──►  {"value": 3}
    DELETE /sessions/8f2c                                        ──►  204

Every request carries `Authorization: Bearer TOKEN`. A session is one instance. `number` counts its
calls: one that is sent again gets the answer of the first time, so that a broken connection never
makes an environment act twice. `docs/servers.md` has the whole of it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import PurePath
from typing import Any

from agentfly.errors import ConfigError
from agentfly.types import Message, Seed, Step, Task

PROTOCOL = 1
MAX_BYTES = 8 * 2**20
"""The longest body of a request or an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """A call as a client sent it."""

    number: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    digest: bytes
    """Hash of method and body, equal when the same call is sent again."""


def read_call(method: str, plain: Mapping[str, Any], body: bytes) -> CallRequest:
    """Read a call from its body; raise ConfigError if something is missing or of another type.

    >>> read_call("step", {"number": 1, "args": ["buy"]}, b"").args
    ('buy',)
    """
    if unknown := plain.keys() - {"number", "args", "kwargs"}:
        raise ConfigError(f"unknown key {min(unknown):.100}. Known: number, args, kwargs")
    number, args, kwargs = plain.get("number"), plain.get("args", []), plain.get("kwargs", {})
    if type(number) is not int or number < 1:
        raise ConfigError(f"`number` counts a session's calls from 1, got {number!r:.100}")
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ConfigError("`args` must be a list, and `kwargs` an object")
    if method == "reset":
        args, kwargs = _reset_arguments(args, kwargs), {}
    digest = hashlib.blake2b(method.encode() + b"\0" + body, digest_size=16).digest()
    return CallRequest(number=number, args=tuple(args), kwargs=kwargs, digest=digest)


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


def task_of(plain: object) -> Task:
    """Read a task.

    >>> task_of({"id": "t", "messages": [], "fields": {"goal": 2}}).fields["goal"]
    2
    """
    if not isinstance(plain, dict) or not isinstance(plain.get("id"), str):
        raise ConfigError('a task is as {"id": "t", "messages": [], "fields": {}}')
    messages, fields = plain.get("messages", []), plain.get("fields", {})
    if not isinstance(messages, list) or not isinstance(fields, dict):
        raise ConfigError("a task's `messages` are a list, and its `fields` an object")
    try:
        read = tuple(Message.from_dict(message) for message in messages)
    except (AttributeError, KeyError, TypeError) as error:
        raise ConfigError(f"a task's messages can't be read: {error!r:.200}") from error
    return Task(id=plain["id"], messages=read, fields=fields)


def observed(value: Any) -> Any:
    """Read what `reset` or `step` answered: a step if it looks like one."""
    return Step(**value) if isinstance(value, dict) and "observation" in value else value


def plain_option(value: object) -> Any:
    """Return an option as JSON has it; raise ConfigError if it can't be sent.

    >>> plain_option(("look", "task")), plain_option(PurePath("games"))
    (['look', 'task'], 'games')
    """
    try:
        return json.loads(json.dumps(value, default=_plain_object))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the option {value!r:.100} can't be written as JSON: {error}") from error


def _plain_object(value: object) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        shown = [one.name for one in fields(value) if one.repr]  # The others are secrets.
        return {type(value).__name__: {name: getattr(value, name) for name in shown}}
    raise TypeError(f"it holds a {type(value).__name__}")


def _reset_arguments(args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    given = dict(zip(("task", "seed"), args, strict=False)) | dict(kwargs)
    if len(args) > 2 or given.keys() != {"task", "seed"}:
        raise ConfigError(
            "`reset` takes a task and a seed, as "
            '{"number": 1, "args": [{"id": "t", "messages": [], "fields": {}}, 7]}'
        )
    seed = given["seed"]
    if type(seed) is not int or not 0 <= seed < 2**64:
        raise ConfigError(f"a seed is a whole number from 0 to 2**64 - 1, got {seed!r:.100}")
    return [task_of(given["task"]), Seed(seed)]
