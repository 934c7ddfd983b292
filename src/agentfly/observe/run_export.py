"""A run's chains as data for other programs: rows for imitation, preference pairs, or everything.

    sft      {"messages": […], "tools": […]}: the best chain of each group, as `agentfly sft` reads
    dpo      {"prompt": […], "chosen": […], "rejected": […], …}: best and worst of each group
    jsonl    {"step": 3, "chain_id": "sum/0/1", "reward": 1.0, "messages": […], …}: every chain
    parquet  the same, with the tokens, their log-probabilities, and which of them were sampled

Held-out chains are left out: they must never be trained on.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.whole_file import PART, whole_file
from agentfly.runtime.extra import import_extra
from agentfly.types import Message, TokenStream, ToolSpec, Trajectory
from agentfly.types.trajectory import differ

Row = dict[str, Any]
ROWS_AT_ONCE = 256
"""Rows of a Parquet file that are kept in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChain:
    """A chain as the messages that are exported."""

    prompt: Sequence[Message]
    said: Sequence[Message]
    """All from the first sampled turn on."""
    tools: Sequence[ToolSpec]
    """Tools that the chat template describes."""


WriteChain = Callable[[Trajectory], WrittenChain]


def as_recorded(chain: Trajectory) -> WrittenChain:
    """Return a chain's messages as they were read, with calls in `tool_calls`."""
    opening = len(chain.messages)
    return WrittenChain(prompt=chain.messages, said=chain.conversation[opening:], tools=chain.tools)


def sft_rows(
    run: RecordedRun, *, min_reward: float = 1.0, write: WriteChain = as_recorded
) -> Iterator[Row]:
    """Yield the best chain of each group as chat messages, from `min_reward` on."""
    for members in _groups(run):
        best = members[-1]
        if best.reward is not None and best.reward >= min_reward:
            written = write(best)
            messages = _messages([*written.prompt, *written.said])
            yield {"messages": messages, "tools": _tools(written.tools)}


def dpo_rows(
    run: RecordedRun, *, min_reward: float = 1.0, write: WriteChain = as_recorded
) -> Iterator[Row]:
    """Yield the best and the worst chain of each group whose rewards differ."""
    for members in _groups(run):
        worst, best = members[0], members[-1]
        low, high = worst.reward or 0.0, best.reward or 0.0
        # Chains of an environment that answers in its own words may begin with different prompts.
        if high >= min_reward and differ(low, high) and worst.messages == best.messages:
            chosen = write(best)
            yield {
                "prompt": _messages(chosen.prompt),
                "chosen": _messages(chosen.said),
                "rejected": _messages(write(worst).said),
                "tools": _tools(chosen.tools),
            }


def chain_rows(run: RecordedRun) -> Iterator[Row]:
    """Yield every chain of every step."""
    for step in run.steps:
        for chain in run.chains(step):
            yield _row(step, chain)


def _row(step: int, chain: Trajectory) -> Row:
    return {
        "step": step,
        "source": chain.task.source,
        "task_id": chain.task.id,
        "group_id": chain.group_id,
        "chain_id": chain.chain_id,
        "reward": chain.reward,
        "parts": dict(chain.score.parts) if chain.score else {},
        "stop": str(chain.stop),
        "error": chain.error,
        "fields": dict(chain.task.fields),
        "messages": _messages(chain.conversation),
        "tools": _tools(chain.tools),
    }


def write_jsonl(rows: Iterator[Row], path: Path) -> int:
    """Write rows as JSON lines, all or none; return their number."""
    count = 0
    with whole_file(path) as file:
        for row in rows:
            count += 1
            file.write(json.dumps(row, ensure_ascii=True).encode() + b"\n")
    return count


def write_parquet(run: RecordedRun, path: Path) -> int:
    """Write every chain with its tokens as Parquet, all or none; return their number."""
    arrow = import_extra("pyarrow", extra="parquet", purpose=f"writing {path}")
    parquet = import_extra("pyarrow.parquet", extra="parquet", purpose=f"writing {path}")
    schema = _schema(arrow)
    part = path.with_name(path.name + PART)
    count = 0
    try:
        with parquet.ParquetWriter(part, schema) as writer:
            rows = _token_rows(run)
            while batch := [row for _, row in zip(range(ROWS_AT_ONCE), rows, strict=False)]:
                writer.write_table(arrow.Table.from_pylist(batch, schema=schema))
                count += len(batch)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _schema(arrow: Any) -> Any:
    texts = ("source", "task_id", "group_id", "chain_id", "stop", "error")
    encoded = ("parts", "fields", "messages", "tools")
    return arrow.schema(
        [
            ("step", arrow.int64()),
            ("reward", arrow.float64()),
            *((name, arrow.string()) for name in (*texts, *encoded)),
            ("token_ids", arrow.list_(arrow.list_(arrow.int64()))),
            ("sampled", arrow.list_(arrow.list_(arrow.bool_()))),
            ("logprobs", arrow.list_(arrow.list_(arrow.float64()))),
        ]
    )


def _token_rows(run: RecordedRun) -> Iterator[Row]:
    """Yield rows whose nested values are JSON text, with one list of tokens for each stream."""
    for step in run.steps:
        for chain in run.chains(step):
            row = _row(step, chain)
            encoded = ("parts", "fields", "messages", "tools")
            yield {
                **row,
                **{name: json.dumps(row[name]) for name in encoded},
                "token_ids": [list(stream.token_ids) for stream in chain.streams],
                "sampled": [list(stream.sampled) for stream in chain.streams],
                "logprobs": [_logprobs(stream) for stream in chain.streams],
            }


def _logprobs(stream: TokenStream) -> list[float]:
    """Return the log-probability of each token; 0 for context."""
    values: list[float] = []
    for turn in stream.turns:
        values += [0.0] * len(turn.context_ids)
        values += turn.completion.logprobs if turn.completion else ()
    return values


def _groups(run: RecordedRun) -> Iterator[list[Trajectory]]:
    """Yield the scored chains of each group, the worst first; its lines are adjacent."""
    for step in run.steps:
        for _, members in groupby(run.chains(step), key=lambda chain: chain.group_id):
            scored = [chain for chain in members if chain.reward is not None and chain.turns]
            if scored:
                yield sorted(scored, key=lambda chain: chain.reward or 0.0)


def _messages(messages: Iterable[Message]) -> list[Row]:
    return [message.to_dict() for message in messages]


def _tools(tools: Iterable[ToolSpec]) -> list[Row]:
    return [tool.to_openai() for tool in tools]
