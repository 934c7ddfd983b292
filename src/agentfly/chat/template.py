"""Hugging Face chat templates: Jinja, in a sandbox, with the date frozen.

A template sees what `transformers` would show it: `messages`, `tools`, `add_generation_prompt`, the
special tokens by name, `raise_exception`, `strftime_now`, a `tojson` that doesn't escape HTML, and
the `{% generation %}` tag, which is looked through. Today's date is that of the template's making,
so that a run prints the same prompt before and after midnight.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agentfly.errors import ConfigError


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
        # Merged once with the environment's globals, which Jinja would do for every rendering.
        self._variables = {
            **self._compiled.globals,
            "bos_token": bos_token,
            "eos_token": eos_token,
            "documents": None,
            "strftime_now": self.date.strftime,
            **variables,
        }

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        add_generation_prompt: bool,
    ) -> str:
        """Render a conversation; raise ConfigError with the template's own words if it refuses."""
        variables = {
            **self._variables,
            "messages": messages,
            "tools": tools or None,
            "add_generation_prompt": add_generation_prompt,
        }
        context = self._compiled.new_context(variables, shared=True)
        try:
            return "".join(self._compiled.root_render_func(context))
        except jinja2.TemplateError as error:
            raise ConfigError(f"the chat template refuses this conversation: {error}") from error
        except Exception as error:
            raise ConfigError(
                f"the chat template can't render this conversation: {type(error).__name__}: {error}"
            ) from error


@lru_cache(maxsize=128)
def _compile(source: str) -> jinja2.Template:
    try:
        return _environment().from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(
            f"the chat template is not valid Jinja (line {error.lineno}): {error.message}"
        ) from error


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with a short way for what templates do most: reading a field of a dict."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return `obj.attribute`; a dict's own methods come before its keys, as Jinja has it."""
        if type(obj) is dict and attribute in obj and not hasattr(dict, attribute):
            return obj[attribute]
        return super().getattr(obj, attribute)


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = _Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    return environment


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - templates pass these by position too
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Write JSON as it is; Jinja's own filter escapes it for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


class _GenerationTag(Extension):
    """`{% generation %}` marks what an assistant says; here the tokens themselves are the record.

    The body becomes a scope of its own, as in transformers: what it sets stays inside it.
    """

    tags = {"generation"}  # noqa: RUF012 - declared so by Jinja

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    @staticmethod
    def _said(caller: Any) -> str:
        return str(caller())
