"""Hugging Face chat templates: Jinja, in a sandbox, with the date frozen.

A template sees what `transformers` would show it: `messages`, `tools`, `add_generation_prompt`, the
special tokens by name, `raise_exception`, `strftime_now`, a `tojson` that doesn't escape HTML, and
the `{% generation %}` tag, which has no effect here. Today's date is fixed when the template object
is made, so that a run renders the same prompt before and after midnight.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any

import jinja2
import jinja2.meta

from agentfly.chat.jinja_sandbox import CpuTimeLimit, RenderTimeout, environment
from agentfly.errors import ConfigError
from agentfly.runtime.names import suggestion

RENDER_SECONDS = 5.0
"""Processor time that a rendering may take; the usual one takes a thousandth of a second."""

_AFTER_TIMEOUT = 0.25
"""Factor of the time limit after a rendering that exceeded it. So a template that hangs, or hangs
on some conversations, costs only a few seconds, however often it is tried."""
_AFTER_SUCCESS = 1.05
"""Factor by which the limit grows again after each successful rendering."""
_LEAST_SECONDS = RENDER_SECONDS / 100

_GIVEN = ("messages", "tools", "documents", "add_generation_prompt", "date", "strftime_now")
"""Variables that are no options: they are set by each rendering or by `ChatTemplate`."""


class ChatTemplate:
    r"""A compiled template. Equal sources are compiled once.

    >>> simple = ChatTemplate(
    ...     "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
    ...     "{% if add_generation_prompt %}<assistant>{% endif %}")
    >>> simple.render([{"role": "user", "content": "hi"}], add_generation_prompt=True)
    '<user>hi</user><assistant>'
    """

    def __init__(
        self,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        date: date | None = None,
        **variables: Any,
    ) -> None:
        self.source = source
        self.date = date or datetime.now(UTC)
        self._compiled = _compile(source)
        self._seconds = RENDER_SECONDS
        self.variables = {"bos_token": bos_token, "eos_token": eos_token, **variables}
        """Variables that the template gets in addition to the conversation."""
        # Merged once with the environment's globals, which Jinja would do for every rendering.
        self._variables = {
            **environment().globals,
            "documents": None,
            "strftime_now": self.date.strftime,
            **self.variables,
        }

    @property
    def own_text(self) -> str:
        """Text that can get into a rendering from the template itself."""
        named = [value for value in self._variables.values() if isinstance(value, str)]
        return "\n".join([self.source, *named])

    @classmethod
    def with_options(
        cls,
        source: str,
        options: Mapping[str, Any],
        *,
        named_tokens: Mapping[str, str],
        date: date | None = None,
    ) -> "ChatTemplate":
        """Make a template with values for variables of its own, such as `enable_thinking`.

        `named_tokens` are the special tokens that have a variable, such as `bos_token`.

        Raises:
            ConfigError: If the template has no such variable, which it would silently ignore.
        """
        unknown = sorted(set(options) - template_options(source))
        if unknown:
            known = suggestion(unknown[0], template_options(source))
            raise ConfigError(f"the chat template has no option {unknown[0]!r}. {known}")
        variables: dict[str, Any] = {**named_tokens, **options}
        return cls(source, date=date, **variables)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        add_generation_prompt: bool,
    ) -> str:
        """Render a conversation; raise ConfigError with the template's own message if it refuses.

        Without tools a template is given None, as by transformers. Templates made for tools alone
        loop over them nonetheless: those are given an empty list.
        """
        if tools:
            return self._render(messages, tools, add_generation_prompt=add_generation_prompt)
        try:
            return self._render(messages, None, add_generation_prompt=add_generation_prompt)
        except ConfigError as refusal:
            try:
                return self._render(messages, [], add_generation_prompt=add_generation_prompt)
            except ConfigError:
                raise refusal from refusal.__cause__

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        add_generation_prompt: bool,
    ) -> str:
        variables = {
            **self._variables,
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }
        context = self._compiled.new_context(variables, shared=True)
        try:
            with CpuTimeLimit(self._seconds):
                text = "".join(self._compiled.root_render_func(context))
        except RenderTimeout as error:
            spent = self._seconds
            self._seconds = max(spent * _AFTER_TIMEOUT, _LEAST_SECONDS)
            raise ConfigError(
                f"the chat template was stopped after {spent:.2g} s of processor time for "
                f"{len(messages)} messages: does it have a loop inside a loop that hardly ends?"
            ) from error
        except jinja2.TemplateError as error:
            raise ConfigError(f"the chat template refuses this conversation: {error}") from error
        except Exception as error:
            raise ConfigError(
                f"the chat template can't render this conversation: {type(error).__name__}: {error}"
            ) from error
        self._seconds = min(self._seconds * _AFTER_SUCCESS, RENDER_SECONDS)
        return text


def template_options(source: str) -> frozenset[str]:
    """Return the variables that a template reads, except the conversation and named tokens.

    >>> template_options("{{ messages }}{% if enable_thinking %}<think>{% endif %}")
    frozenset({'enable_thinking'})
    """
    _compile(source)  # raises the error for a template that is not valid Jinja
    given = {*_GIVEN, *environment().globals}
    read = jinja2.meta.find_undeclared_variables(environment().parse(source)) - given
    return frozenset(name for name in read if not name.endswith("_token"))


@lru_cache(maxsize=128)
def _compile(source: str) -> jinja2.Template:
    try:
        # Without globals: every rendering is given them with its variables.
        return jinja2.Template.from_code(environment(), environment().compile(source), {})
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(
            f"the chat template is not valid Jinja (line {error.lineno}): {error.message}"
        ) from error


CHATML_TOKENS = ("<|im_start|>", "<|im_end|>")
"""The special tokens that the template writes."""

CHATML = """\
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- 'You may call these functions:\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' + tool | tojson }}{%- endfor %}
{{- '\\n</tools>\\nTo call one, write its name and arguments as JSON:\\n<tool_call>\\n' }}
{{- '{"name": "<name>", "arguments": {"<argument>": "<value>"}}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
{{- '<|im_start|>user' }}
{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- elif not (tools and loop.first and message.role == 'system') %}
{{- '<|im_start|>' + message.role + '\\n' + message.content }}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}
{%- if message.content or not loop.first %}{{- '\\n' }}{%- endif %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{%- set arguments = call.function.arguments %}
{{- arguments if arguments is string else arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""The default template of models without one: ChatML with Hermes-style tool calls."""
