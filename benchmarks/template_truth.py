r"""Tool calls of real chat templates: a table written by hand, from reading the templates.

For each way of writing calls, the text of one call and of two:

    get_weather with {"city": "Rome", "days": 3}
    get_weather with {"city": "Rome", "days": 3}, and get_weather with {"city": "Paris"}

and for each template, which way it has. Nothing here is computed by the package that it is the
truth for.
"""

from dataclasses import dataclass
from typing import Any

NAME = "get_weather"
FIRST: dict[str, Any] = {"city": "Rome", "days": 3}
SECOND: dict[str, Any] = {"city": "Paris"}
IDS = ("callid000", "callid001")
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Look up the weather.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where."},
                "days": {"type": "integer", "description": "How many days ahead."},
            },
            "required": ["city"],
        },
    },
}


@dataclass(frozen=True, slots=True)
class Calls:
    """The text of one call and of two; None where templates of this kind refuse or drop them."""

    one: str
    two: str | None


_ROME = '{"city": "Rome", "days": 3}'
_PARIS = '{"city": "Paris"}'
_JSON_ROME = f'{{"name": "get_weather", "arguments": {_ROME}}}'
_JSON_PARIS = f'{{"name": "get_weather", "arguments": {_PARIS}}}'
_HERMES = f"<tool_call>\n{_JSON_ROME}\n</tool_call>"
_CODER = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
)
_SEED = (
    "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Rome</parameter>\n"
    "<parameter=days>3</parameter>\n</function>\n</seed:tool_call>"
)
_GLM = (
    "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
)
_M3 = "]<]minimax[>["
_M3_ROME = (
    f'{_M3}<invoke name="get_weather">{_M3}<city>Rome{_M3}</city>{_M3}<days>3{_M3}</days>'
    f"{_M3}</invoke>\n"
)
_DSML_ROME = (
    '<｜DSML｜invoke name="get_weather">\n'
    '<｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n"
)
_DSML_PARIS = (
    '<｜DSML｜invoke name="get_weather">\n'
    '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n"
)
_V3_ROME = (
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
    f"```json\n{_ROME}\n```<｜tool▁call▁end｜>"
)
_V3_PARIS = (
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
    f"```json\n{_PARIS}\n```<｜tool▁call▁end｜>"
)
_V31_ROME = f"<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{_ROME}<｜tool▁call▁end｜>"
_V31_PARIS = f"<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{_PARIS}<｜tool▁call▁end｜>"
_SECTION, _SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_KIMI = "<|tool_call_begin|>functions.get_weather:{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
_SOLAR = "<|tool_call:begin|>{}<|tool_call:name|>get_weather<|tool_call:args|>{}<|tool_call:end|>"
_ATEM_ROME = (
    '<atem:function_calls>\n<atem:invoke name="get_weather">\n'
    '<atem:parameter name="city">Rome</atem:parameter>\n'
    '<atem:parameter name="days">3</atem:parameter>\n</atem:invoke>\n</atem:function_calls>'
)

CALLS = {
    "hermes": Calls(_HERMES, f"{_HERMES}\n<tool_call>\n{_JSON_PARIS}\n</tool_call>"),
    "qwen3-coder": Calls(
        _CODER,
        f"{_CODER}\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
        "</function>\n</tool_call>",
    ),
    "seed": Calls(
        _SEED,
        f"{_SEED}\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n"
        "</function>\n</seed:tool_call>",
    ),
    "glm": Calls(
        _GLM,
        f"{_GLM}\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "</tool_call>",
    ),
    "minimax-m3": Calls(
        f"{_M3}<tool_call>\n{_M3_ROME}{_M3}</tool_call>",
        f'{_M3}<tool_call>\n{_M3_ROME}{_M3}<invoke name="get_weather">{_M3}<city>Paris{_M3}</city>'
        f"{_M3}</invoke>\n{_M3}</tool_call>",
    ),
    "deepseek-v3.2": Calls(
        f"<｜DSML｜function_calls>\n{_DSML_ROME}</｜DSML｜function_calls>",
        f"<｜DSML｜function_calls>\n{_DSML_ROME}{_DSML_PARIS}</｜DSML｜function_calls>",
    ),
    "deepseek-v3": Calls(
        f"{_SECTION}{_V3_ROME}",  # the distilled models' templates close only two calls
        f"{_SECTION}{_V3_ROME}\n{_V3_PARIS}{_SECTION_END}",
    ),
    "deepseek-v3.1": Calls(
        f"{_SECTION}{_V31_ROME}{_SECTION_END}", f"{_SECTION}{_V31_ROME}{_V31_PARIS}{_SECTION_END}"
    ),
    "kimi": Calls(
        f"<|tool_calls_section_begin|>{_KIMI.format(0, _ROME)}<|tool_calls_section_end|>",
        f"<|tool_calls_section_begin|>{_KIMI.format(0, _ROME)}{_KIMI.format(1, _PARIS)}"
        "<|tool_calls_section_end|>",
    ),
    "mistral": Calls(
        f'[TOOL_CALLS][{{"name": "get_weather", "arguments": {_ROME}, "id": "callid000"}}]',
        f'[TOOL_CALLS][{{"name": "get_weather", "arguments": {_ROME}, "id": "callid000"}}, '
        f'{{"name": "get_weather", "arguments": {_PARIS}, "id": "callid001"}}]',
    ),
    "mistral-v11": Calls(
        f"[TOOL_CALLS]get_weather[ARGS]{_ROME}",
        f"[TOOL_CALLS]get_weather[ARGS]{_ROME}[TOOL_CALLS]get_weather[ARGS]{_PARIS}",
    ),
    "mistral-ids": Calls(
        f"[TOOL_CALLS]get_weather[CALL_ID]callid000[ARGS]{_ROME}",
        f"[TOOL_CALLS]get_weather[CALL_ID]callid000[ARGS]{_ROME}"
        f"[TOOL_CALLS]get_weather[CALL_ID]callid001[ARGS]{_PARIS}",
    ),
    "gemma": Calls(
        '<|tool_call>call:get_weather{city:<|"|>Rome<|"|>,days:3}<tool_call|>',
        '<|tool_call>call:get_weather{city:<|"|>Rome<|"|>,days:3}<tool_call|>'
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>',
    ),
    "solar": Calls(
        f"<|tool_calls|>{_SOLAR.format('callid000', _ROME)}<|calls|>",
        f"<|tool_calls|>{_SOLAR.format('callid000', _ROME)}{_SOLAR.format('callid001', _PARIS)}"
        "<|calls|>",
    ),
    "functionary": Calls(
        f"<function=get_weather>{_ROME}</function>",
        f"<function=get_weather>{_ROME}</function><function=get_weather>{_PARIS}</function>",
    ),
    "apriel": Calls(
        f"<tool_calls>[{_JSON_ROME}]</tool_calls>",
        f"<tool_calls>[{_JSON_ROME}, {_JSON_PARIS}]</tool_calls>",
    ),
    "nemotron": Calls(
        f"<TOOLCALL>[{_JSON_ROME}]</TOOLCALL>",
        f"<TOOLCALL>[{_JSON_ROME}, {_JSON_PARIS}]</TOOLCALL>",
    ),
    "command-r7b": Calls(
        "<|START_ACTION|>[\n"
        f'    {{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {_ROME}}}\n'
        "]<|END_ACTION|>",
        "<|START_ACTION|>[\n"
        f'    {{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {_ROME}}},\n'
        f'    {{"tool_call_id": "1", "tool_name": "get_weather", "parameters": {_PARIS}}}\n'
        "]<|END_ACTION|>",
    ),
    "lfm2": Calls(
        "<|tool_call_start|>[get_weather(city='Rome', days=3)]<|tool_call_end|>",
        "<|tool_call_start|>[get_weather(city='Rome', days=3), get_weather(city='Paris')]"
        "<|tool_call_end|>",
    ),
    "llama-json": Calls(f'{{"name": "get_weather", "parameters": {_ROME}}}', None),
    "harmony": Calls(
        f" to=functions.get_weather<|channel|>commentary json<|message|>{_ROME}<|call|>", None
    ),
    "muse": Calls(
        f" to=get_weather<|message|>{_ATEM_ROME}",
        f" to=get_weather<|message|>{_ATEM_ROME}<|eom|><|start|>assistant to=get_weather"
        '<|message|><atem:function_calls>\n<atem:invoke name="get_weather">\n'
        '<atem:parameter name="city">Paris</atem:parameter>\n</atem:invoke>\n'
        "</atem:function_calls>",
    ),
}
"""The ways of writing calls, by the name of the call format that reads them."""

FORMAT_OF: dict[str, str | None] = {
    # Beside the project
    "Apriel-1.6-15b-Thinker-fixed": "apriel",
    "ByteDance-Seed-OSS": "seed",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command-r7b",
    "GLM-4.6": "glm",
    "HuggingFaceTB-SmolLM3-3B": None,  # calls only as content
    "Kimi-K2-Thinking": None,  # appends to a list, which transformers' sandbox refuses
    "MiMo-VL": "hermes",
    "MiniMax-M3": "minimax-m3",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral-ids",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "qwen3-coder",
    "NVIDIA-Nemotron-Nano-v2": "nemotron",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes",
    "Qwen-QwQ-32B": "hermes",
    "Qwen-Qwen2.5-7B-Instruct": "hermes",
    "Qwen-Qwen3-0.6B": "hermes",
    "Qwen3-Coder": "qwen3-coder",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "deepseek-v3",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek-v3",
    "deepseek-ai-DeepSeek-V3.1": "deepseek-v3.1",
    "deepseek-ai-DeepSeek-V3.2": "deepseek-v3.2",
    "google-gemma-2-2b-it": None,
    "google-gemma-4-31B-it": "gemma",
    "ibm-granite-granite-3.3-2B-Instruct": None,  # calls only as content, see DESCRIBED
    "ibm-granite-granite-4.0": "hermes",
    "meetkai-functionary-medium-v3.1": "functionary",
    "meta-llama-Llama-3.1-8B-Instruct": "llama-json",
    "meta-llama-Llama-3.2-3B-Instruct": "llama-json",
    "meta-llama-Llama-3.3-70B-Instruct": "llama-json",
    "microsoft-Phi-3.5-mini-instruct": None,
    "mistralai-Ministral-3-14B-Reasoning-2512": "mistral-v11",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral",
    "moonshotai-Kimi-K2": "kimi",
    "openai-gpt-oss-120b": "harmony",
    "unsloth-mistral-Devstral-Small-2507": "mistral-v11",
    "upstage-Solar-Open-100B": "solar",
    # In the package trl
    "cohere": None,
    "cohere2": None,
    "deepseek_r1_distill": "deepseek-v3",
    "deepseekv3": "deepseek-v3",
    "diffusion_gemma": "gemma",
    "gemma": None,
    "gemma3": None,
    "gemma4": "gemma",
    "gemma4_v2": "gemma",
    "gemma4_v3": "gemma",
    "gemma4_v4": "gemma",
    "gemma4_v5": "gemma",
    "glm4moe": "glm",
    "gptoss": "harmony",
    "idefics3": None,
    "lfm2": None,  # calls only as content
    "lfm2_2_5": "lfm2",
    "lfm2_2_5_v2": "lfm2",
    "lfm2_2_5_vl": "lfm2",
    "lfm2_v2": "lfm2",
    "llama3": None,
    "llama3_1": "llama-json",
    "llama3_2": "llama-json",
    "llava_next": None,
    "muse_glimmer": "muse",
    "nemotron_3_5_lightning": "qwen3-coder",
    "nemotron_3_nano": "qwen3-coder",
    "nemotron_3_super": "qwen3-coder",
    "nemotron_3_ultra": "qwen3-coder",
    "phi3": None,
    "phi3_5": None,
    "qwen2_5": "hermes",
    "qwen2_5_vl": None,
    "qwen3": "hermes",
    "qwen3_5_nothink": "qwen3-coder",
    "qwen3_5_think": "qwen3-coder",
    "qwen3_6": "qwen3-coder",
    "qwen3_8": "qwen3-coder",
    "qwen3_instruct_2507": "hermes",
    "qwen3_vl": "hermes",
    "smolvlm": None,
}
"""The way of each template, by its file's name; None if it shows no calls."""

DESCRIBED = {"ibm-granite-granite-3.3-2B-Instruct": "granite"}
"""Templates that render no calls, but have instructions for the model to write them."""

END_OF: dict[str, tuple[str, ...]] = {
    "<|im_end|>": (
        *("HuggingFaceTB-SmolLM3-3B", "Kimi-K2-Thinking", "MiMo-VL", "moonshotai-Kimi-K2"),
        *("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use"),
        *("Qwen-QwQ-32B", "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "Qwen3-Coder"),
        *("lfm2", "lfm2_2_5", "lfm2_2_5_v2", "lfm2_2_5_vl", "lfm2_v2"),
        *("nemotron_3_5_lightning", "nemotron_3_nano", "nemotron_3_super", "nemotron_3_ultra"),
        *("qwen2_5", "qwen2_5_vl", "qwen3", "qwen3_instruct_2507", "qwen3_vl"),
        *("qwen3_5_nothink", "qwen3_5_think", "qwen3_6", "qwen3_8"),
    ),
    "<|eot_id|>": (
        *("meetkai-functionary-medium-v3.1", "meta-llama-Llama-3.1-8B-Instruct"),
        *("meta-llama-Llama-3.2-3B-Instruct", "meta-llama-Llama-3.3-70B-Instruct"),
        *("llama3", "llama3_1", "llama3_2"),
    ),
    "<｜end▁of▁sentence｜>": (
        *("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"),
        *("deepseek-ai-DeepSeek-V3.1", "deepseek-ai-DeepSeek-V3.2"),
        *("deepseek_r1_distill", "deepseekv3"),
    ),
    "<turn|>": (
        *("google-gemma-4-31B-it", "diffusion_gemma", "gemma4", "gemma4_v2"),
        *("gemma4_v3", "gemma4_v4", "gemma4_v5"),
    ),
    "<end_of_turn>": ("google-gemma-2-2b-it", "gemma", "gemma3"),
    "<|END_OF_TURN_TOKEN|>": (
        *("CohereForAI-c4ai-command-r7b-12-2024-tool_use", "cohere", "cohere2"),
    ),
    "<|end|>": (
        *("Apriel-1.6-15b-Thinker-fixed", "microsoft-Phi-3.5-mini-instruct", "phi3", "phi3_5"),
        "upstage-Solar-Open-100B",
    ),
    "<|end_of_text|>": ("ibm-granite-granite-3.3-2B-Instruct", "ibm-granite-granite-4.0"),
    "<|return|>": ("openai-gpt-oss-120b", "gptoss"),
    "<|user|>": ("GLM-4.6", "glm4moe"),  # no end of its own: what opens the reply ends the turn
    "<end_of_utterance>": ("idefics3", "smolvlm"),
    "<seed:eos>": ("ByteDance-Seed-OSS",),
    "[e~[": ("MiniMax-M3",),
    "<SPECIAL_12>": ("NVIDIA-Nemotron-Nano-v2",),
    "<|eot|>": ("muse_glimmer",),
    "</s>": ("llava_next",),
    "<|eos|>": (  # `eos_token`, whatever the tokenizer says it is
        *("Mistral-Small-3.2-24B-Instruct-2506", "mistralai-Ministral-3-14B-Reasoning-2512"),
        *("mistralai-Mistral-Nemo-Instruct-2407", "unsloth-mistral-Devstral-Small-2507"),
    ),
}
"""The token that ends an answer, and the templates that write it."""

CALL_END_OF = {
    "meetkai-functionary-medium-v3.1": "<|eom_id|>",
    "openai-gpt-oss-120b": "<|call|>",
    "gptoss": "<|call|>",
    "GLM-4.6": "<|observation|>",
    "glm4moe": "<|observation|>",
    "upstage-Solar-Open-100B": "<|calls|>",
}
"""The token that ends a turn with calls, where it is another."""

REWRITES: dict[str, tuple[str, ...]] = {
    "drops the reasoning of earlier turns": (
        *("GLM-4.6", "glm4moe", "Qwen-QwQ-32B", "Qwen-Qwen3-0.6B", "qwen3"),
        *("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron_3_5_lightning", "nemotron_3_nano"),
        *("nemotron_3_super", "nemotron_3_ultra", "qwen3_5_nothink", "qwen3_5_think", "qwen3_6"),
        *("diffusion_gemma", "gemma4", "gemma4_v3", "gemma4_v4", "gemma4_v5"),
        *("google-gemma-4-31B-it", "lfm2_2_5", "lfm2_2_5_v2", "lfm2_2_5_vl"),
        *("openai-gpt-oss-120b", "gptoss", "upstage-Solar-Open-100B"),
    ),
    "writes reasoning, or its marks, into a prompt and not into the turn behind it": (
        *("Apriel-1.6-15b-Thinker-fixed", "NVIDIA-Nemotron-Nano-v2"),
        *("CohereForAI-c4ai-command-r7b-12-2024-tool_use", "deepseek-ai-DeepSeek-V3.2"),
        *("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"),
        *("deepseek_r1_distill", "deepseekv3"),
    ),
    "writes the system prompt or the tools before the last question, whichever that is": (
        *("Mistral-Small-3.2-24B-Instruct-2506", "mistralai-Mistral-Nemo-Instruct-2407"),
    ),
    "ends a tool's answer otherwise once more follows": (
        "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    ),
}
"""Reasons why templates rewrite earlier messages, and the templates that do."""
