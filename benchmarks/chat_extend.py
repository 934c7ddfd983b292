"""Cost of extending a conversation by its number of turns, with streams kept and with streams cut.

Each turn thinks, calls a tool and gets a result. The template drops reasoning once a user speaks
again, so that with `on_rewrite="cut"` every turn asks whether the history was rewritten.
"""

import gc
import json
import time

from agentfly.chat import CHATML, CHATML_TOKENS, ByteTokenizer, TemplateRenderer
from agentfly.chat.template_renderer import OnRewrite
from agentfly.types import Completion, FinishReason, Message, ToolCall, ToolSpec

TURNS = 200
COMPARED = 10
"""Number of turns at either end that are compared."""
RUNS = 5
MOST_GROWTH = 1.5

TOOL = ToolSpec(
    name="look_up",
    description="Look something up.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}},
)
_LAST_QUESTION = (
    "{%- set ns = namespace(last=0) %}{%- for m in messages %}{%- if m.role == 'user' %}"
    "{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}"
)
_REASONING = (
    "}}{%- if message.reasoning_content and loop.index0 > ns.last %}"
    "{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{%- endif %}{{- "
)
DROPS_REASONING = _LAST_QUESTION + CHATML.replace(
    "+ message.content }}\n{%- for call", _REASONING + "message.content }}\n{%- for call"
)


def seconds_of_turns(renderer: TemplateRenderer) -> list[float]:
    """Return the processor time of each turn's extension."""
    history, times = [Message(role="user", content="How is the weather?")], list[float]()
    for number in range(TURNS):
        call = ToolCall(
            id=f"call_{number}", name=TOOL.name, arguments=json.dumps({"query": f"town {number}"})
        )
        history.append(Message(role="assistant", reasoning="I look it up.", tool_calls=(call,)))
        text = f"<think>\nI look it up.\n</think>\n\n{renderer.call_format.write([call])}"
        ids = (*renderer.tokenizer.encode(text), renderer.stop_token_ids[0])
        completion = Completion(
            token_ids=ids,
            logprobs=(0.0,) * len(ids),
            versions=((0, len(ids)),),
            finish_reason=FinishReason.STOP,
        )
        reply = Message(role="tool", content="Rain. " * 20, name=call.name, tool_call_id=call.id)
        begin = time.process_time()
        renderer.extend(history, completion, [reply], [TOOL])
        times.append(time.process_time() - begin)
        history.append(reply)
    return times


def growth(on_rewrite: OnRewrite) -> tuple[float, float]:
    """Return how many times as long the last turns take as the first, and how long one takes."""
    tokenizer = ByteTokenizer([*CHATML_TOKENS, "<think>", "</think>"], eos_token="<|im_end|>")
    renderer = TemplateRenderer(tokenizer, DROPS_REASONING, on_rewrite=on_rewrite)
    seconds_of_turns(renderer)  # what is learned once is not counted
    gc.collect()
    runs = [seconds_of_turns(renderer) for _ in range(RUNS)]
    least = [min(times) for times in zip(*runs, strict=True)]
    first, last = sum(least[:COMPARED]), sum(least[-COMPARED:])
    return last / first, last / COMPARED


def measure() -> tuple[dict[str, float], dict[str, str]]:
    """Return the growth of both modes."""
    numbers: dict[str, float] = {}
    modes: tuple[OnRewrite, ...] = ("keep", "cut")
    for mode in modes:
        grown, seconds = growth(mode)
        print(f"  extend, {mode}: {grown:.2f} times; {seconds * 1e3:.2f} ms a turn")
        numbers[f"extend_growth_{mode}"] = grown
        numbers[f"extend_seconds_{mode}"] = seconds
    aim = f"at most {MOST_GROWTH}: the last ten turns of {TURNS} against the first ten"
    return numbers, {f"extend_growth_{mode}": aim for mode in modes}
