"""A run of 10,000 chains of 2,000 tokens, written as fast as lines can be made."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.observe.finished_groups import chain, group, turn
from tests.observe.recorded_runs import record_run

from agentfly.observe.trajectory_file import MEMBER_BYTES, encode_trajectory
from agentfly.runtime.journal import plain
from agentfly.types import Completion, FinishReason, ToolStatus, Turn

STEPS, CHAINS, TURNS, TOKENS = 20, 500, 4, 500
BODIES = 16
"""Different chains; the others are copies of them under other names."""


def write_large_run(folder: Path) -> Path:
    """Write the run: each of its steps has one compacted file."""
    run = record_run(folder, rewards=[step / STEPS for step in range(STEPS)])
    (run / "trajectories").mkdir()
    bodies = [_body(Random(number)) for number in range(BODIES)]
    for step in range(1, STEPS + 1):
        lines = [_line(bodies, step, number) for number in range(CHAINS)]
        with (run / "trajectories" / f"step_{step}.jsonl.gz").open("wb") as file:
            for member in _members(lines):
                file.write(gzip.compress(member, 1))
    return run


def _body(random: Random) -> str:
    turns = [_turn(random, index) for index in range(TURNS)]
    (one,) = group("QUESTION", [chain(0.123456789, *turns)]).members
    record = {"v": 1, "kind": "trajectory", **encode_trajectory(one)}
    return json.dumps(record, default=plain, separators=(",", ":"))


def _turn(random: Random, index: int) -> Turn:
    tokens = tuple(random.randrange(3000) for _ in range(TOKENS))
    completion = Completion(
        token_ids=tokens,
        logprobs=tuple(-random.expovariate(2.0) for _ in tokens),
        versions=((index, TOKENS),),
        finish_reason=FinishReason.STOP,
    )
    words = " ".join(f"word{random.randrange(9999)}" for _ in range(200))
    said = turn(ToolStatus.OK if random.random() < 0.8 else ToolStatus.ERROR, index=index)
    return replace(said, completion=completion, message=replace(said.message, content=words))


def _line(bodies: list[str], step: int, number: int) -> bytes:
    text = bodies[(step + number) % BODIES].replace("QUESTION", f"q{step}-{number // 8}")
    text = text.replace("0.123456789", str(number % 5 / 4))
    return text.replace(
        f"q{step}-{number // 8}/0/0", f"q{step}-{number // 8}/0/{number % 8}"
    ).encode()


def _members(lines: list[bytes]) -> list[bytes]:
    per_member = max(1, MEMBER_BYTES // len(lines[0]))
    starts = range(0, len(lines), per_member)
    return [b"".join(line + b"\n" for line in lines[at : at + per_member]) for at in starts]
