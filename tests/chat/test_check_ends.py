"""`check` finds where odd templates end a turn, and says yes where nothing is wrong."""

import pytest

from agentfly.chat import check_template
from agentfly.chat.template_check.bare_template import bare_renderer

PLAIN = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ {'user': 'Guest: ', 'assistant': 'Host: '}[m.role] + m.content | trim }}{{ '\n\n' }}"
    "{% endfor %}{% if add_generation_prompt %}Host:{% endif %}"
)
"""No mark at all behind a turn."""

BARE = (
    "{% for m in messages %}{% if m.role == 'user' %}Q {% else %}A {% endif %}{{ m.content }}"
    "{% endfor %}{% if add_generation_prompt %}A {% endif %}"
)
"""Nothing between an answer and the next question: white space at its end is the answer's own."""

TWO_ENDS = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{% set last = loop.last %}"
    "<|asst|>\n{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<tool_call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}'
    '{% if not last %}, "id": "{{ c.id }}"{% endif %}}</tool_call>{% endfor %}'
    "{{ '\n<|end|>\n' + eos_token }}"
    "{% else %}<|{{ m.role }}|>\n{{ m.content }}\n<|end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|asst|>\n{% endif %}"
    "{# <|user|> <|tool|> <|system|> {{ tools }} #}"
)
"""A mark, then the end token; and calls that get their ids only once more is said."""

STANDING = (
    "{% for m in messages %}<|open|>{{ m.role }}: {{ m.content }}<|close|>{% endfor %}"
    "<|open|>system: Answer in one line.<|close|>"
    "{% if add_generation_prompt %}<|open|>assistant: {% endif %}"
)
"""A message of the template's own behind every conversation."""

REPLY_INSIDE = (
    "{% for m in messages %}{% set follows = not loop.last and loop.nextitem.role == 'tool' %}"
    "{% if m.role == 'tool' %}<|result>{{ m.content }}<result|>"
    "{% else %}<|turn>{{ m.role }}\n{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<tool_call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'
    "</tool_call>{% endfor %}{% if not follows %}<turn|>\n{% endif %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt and messages[-1].role != 'tool' %}<|turn>assistant\n{% endif %}"
)
"""A turn that calls is ended only as long as no result follows."""


@pytest.mark.parametrize("source", [PLAIN, BARE, TWO_ENDS, STANDING, REPLY_INSIDE])
def test_an_odd_end_is_not_taken_for_a_fault(source: str) -> None:
    report = check_template(bare_renderer(source))
    wrong = [str(finding) for finding in report.findings if finding.passed is False]
    assert wrong == []


def test_the_end_behind_a_mark_is_the_end_of_answers_and_calls() -> None:
    report = check_template(bare_renderer(TWO_ENDS))
    ends = [
        turn.expected.end
        for result in report.scenarios
        for turn in result.turns
        if not result.refused
    ]
    assert set(ends) == {"<|eos|>"}
    assert [text for text, _ in report.end_tokens] == ["<|eos|>"]


def test_a_fall_back_quotes_a_call_that_can_not_be_read() -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}[{{ c.function.name }}("
        "{% for key, value in c.function.arguments | items %}{{ key }}={{ value | tojson }}"
        "{% endfor %})]{% endfor %}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    report = check_template(bare_renderer(source))
    assert report.format_source == "fallback"
    assert 'query="Zürich, 好"days=3exact=true' in report.fallback_reason
