"""A template that never ends is stopped, wherever it loops, and others are not."""

import time

import pytest

from agentfly.chat import ByteTokenizer, ChatTemplate, TemplateRenderer
from agentfly.chat import chat_template as template_module
from agentfly.errors import ConfigError

USER = [{"role": "user", "content": "hi"}]
HANGING = {
    "nested ranges": (
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    ),
    "loops with a filter": (
        "{% for i in range(99999) if i is odd %}{% for j in range(99999) if j is odd %}"
        "{% endfor %}{% endfor %}"
    ),
    "a macro that calls itself twice": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
    ),
    "a loop that calls itself": (
        "{% for i in [1, 2] recursive %}{% if loop.depth < 60 %}{{ loop([1, 2]) }}{% endif %}"
        "{% endfor %}"
    ),
    "short lists": (
        "{% set l = range(50) | list %}"
        + "".join(f"{{% for {name} in l %}}" for name in "abcdefg")
        + "{% endfor %}" * 7
    ),
}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "RENDER_SECONDS", 0.2)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("source", HANGING.values(), ids=HANGING)
def test_a_rendering_that_does_not_end_is_stopped(source: str) -> None:
    with pytest.raises(ConfigError, match=r"stopped after 0\.2 s of processor time"):
        ChatTemplate(source).render(USER, add_generation_prompt=True)


@pytest.mark.parametrize(
    "source",
    ["{{ 9 ** (9 ** 9) }}", "{{ 'a' * 10 ** 12 }}", "{{ (10 ** 900) * (10 ** 900) }}"],
)
def test_a_single_step_that_does_not_end_is_refused(source: str) -> None:
    with pytest.raises(ConfigError, match="of more than"):
        ChatTemplate(source).render(USER, add_generation_prompt=True)


@pytest.mark.usefixtures("short")
def test_a_renderer_of_a_hanging_template_is_refused_after_one_time_out() -> None:
    template = ChatTemplate("{{ messages[0].content }}" + HANGING["nested ranges"])
    with pytest.raises(ConfigError, match="stopped after"):
        TemplateRenderer(ByteTokenizer(), template)


@pytest.mark.usefixtures("short")
def test_a_template_that_was_stopped_once_renders_what_it_can() -> None:
    source = "{% if messages|length > 1 %}" + HANGING["nested ranges"] + "{% endif %}ok"
    template = ChatTemplate(source)
    with pytest.raises(ConfigError, match="for 2 messages"):
        template.render(USER * 2, add_generation_prompt=True)
    assert template.render(USER, add_generation_prompt=True) == "ok"
    with pytest.raises(ConfigError, match="for 2 messages"):
        template.render(USER * 2, add_generation_prompt=True)


def test_a_template_that_hangs_over_some_conversations_costs_little_more_than_one_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template_module, "RENDER_SECONDS", 2.0)
    monkeypatch.setattr(template_module, "_LEAST_SECONDS", 0.02)
    source = "{% if messages|length > 1 %}" + HANGING["nested ranges"] + "{% endif %}ok"
    template = ChatTemplate(source)
    begin = time.process_time()
    for _ in range(10):
        with pytest.raises(ConfigError, match="stopped after"):
            template.render(USER * 2, add_generation_prompt=True)
        assert template.render(USER, add_generation_prompt=True) == "ok"
    assert time.process_time() - begin < 5.0, "ten whole time-outs would be 20 s"


def test_a_loop_is_still_a_loop() -> None:
    source = (
        "{% for a, b in {'x': 1, 'y': 2}.items() %}{{ loop.index }}/{{ loop.length }}{{ a }}{{ b }}"
        "{% if loop.last %}!{% endif %}{% endfor %}"
        "{% for c in missing %}{{ c }}{% else %}none{% endfor %}{{ '-' * 3 }}{{ 2 ** 10 }}"
    )
    assert ChatTemplate(source).render(USER, add_generation_prompt=True) == "1/2x12/2y2!none---1024"
