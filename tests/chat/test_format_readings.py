"""Each format on outputs as models write them, well-formed and not."""

import json

import pytest

from agentfly.chat.formats import Reading, code_format, get_format, tag_format
from agentfly.types import ToolCall, ToolSpec

CUT_OFF = "the call was cut off before its end"


def read(name: str, text: str) -> Reading:
    return get_format(name).read(text)


def brief(reading: Reading) -> list[tuple[str, str]]:
    assert all(call.problem is None for call in reading.calls), reading.calls
    return [(call.name, call.arguments) for call in reading.calls]


def only(reading: Reading) -> ToolCall:
    (call,) = reading.calls
    return call


KIMI = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
DEEPSEEK = "<｜tool▁call▁begin｜>f<｜tool▁sep｜>"
DEEPSEEK_TWO_CALLS = (
    "Let me look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n"
    '{"query":"cats"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n'
    "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
WELL_FORMED = {
    "hermes": (
        'Let me look.\n<tool_call>\n{"name": "search", "arguments": {"query":"cats"}}\n</tool_call>'
        '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    ),
    "llama-json": (
        'Let me look. <|python_tag|>{"name": "search", "parameters": {"query":"cats"}}; '
        '{"name": "now", "parameters": {}}'
    ),
    "json": (
        'Let me look.\n```json\n[{"name": "search", "arguments": {"query":"cats"}},\n '
        '{"name": "now", "arguments": {}}]\n```\n'
    ),
    "mistral": (
        'Let me look.[TOOL_CALLS] [{"name": "search", "arguments": {"query":"cats"}}, '
        '{"name": "now", "arguments": {}}]'
    ),
    "mistral-v11": 'Let me look.[TOOL_CALLS]search[ARGS]{"query":"cats"}[TOOL_CALLS]now[ARGS]{}',
    "deepseek-v3": DEEPSEEK_TWO_CALLS,
    "deepseek-v3.1": (
        "Let me look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>"
        '{"query":"cats"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>'
        "<｜tool▁calls▁end｜>"
    ),
    "kimi": (
        "Let me look.<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0"
        '<|tool_call_argument_begin|>{"query":"cats"}<|tool_call_end|><|tool_call_begin|>'
        "functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "harmony": (
        "<|channel|>commentary<|message|>Let me look.<|end|>"
        "<|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>"
        '{"query":"cats"}<|call|>'
        "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}"
    ),
    "react": (
        'Let me look.\nAction: search\nAction Input: {"query":"cats"}\n'
        "Action: now\nAction Input: {}\nObservation:"
    ),
}
"""The same two calls with the same words before them. The odd spacing must come back untouched."""


@pytest.mark.parametrize("name", WELL_FORMED)
def test_two_calls_with_text_before_them(name: str) -> None:
    reading = read(name, WELL_FORMED[name])
    assert brief(reading) == [("search", '{"query":"cats"}'), ("now", "{}")]
    assert reading.content == "Let me look."
    assert not any(call.repaired for call in reading.calls)


@pytest.mark.parametrize("name", sorted(WELL_FORMED.keys() - {"kimi"}))
def test_calls_without_ids_are_numbered(name: str) -> None:
    assert [call.id for call in read(name, WELL_FORMED[name]).calls] == ["call_0", "call_1"]


def test_ids_that_a_format_carries_are_kept() -> None:
    assert [call.id for call in read("kimi", WELL_FORMED["kimi"]).calls] == [
        "functions.search:0",
        "functions.now:1",
    ]
    listed = '[TOOL_CALLS] [{"name": "f", "arguments": {}, "id": "a1b2c3d4e"}]'
    assert only(read("mistral", listed)).id == "a1b2c3d4e"
    assert only(read("mistral", "[TOOL_CALLS]f[CALL_ID]a1b2c3d4e[ARGS]{}")).id == "a1b2c3d4e"


@pytest.mark.parametrize("name", ["qwen3-coder", "glm"])
def test_tagged_parameters(name: str) -> None:
    parameter = {
        "qwen3-coder": "<parameter={}>\n{}\n</parameter>\n",
        "glm": "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n",
    }[name]
    opening = {"qwen3-coder": "<function=search>\n", "glm": "search\n"}[name]
    closing = {"qwen3-coder": "</function>\n", "glm": ""}[name]
    values = [("query", "two\nlines"), ("limit", "3"), ("tags", '["a",  1]'), ("exact", "true")]
    body = "".join(parameter.format(*pair) for pair in values)
    start = "<tool_call>\n" if name == "qwen3-coder" else "<tool_call>"
    reading = read(name, f"Let me look.\n{start}{opening}{body}{closing}</tool_call>")
    (call,) = brief(reading)
    assert call[0] == "search"
    assert json.loads(call[1]) == {
        "query": "two\nlines",
        "limit": 3,
        "tags": '["a",  1]',
        "exact": True,
    }
    assert reading.content == "Let me look."
    assert not only(reading).repaired


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1.5", -1.5),
        ("1.50", "1.50"),
        ("007", "007"),
        ("NaN", "NaN"),
        ("", ""),
        (" 3", " 3"),
        ("null", None),
        ('{"a": [true]}', {"a": [True]}),
        ('{"a":[true]}', '{"a":[true]}'),
        ('"a"', '"a"'),
    ],
)
def test_only_json_that_loses_nothing_is_read_as_json(text: str, value: object) -> None:
    call = only(
        read("glm", f"<tool_call>f\n<arg_key>x</arg_key><arg_value>{text}</arg_value></tool_call>")
    )
    assert json.loads(call.arguments) == {"x": value}


def test_pythonic_lists() -> None:
    text = "Sure: [search(query='it\\'s', limit=-3, deep={'a': [True, null]}), my.tool()]"
    reading = read("llama-pythonic", text)
    arguments = '{"query": "it\'s", "limit": -3, "deep": {"a": [true, null]}}'
    assert brief(reading) == [("search", arguments), ("my.tool", "{}")]
    assert reading.content == "Sure:"


@pytest.mark.parametrize("marks", [("<|tool_call_start|>", "<|tool_call_end|>"), ("", "")])
def test_lfm2_reads_a_pythonic_list_with_and_without_its_marks(marks: tuple[str, str]) -> None:
    reading = read("lfm2", f"Sure. {marks[0]}[search(query='cats')]{marks[1]}")
    assert brief(reading) == [("search", '{"query": "cats"}')]
    assert reading.content == "Sure."


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("query=cats, and dogs, limit=3", '{"query": "cats, and dogs", "limit": 3}'),
        ("query=, code=007", '{"query": "", "code": "007"}'),
        ("query=it's (so) said, limit=3", '{"query": "it\'s (so) said", "limit": 3}'),
        ('query="a, b=c", limit="3"', '{"query": "a, b=c", "limit": "3"}'),
        ('query="two\nlines", limit=x', '{"query": "two\\nlines", "limit": "x"}'),
        ("query='cats', deep=[True, None]", '{"query": "cats", "deep": [true, null]}'),
    ],
)
def test_python_calls_with_values_as_text(text: str, arguments: str) -> None:
    reading = read("python-text", f"Sure: [search({text}), now()] Done.")
    assert brief(reading) == [("search", arguments), ("now", "{}")]
    assert reading.content == "Sure:\nDone."


def test_a_list_that_is_cut_in_a_text_value_is_a_call_with_a_problem() -> None:
    (call,) = read("python-text", "[search(query=cats and").calls
    assert call.problem is not None


def test_types_come_from_the_schema_where_every_value_is_quoted() -> None:
    text = (
        "<start_function_call>call:f{city:<escape>Rome, it's<escape>,days:<escape>3<escape>,"
        "tags:<escape>['a', 'b']<escape>}<end_function_call>"
    )
    form = get_format("function-gemma")
    kinds = {"city": "string", "days": "integer", "tags": "array"}
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    tool = ToolSpec(name="f", description="", parameters={"properties": properties})
    (call,) = form.typed(form.read(text).calls, [tool])
    assert json.loads(call.arguments) == {"city": "Rome, it's", "days": 3, "tags": ["a", "b"]}


def test_a_built_in_tool_of_llama() -> None:
    reading = read("llama-json", '<|python_tag|>brave_search.call(query="cats")')
    assert brief(reading) == [("brave_search", '{"query": "cats"}')]


# --- Slips that are mended --------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "f", "arguments": {"a": 1,},}',
        "{'name': 'f', 'arguments': {'a': 1}}",
        '{"name": "f", "arguments": {"a": 1}',
        '{"name": "f", "arguments": {"a": 1}}}',
        '```json\n{"name": "f", "parameters": {"a": 1}}\n```',
        '{"name": "f", "arguments": "{\\"a\\": 1}"}',
        '{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}',
        "{name: f, arguments: {a: 1}}",
        'I call {"name": "f", "arguments": {"a": 1}}',
    ],
)
def test_slips_in_a_json_call_are_repaired(body: str) -> None:
    call = only(read("hermes", f"<tool_call>\n{body}\n</tool_call>"))
    assert (call.name, json.loads(call.arguments), call.repaired) == ("f", {"a": 1}, True)
    assert call.problem is None


@pytest.mark.parametrize("name", ["hermes", "json", "llama-json", "mistral"])
def test_wrong_quotes_keep_the_quotes_inside(name: str) -> None:
    opening, closing = {
        "hermes": ("<tool_call>", "</tool_call>"),
        "mistral": ("[TOOL_CALLS] [", "]"),
    }.get(name, ("", ""))
    text = """{'name': 'f', 'arguments': {'said': 'it\\'s "fine"'}}"""
    call = only(read(name, opening + text + closing))
    assert json.loads(call.arguments) == {"said": """it's "fine\""""}
    assert call.repaired


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kimi", f"{KIMI}{{'a': 1,}}<|tool_call_end|>"),
        ("kimi", f'{KIMI}"{{\\"a\\": 1}}"<|tool_call_end|>'),
        ("deepseek-v3", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{'a': 1,}<｜tool▁call▁end｜>"),
        ("mistral-v11", "[TOOL_CALLS]f[ARGS]{'a': 1,}"),
        ("mistral-v11", '[TOOL_CALLS]f{"a": 1, }'),
        ("harmony", "<|channel|>commentary to=functions.f<|message|>{'a': 1,}"),
        ("react", "Action: f\nAction Input: {'a': 1,}\n"),
    ],
)
def test_slips_in_arguments_are_repaired(name: str, text: str) -> None:
    call = only(read(name, text))
    assert (call.name, call.arguments, call.repaired) == ("f", '{"a": 1}', True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}}'),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}'),
        ("hermes", '{"name": "f", "arguments": {"a": 1}}</tool_call>'),
        ("qwen3-coder", "<tool_call><function=f><parameter=a>1</parameter></function>"),
        ("qwen3-coder", "<function=f><parameter=a>1</parameter></function>"),
        ("qwen3-coder", "<tool_call><function=f><parameter=a>\n1\n</function></tool_call>"),
        ("glm", "<tool_call>f<arg_key>a</arg_key><arg_value>1</tool_call>"),
        ("json", '{"name": "f", "arguments": {"a": 1}'),
        ("kimi", '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}'),
        ("deepseek-v3.1", '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁calls▁end｜>'),
    ],
)
def test_a_missing_tag_is_repaired_where_the_call_is_whole(name: str, text: str) -> None:
    call = only(read(name, text))
    assert (call.name, json.loads(call.arguments), call.problem) == ("f", {"a": 1}, None)
    assert call.repaired


def test_two_calls_in_one_tag_and_text_after_an_unclosed_one() -> None:
    body = '{"name": "f", "arguments": {}}\n{"name": "g", "arguments": {}}'
    assert [name for name, _ in brief(read("hermes", f"<tool_call>{body}</tool_call>"))] == [
        "f",
        "g",
    ]
    reading = read("hermes", '<tool_call>{"name": "f", "arguments": {}}\nThe set {1, 2}.')
    assert (len(reading.calls), reading.content) == (1, "The set {1, 2}.")
    unclosed = '<tool_call>{"name": "f", "arguments": {}}<tool_call>{"name": "g", "arguments": {}}'
    assert [name for name, _ in brief(read("hermes", unclosed))] == ["f", "g"]


def test_arguments_that_were_left_out_are_none() -> None:
    for body in ('{"name": "f"}', '{"name": "f", "arguments": null}'):
        assert brief(read("hermes", f"<tool_call>{body}</tool_call>")) == [("f", "{}")]
    assert brief(read("kimi", f"{KIMI}<|tool_call_end|>")) == [("f", "{}")]


def test_nested_tags_count_once() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    reading = read("hermes", f"<tool_call>{call}</tool_call>")
    assert (brief(reading), reading.content) == ([("f", "{}")], "")


# --- Tags inside arguments --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "opening", "closing", "tag"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": ', "}</tool_call>", "</tool_call>"),
        ("hermes", '<tool_call>{"name": "f", "arguments": ', "}</tool_call>", "<tool_call>"),
        ("mistral-v11", "[TOOL_CALLS]f[ARGS]", "", "[TOOL_CALLS]g[ARGS]"),
        ("kimi", KIMI, "<|tool_call_end|>", "<|tool_call_end|>"),
        ("deepseek-v3.1", DEEPSEEK, "<｜tool▁call▁end｜>", "<｜tool▁call▁end｜>"),
        ("harmony", "<|channel|>commentary to=functions.f<|message|>", "<|call|>", "<|call|>"),
        ("json", '{"name": "f", "arguments": ', "}", '{\\"name\\": \\"g\\"}'),
        ("react", "Action: f\nAction Input: ", "", "Action: g Observation:"),
    ],
)
def test_a_tag_inside_a_string_is_text(name: str, opening: str, closing: str, tag: str) -> None:
    arguments = f'{{"text": "say {tag} here"}}'
    reading = read(name, opening + arguments + closing)
    assert brief(reading) == [("f", arguments)]
    assert (reading.content, only(reading).repaired) == ("", False)


def test_a_tag_inside_a_tagged_parameter_is_text() -> None:
    value = 'x = "</parameter>"\ny = "</tool_call>"'
    tagged = f"<parameter=code>\n{value}\n</parameter>"
    body = f"<tool_call>\n<function=f>\n{tagged}\n</function>\n</tool_call>"
    assert json.loads(only(read("qwen3-coder", body)).arguments) == {"code": value}
    value = "a </arg_value> b"
    body = f"<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>{value}</arg_value>\n</tool_call>"
    assert json.loads(only(read("glm", body)).arguments) == {"x": value}


# --- Calls that can't be read -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", "I'll look. <tool_c"),
        ("hermes", "I'll look. <tool_call>"),
        ("hermes", 'I\'ll look. <tool_call>\n{"name": "search", "argum'),
        ("hermes", 'I\'ll look. <tool_call>\n{"name": "search", "arguments": {"query": "ca'),
        ("hermes", 'I\'ll look. <tool_call>\n{"name": "search", "arguments": {"query": "cats"'),
        ("qwen3-coder", "I'll look. <tool_call>\n<func"),
        ("qwen3-coder", "I'll look. <tool_call>\n<function=sea"),
        ("qwen3-coder", "I'll look. <tool_call>\n<function=f>\n<parameter=query>\nca"),
        ("qwen3-coder", "I'll look. <tool_call>\n<function=f>\n<parameter=a>\nca\n</parameter>\n"),
        ("glm", "I'll look. <tool_call>sea"),
        ("glm", "I'll look. <tool_call>f\n<arg_key>a</arg_key>\n<arg_value>ca"),
        ("glm", "I'll look. <tool_call>f\n<arg_key>a</arg_key>\n<arg_value>ca</arg_value>\n"),
        ("llama-json", 'I\'ll look. {"name": "search", "parameters": {"query": "ca'),
        ("llama-json", "I'll look. <|python_tag|>"),
        ("json", 'I\'ll look. {"name": "search", "argum'),
        ("llama-pythonic", "I'll look. [search(query='ca"),
        ("lfm2", "I'll look. <|tool_call_start|>"),
        ("mistral", 'I\'ll look. [TOOL_CALLS] [{"name": "search", "argum'),
        ("mistral", "I'll look. [TOOL_CALLS]"),
        ("mistral-v11", "I'll look. [TOOL_CALLS]sear"),
        ("mistral-v11", 'I\'ll look. [TOOL_CALLS]search[ARGS]{"query": "ca'),
        ("deepseek-v3", "I'll look. <｜tool▁calls▁begin｜>"),
        ("deepseek-v3", "I'll look. <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function"),
        ("deepseek-v3", "I'll look. <｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{"),
        ("kimi", "I'll look. <|tool_calls_section_begin|><|tool_call_begin|>functions.sea"),
        ("kimi", "I'll look. <|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{"),
        ("harmony", "I'll look.<|end|><|start|>assistant<|channel|>commentary to=functions.search"),
        ("harmony", "I'll look.<|end|><|channel|>commentary to=functions.search<|message|>{"),
        ("react", "I'll look.\nAction: search"),
        ("react", 'I\'ll look.\nAction: search\nAction Input: {"query": "ca'),
        ("code", "I'll look.\n```python\nprint("),
        ("tags", "I'll look. <search>ca"),
    ],
)
def test_a_completion_cut_in_a_call_is_a_call_with_a_problem(name: str, text: str) -> None:
    reading = read(name, text)
    assert only(reading).problem == CUT_OFF
    assert reading.content == "I'll look."


def test_a_closing_tag_cut_in_the_middle_leaves_the_call_whole() -> None:
    reading = read("hermes", '<tool_call>{"name": "f", "arguments": {}}</tool_ca')
    assert (brief(reading), reading.content) == ([("f", "{}")], "")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("hermes", "<tool_call>search for cats</tool_call>", "got 'search for cats'"),
        ("hermes", "<tool_call></tool_call>", "expected a call as one JSON object"),
        ("hermes", '<tool_call>{"arguments": {"a": 1}}</tool_call>', 'no "name"'),
        ("hermes", "<tool_call>{'arguments': {'a': 1}}</tool_call>", 'no "name"'),
        ("hermes", '<tool_call>{"name": 3, "arguments": {}}</tool_call>', 'no "name"'),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": "b"c"}}</tool_call>', "JSON"),
        ("qwen3-coder", '<tool_call>\n{"name": "f"}\n</tool_call>', "<function=NAME>"),
        ("qwen3-coder", "<tool_call><function=f>x</function></tool_call>", "<parameter=KEY>"),
        ("glm", '<tool_call>{"name": "f"}</tool_call>', "<arg_key>KEY</arg_key>"),
        ("glm", "<tool_call>f for cats</tool_call>", "<arg_key>KEY</arg_key>"),
        ("llama-json", "<|python_tag|>print(1) + 2", '"parameters"'),
        ("llama-pythonic", "[search('cats')]", "by name, such as search(key=value)"),
        ("llama-pythonic", "[search(query=cats)]", "must be plain values, got 'cats'"),
        ("llama-pythonic", "[search(query=)]", "expected calls such as"),
        ("mistral", "[TOOL_CALLS]search[ARGS]cats", "arguments as a JSON object, got 'cats'"),
        ("mistral", "[TOOL_CALLS][ARGS]{}", "no name"),
        ("kimi", "<|tool_call_begin|><|tool_call_argument_begin|>{}<|tool_call_end|>", "no name"),
        ("deepseek-v3.1", f"{DEEPSEEK}`[1]`<｜tool▁call▁end｜>", "JSON object"),
        ("harmony", "<|channel|>commentary to=functions.f<|message|>cats", "got 'cats'"),
        ("react", "Action: search\nAction Input: cats", "got 'cats'"),
        ("react", "Action: search\nThought: hm\n", '"Action Input:" line'),
        ("react", "Action: search\nObservation:", '"Action Input:" line'),
    ],
)
def test_an_unreadable_call_says_what_was_expected(name: str, text: str, told: str) -> None:
    call = only(read(name, text))
    assert told in (call.problem or "")
    assert not call.repaired


def test_the_name_of_an_unreadable_call_is_kept_where_it_is_known() -> None:
    text = '<tool_call>{"name": "search", "arguments": {"query": "ca'
    assert only(read("hermes", text)).name == "search"
    assert only(read("react", "Action: search\nAction Input: cats")).name == "search"


def test_a_malformed_call_beside_a_good_one_harms_only_itself() -> None:
    text = '<tool_call>oops</tool_call>\n<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    bad, good = read("hermes", text).calls
    one_tag = '<tool_call>{"name": "f", "arguments": {}}\n{"name": "g" oops}</tool_call>'
    assert [call.problem is None for call in read("hermes", one_tag).calls] == [True, False]
    assert bad.problem
    assert (good.name, good.problem, good.id) == ("f", None, "call_1")


# --- Answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 42.",
        "The answer is <t",
        ' {"name": "Ann", "age": 3}\n',
        '{"person": {"name": "Ann"}}',
        "{'name': 'Ann', 'age': 3}",
        "a < b, [f(x) for x in y], [f(x), y], {1, 2}, `f(1)`",
        "",
    ],
)
def test_other_text_is_the_answer_word_for_word(text: str) -> None:
    for name in ("hermes", "qwen3-coder", "glm", "llama-json", "json", "llama-pythonic", "mistral"):
        assert read(name, text) == Reading(content=text)


def test_react_answers_with_its_final_answer() -> None:
    text = "Thought: I know.\nFinal Answer: 42\nand no more\n"
    assert read("react", text) == Reading(content="42\nand no more")
    acted = read("react", "Thought: hm\nAction: f\nAction Input: {}\nFinal Answer: 42")
    assert brief(acted) == [("f", "{}")]


def test_react_stops_before_an_observation_that_the_model_made_up() -> None:
    reading = read("react", "Action: f\nAction Input: {}\nObservation: 7\nFinal Answer: 7")
    assert (brief(reading), reading.content) == ([("f", "{}")], "")


def test_harmony_separates_reasoning_calls_and_answer() -> None:
    text = (
        "<|channel|>analysis<|message|>Hm, cats.<|end|><|start|>assistant<|channel|>analysis"
        "<|message|>Yes.<|end|><|start|>assistant<|channel|>final<|message|>Here they are."
    )
    reading = read("harmony", text)
    assert (reading.content, reading.reasoning) == ("Here they are.", "Hm, cats.\nYes.")
    assert [text[start:end] for start, end in reading.reasoning_spans] == ["Hm, cats.", "Yes."]


def test_harmony_sends_bare_code_to_its_built_in_interpreter() -> None:
    reading = read("harmony", "<|channel|>analysis to=python code<|message|>print(1)\n<|call|>")
    assert brief(reading) == [("python", '{"code": "print(1)\\n"}')]


def test_code_blocks() -> None:
    text = "First\n```python\nprint('```')\n\n```\nthen\n```py\n1\n```\nand\n```text\nno code\n```"
    reading = read("code", text)
    assert [json.loads(arguments) for _, arguments in brief(reading)] == [
        {"code": "print('```')\n"},
        {"code": "1"},
    ]
    assert reading.content == "First\nthen\nand\n```text\nno code\n```"
    shell = code_format(tool="run", parameter="script", languages=("bash",))
    assert brief(shell.read("```bash\nls\n```")) == [("run", '{"script": "ls"}')]
    assert shell.read("```python\nls\n```").calls == ()


def test_tags() -> None:
    tags = tag_format({"search": "query", "python": "code"})
    assert tags.stop_strings == ("</search>", "</python>", "</answer>")
    reading = tags.read("Hm. <search> cats </search>")
    assert (brief(reading), reading.content) == ([("search", '{"query": "cats"}')], "Hm.")
    assert brief(tags.read("<python>a <search> b</python>")) == [
        ("python", '{"code": "a <search> b"}')
    ]
    assert tags.read("So: <answer> 42 </answer>.") == Reading(content="42")
    assert tags.read("So: <answer>4") == Reading(content="4")
    assert tags.read("<other>x</other>") == Reading(content="<other>x</other>")
