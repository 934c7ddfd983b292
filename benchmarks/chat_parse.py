"""Time of parsing a completion by its length, in every format and for the worst texts known.

A shape is a text that repeats: the calls of a format as it writes them, every beginning of one
(a degenerate model repeats half a call), and what no format is ready for. Each is parsed
at 1,000 and at 32,000 tokens of four characters; linear reading takes 32 times as long.
"""

import re
import time
from collections.abc import Iterator

from agentfly.chat import CHATML, ByteTokenizer, TemplateRenderer
from agentfly.chat.formats import FORMATS, CallFormat
from agentfly.types import Completion, FinishReason, ToolCall

SHORT, LONG = 1_000, 32_000
CHARACTERS = 4
"""Characters of a token: bytes are used instead of a tokenizer."""
MOST_GROWTH = 40.0
SUSPICIOUS = 36.0
"""Growth above this is measured again, because a busy machine disturbs single runs."""
AGAIN = 12
LEAST_SECONDS = 0.002
"""Below this time fixed costs dominate, and the growth is not meaningful."""

COMMON = (
    *("{", '{"', '{"a": ', '{"a":[1,', '\\"', "'\"", "{a:b:", '{"name":', '{"name":{', "[", "("),
    *("<think></think>", "<think>x</think>\n", "<think>", "</think>", " ", "\n", "a "),
    *("<tool_call>{", "<tool_call>{'a': '", "</parameter> ", "```python\n`", "<|end|>"),
    *("<|channel|>analysis<|message|>hm<|end|><|start|>assistant", "<|channel|>to=f<|message|>{"),
)
_BOUNDARY = re.compile(r"(?<=[>\]}:=\n])")


def shapes(call_format: CallFormat) -> Iterator[str]:
    """Yield the texts that are repeated."""
    yield from COMMON
    call = ToolCall(id="call_0", name="f", arguments='{"a": "b", "c": [1, {"d": null}]}')
    written = call_format.write([call])
    yield written
    yield from {written[: boundary.start()] for boundary in _BOUNDARY.finditer(written)} - {""}


def seconds(renderer: TemplateRenderer, unit: str, tokens: int) -> float:
    """Return the time in which a text of this length is read.

    A short one is read so often that it takes as long as the longest: what else the machine does
    then disturbs both alike.
    """
    text = unit * (tokens * CHARACTERS // len(unit.encode()) + 1)
    ids = tuple(renderer.tokenizer.encode(text)[: tokens * CHARACTERS])
    completion = Completion(
        token_ids=ids,
        logprobs=(0.0,) * len(ids),
        versions=((0, len(ids)),),
        finish_reason=FinishReason.LENGTH,
    )
    times = LONG // tokens
    begin = time.process_time()
    for _ in range(times):
        renderer.parse(completion)
    return (time.process_time() - begin) / times


def growth(renderer: TemplateRenderer, unit: str) -> tuple[float, float]:
    """Return how many times as long the long text takes, and how long that is."""
    grown = long = short = float("inf")
    for _ in range(1 + AGAIN):
        long = min(long, seconds(renderer, unit, LONG))
        short = min(short, seconds(renderer, unit, SHORT))
        grown = long / max(short, LEAST_SECONDS * SHORT / LONG)
        if grown <= SUSPICIOUS:
            break
    return grown, long


def measure() -> tuple[dict[str, float], dict[str, str]]:
    """Return the worst growth and the longest time of each format."""
    numbers: dict[str, float] = {}
    for name, call_format in FORMATS.items():
        tokenizer = ByteTokenizer(["<|im_start|>", "<|im_end|>"], eos_token="<|im_end|>")
        renderer = TemplateRenderer(tokenizer, CHATML, format=call_format)
        found = {unit: growth(renderer, unit) for unit in dict.fromkeys(shapes(call_format))}
        worst = max(found, key=lambda unit: found[unit][0])
        slowest = max(times for _, times in found.values())
        print(f"  {name}: {found[worst][0]:.0f} times at {worst!r}; at most {slowest:.2f} s")
        numbers[f"parse_growth_{name}"] = found[worst][0]
        numbers[f"parse_seconds_{name}"] = slowest
    growths = [value for key, value in numbers.items() if "growth" in key]
    numbers["parse_growth"] = max(growths)
    return numbers, {"parse_growth": f"at most {MOST_GROWTH:.0f}, as 32 times the tokens"}
