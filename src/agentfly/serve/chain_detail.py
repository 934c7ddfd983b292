"""One chain as data for a page: messages, calls, tokens with their numbers, times, states.

Every text is made printable here, and the page shows it as text alone.
"""

import base64
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from agentfly.chat import MASK_POLICIES, mask_policy
from agentfly.errors import AgentFlyError, ConfigError
from agentfly.observe.chain_text import readable
from agentfly.observe.credit_file import find_credit
from agentfly.observe.recorded_run import ChainFile, RecordedRun
from agentfly.serve.run_store import Decoder
from agentfly.types import ChainCredit, Image, Message, StreamCredit, ToolResult, Trajectory, Turn
from agentfly.types.short_text import printable

MAX_TEXT = 100_000
"""Maximum characters of one text."""
MAX_TOKENS = 40_000
"""Maximum number of a chain's tokens; a page of more would be slow."""
MAX_IMAGE_BYTES = 4 << 20
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types of images that are shown; none of them can hold a script."""


def chain_json(
    chain: Trajectory, file: ChainFile, run: RecordedRun, decoder: Decoder
) -> dict[str, Any]:
    """Return all of a chain."""
    credit, problem = _credit(chain, file, run)
    kept, source = _masks(chain, file, run, credit)
    tokens = _TokenReader(decoder, credit, chain)
    return {
        "file": file.path.name,
        "step": file.step,
        "held_out": file.held_out,
        "title": file.title,
        "chain": printable(chain.chain_id),
        "group": printable(chain.group_id),
        "task": printable(chain.task.id),
        "fields": _pretty(chain.task.fields),
        "stop": str(chain.stop),
        "error": _text(chain.error),
        "attempt": chain.attempt,
        "reward": chain.reward,
        "parts": {_text(name): value for name, value in chain.score.parts.items()}
        if chain.score
        else {},
        "metadata": _pretty(chain.metadata),
        "tools": [
            {"name": _text(t.name), "description": _text(t.description)} for t in chain.tools
        ],
        "opening": [_message(message) for message in chain.messages],
        "turns": [
            {**_turn(turn), "tokens": tokens.of(turn, keep)}
            for turn, keep in zip(chain.turns, kept, strict=True)
        ],
        "spans": [
            {
                "kind": str(span.kind),
                "name": _text(span.name),
                "turn": span.turn,
                "start": span.start,
                "end": span.end,
            }
            for span in chain.spans
        ],
        "mask_source": source,
        "problems": [text for text in (decoder.problem, problem) if text],
    }


def _credit(chain: Trajectory, file: ChainFile, run: RecordedRun) -> tuple[ChainCredit | None, str]:
    """Return what the chain was trained with, if that was recorded for these very tokens."""
    if file.held_out:
        return None, ""
    path = run.path / "trajectories" / f"advantages_{file.step}.jsonl.gz"
    try:
        found = find_credit(path, chain.chain_id)
    except AgentFlyError as error:
        return None, str(error)
    if found is None:
        return None, ""
    lengths = [len(stream.token_ids) for stream in chain.streams]
    fits = [len(stream.mask) for stream in found.streams] == lengths
    return (found, "") if fits else (None, f"{path.name} is of other chains: it is left out")


def _masks(
    chain: Trajectory, file: ChainFile, run: RecordedRun, credit: ChainCredit | None
) -> tuple[Sequence[Sequence[bool] | None], str]:
    """Return which sampled tokens carry loss, and how that is known."""
    turns = chain.turns
    if file.held_out:
        return [None] * len(turns), "held_out"
    if credit is not None:
        flags = _by_turn(chain, [stream.mask for stream in credit.streams])
        return [[flag for flag in flags[turn.index] if flag is not None] for turn in turns], (
            "recorded"
        )
    policy = str(run.settings.get("rollout", {}).get("mask", "all_sampled"))
    if policy in MASK_POLICIES:
        try:
            return mask_policy(policy)(turns), "policy"
        except ConfigError:
            pass
    return [None] * len(turns), "unknown"


def _by_turn(chain: Trajectory, streams: Sequence[Sequence[Any]]) -> dict[int, list[Any]]:
    """Return the values of each turn's sampled tokens, from values of all tokens of streams."""
    found = {}
    for stream, values in zip(chain.streams, streams, strict=True):
        start = 0
        for turn in stream.turns:
            begin = start + len(turn.context_ids)
            start = begin + (len(turn.completion.token_ids) if turn.completion else 0)
            found[turn.index] = list(values[begin:start])
    return found


class _TokenReader:
    """Reads the tokens of a chain's turns in order, up to a maximum."""

    def __init__(self, decoder: Decoder, credit: ChainCredit | None, chain: Trajectory) -> None:
        self._decoder = decoder
        self._left = MAX_TOKENS
        self._advantages: dict[int, list[float | None]] = {}
        self._entropies: dict[int, list[float | None]] = {}
        if credit is not None:
            spread = [_spread(stream, stream.advantages) for stream in credit.streams]
            self._advantages = _by_turn(chain, spread)
            if all(stream.entropies is not None for stream in credit.streams):
                spread = [_spread(stream, stream.entropies or ()) for stream in credit.streams]
                self._entropies = _by_turn(chain, spread)

    def of(self, turn: Turn, keep: Sequence[bool] | None) -> dict[str, Any] | None:
        """Return a turn's tokens as columns; None without token ids."""
        if turn.completion is None:
            return None
        context = turn.context_ids[: self._left]
        self._left -= len(context)
        sampled = turn.completion.token_ids[: self._left]
        self._left -= len(sampled)
        count = len(sampled)
        left_out = len(turn.context_ids) + len(turn.completion.token_ids) - len(context) - count
        return {
            "left_out": left_out,
            "context": {"ids": context, "texts": self._texts(context)},
            "sampled": {
                "ids": sampled,
                "texts": self._texts(sampled),
                "trained": None if keep is None else [int(on) for on in keep[:count]],
                "logprobs": [round(value, 4) for value in turn.completion.logprobs[:count]],
                "versions": list(turn.completion.version_of_each())[:count],
                "advantages": _column(self._advantages.get(turn.index), count),
                "entropies": _column(self._entropies.get(turn.index), count),
            },
        }

    def _texts(self, ids: Sequence[int]) -> list[str] | None:
        texts = self._decoder.texts(ids)
        return None if texts is None else [_text(text) for text in texts]


def _spread(stream: StreamCredit, values: Sequence[float]) -> list[float | None]:
    """Return the values of trained tokens at their places among all tokens."""
    left = iter(values)
    spread = [next(left) if on else None for on in stream.mask]
    return [None if value is None or not math.isfinite(value) else value for value in spread]


def _column(values: Sequence[float | None] | None, count: int) -> list[float | None] | None:
    return None if values is None else list(values[:count])


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "index": turn.index,
        "message": _message(turn.message),
        "results": [_result(result) for result in turn.results],
        "replies": [_message(reply) for reply in turn.replies],
        "reward": turn.reward,
        "state": _text(turn.state_key),
        "info": _pretty(turn.info),
        "invalid": turn.invalid,
        "temperature": turn.temperature,
        "finish": str(turn.completion.finish_reason) if turn.completion else None,
    }


def _message(message: Message) -> dict[str, Any]:
    return {
        "role": message.role,
        "name": _text(message.name),
        "content": _text(message.content),
        "reasoning": _text(message.reasoning),
        "calls": [
            {
                "name": _text(call.name),
                "arguments": _text(call.arguments),
                "problem": _text(call.problem),
            }
            for call in message.tool_calls
        ],
        "images": list(_images(message.images)),
    }


def _result(result: ToolResult) -> dict[str, Any]:
    return {
        "status": str(result.status),
        "observation": _text(result.observation),
        "reward": result.reward,
        "state": _text(result.state_key),
        "info": _pretty(result.info),
        "images": list(_images(result.images)),
    }


def _images(images: Sequence[Image]) -> Iterator[str]:
    """Yield images as `data:` addresses; those of other types or too large are left out."""
    for image in images:
        if image.media_type in IMAGE_TYPES and len(image.data) <= MAX_IMAGE_BYTES:
            yield f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"


def _text(text: str | None) -> str:
    return "" if text is None else readable(text, MAX_TEXT)


def _pretty(value: Any) -> str:
    """Return a JSON value as text for people; empty if there is nothing."""
    return _text(json.dumps(value, indent=1, ensure_ascii=False, default=str)) if value else ""
