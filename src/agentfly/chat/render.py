r"""The renderer: from messages to tokens and back, without ever re-tokenising what was sampled.

A chat template makes the first prompt, and the suffix that follows each sampled turn; what a model
sampled stays as it is. So the prompt of every turn begins with all tokens of the turns before it:

    open                          sampled            extend                          sampled
    <|im_start|>user…assistant\n   Rome.<|im_end|>    \n<|im_start|>user…assistant\n   …

- A suffix starts with what closes the turn, as far as the model did not sample it: after
  `<|im_end|>` only the newline, after a turn cut short `<|im_end|>` and the newline. If another end
  token was sampled than the one the template writes, it counts, and no second one is added.
- Special tokens are only ever made by the template: a user's or a tool's text that spells one is
  encoded as the characters it is (see `safe_encode`).
- What a template can't render gets a fall-back (see `fallback`).
- Where a template rewrites earlier turns, the stream stays as sampled (`on_rewrite="keep"`), or the
  chain goes on in a new stream with a fresh prompt (`on_rewrite="cut"`).

Not covered: templates of vision models are used for their text alone, and pictures are only named.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from agentfly.chat.conversation import ConversationWriter
from agentfly.chat.dialect import PROBE_TOOL, Dialect, learn_dialect
from agentfly.chat.formats import CallFormat, Parser, custom_format, detect_format, get_format
from agentfly.chat.probe import Skeleton, Suffix, SuffixProbe
from agentfly.chat.read import CompletionReader
from agentfly.chat.reasoning import Opened, opens_reasoning
from agentfly.chat.rewrite import RewriteWatch
from agentfly.chat.safe_encode import SafeEncoder
from agentfly.chat.suffix import SuffixEncoder
from agentfly.chat.template import ChatTemplate
from agentfly.chat.tokenizer import control_tokens, wrap_tokenizer
from agentfly.chat.tokenizer_folder import load_tokenizer
from agentfly.errors import ConfigError
from agentfly.types import Completion, Extension, Message, Parsed, ToolSpec

OnRewrite = Literal["keep", "cut"]
FormatLike = str | CallFormat | Parser | None
"""A format's name, a format, a function that reads a text, or None to go by the template."""

_USER = Message(role="user")
_RESULT = Message(role="tool", name=PROBE_TOOL.name, tool_call_id="call_0")


class TemplateRenderer:
    r"""Renders with any Hugging Face chat template and tokenizer.

    >>> from agentfly.chat import ByteTokenizer
    >>> source = (
    ...     "{% for m in messages %}"
    ...     "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    ...     "{% endfor %}"
    ...     "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    >>> renderer = TemplateRenderer(ByteTokenizer(["<|im_start|>", "<|im_end|>"]), source)
    >>> renderer.decode(renderer.open([Message(role="user", content="hi")], []))
    '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n'
    """

    def __init__(
        self,
        tokenizer: Any,
        template: ChatTemplate | str,
        *,
        format: FormatLike = None,
        on_rewrite: OnRewrite = "keep",
    ) -> None:
        if on_rewrite not in ("keep", "cut"):
            raise ConfigError(f"on_rewrite is 'keep' or 'cut', got {on_rewrite!r}")
        self.tokenizer = wrap_tokenizer(tokenizer)
        self.template = template if isinstance(template, ChatTemplate) else ChatTemplate(template)
        self.call_format = _call_format(format, self.template.source)
        self.on_rewrite = on_rewrite
        self.dialect = _dialect(self.template, self.call_format)
        control = control_tokens(self.tokenizer, self.template.source)
        self.encoder = SafeEncoder(self.tokenizer, control)
        self.writer = ConversationWriter(
            template=self.template,
            dialect=self.dialect,
            encoder=self.encoder,
            call_format=self.call_format,
        )
        self.watch = RewriteWatch(writer=self.writer)
        self._probe = SuffixProbe(self.template, self.dialect, self.encoder)
        self._opened: tuple[object, tuple[int, ...]] = (None, ())
        self._learn_ends()

    def reading(self, call_format: CallFormat) -> "TemplateRenderer":
        """Return the same renderer for another format of calls."""
        return TemplateRenderer(
            self.tokenizer, self.template, format=call_format, on_rewrite=self.on_rewrite
        )

    def _learn_ends(self) -> None:
        after_user = self._probe.skeleton([_USER], ())
        after_result = self._probe.skeleton([_RESULT], ())
        skeletons = (after_user, after_result)
        self._stop_token_ids = self._ids_of_ends(skeletons)
        self._suffixes = SuffixEncoder(
            self.encoder,
            end_ids=frozenset(self._stop_token_ids),
            plain_closing=None if after_user.end.opens_reply else after_user.end.closing,
        )
        spelled = (s.end.spelled.strip() for s in skeletons if not s.end.tokens)
        self._spelled_ends = tuple(dict.fromkeys(filter(None, spelled)))
        self._reader = CompletionReader(
            decode=self.tokenizer.decode,
            call_format=self.call_format,
            ends=self._sequences_of_ends(skeletons),
            spelled_ends=self._spelled_ends,
            opened=_opened(skeletons),
        )

    def _ids_of_ends(self, skeletons: Sequence[Skeleton]) -> tuple[int, ...]:
        special = self.encoder.special_ids
        ids = [special[token] for skeleton in skeletons for token in skeleton.end.tokens]
        eos = self.tokenizer.eos_id
        return tuple(dict.fromkeys([*ids, *([] if eos is None else [eos])]))

    def _sequences_of_ends(self, skeletons: Sequence[Skeleton]) -> tuple[tuple[int, ...], ...]:
        closings = (tuple(self.tokenizer.encode(s.end.closing)) for s in skeletons if s.end.closing)
        whole = [ids for ids in closings if ids[-1] in self._stop_token_ids]
        single = [(token,) for token in self._stop_token_ids]
        return tuple(sorted(dict.fromkeys([*whole, *single]), key=len, reverse=True))

    @classmethod
    def from_folder(
        cls,
        folder: str | Path,
        *,
        format: FormatLike = None,
        on_rewrite: OnRewrite = "keep",
        **variables: Any,
    ) -> "TemplateRenderer":
        """Make a renderer from a Hugging Face model folder, without transformers or torch."""
        found = load_tokenizer(folder)
        if found.chat_template is None:
            raise ConfigError(
                f"{folder} carries no chat template: expected chat_template.jinja or an entry in "
                "tokenizer_config.json; pass one to TemplateRenderer(tokenizer, template)"
            )
        template = ChatTemplate(found.chat_template, **{**found.named_tokens, **variables})
        return cls(found.tokenizer, template, format=format, on_rewrite=on_rewrite)

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn: those that the template writes, and the tokenizer's own."""
        return self._stop_token_ids

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Strings that end a turn: the format's, and the template's if they are no tokens."""
        return (*self.call_format.stop_strings, *self._spelled_ends)

    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        """Render the first prompt; the chains of a group ask for the same one in turn."""
        asked = (tuple(messages), tuple(tools))
        if self._opened[0] != asked:
            ids = tuple(self.encoder.encode(self.writer.pieces(messages, tools)))
            self._opened = (asked, ids)
        return self._opened[1]

    def extend(
        self,
        history: Sequence[Message],
        completion: Completion,
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
    ) -> Extension:
        """Return what follows a sampled turn: what closes it, the replies, the next prompt."""
        if self.on_rewrite == "cut" and self._rewritten(history, completion, replies, tools):
            fresh = self.open([*history, *replies], tools)
            return Extension(token_ids=fresh, new_stream=True)
        return Extension(token_ids=self.follow(completion.token_ids, replies, tools))

    def parse(self, completion: Completion) -> Parsed:
        """Read a completion. Never raises, whatever the tokens."""
        return self._reader.read(completion.token_ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these ids, for people to look at."""
        return self.tokenizer.decode(ids)

    @property
    def opens_reasoning(self) -> Opened:
        """Whether the generation prompt opens the reasoning."""
        return self._reader.opened

    def suffix(self, replies: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> Suffix:
        """Return what follows a turn that gets these replies, in pieces, for people to look at."""
        return self._probe.suffix(replies, tools)

    def follow(
        self,
        sampled: Sequence[int],
        replies: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
    ) -> tuple[int, ...]:
        """Return the tokens that follow sampled ones, whatever the history."""
        return self._suffixes.encode(self.suffix(replies, tools), sampled)

    def _rewritten(
        self,
        history: Sequence[Message],
        completion: Completion,
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
    ) -> bool:
        sampled = self.tokenizer.decode(self._reader.without_end(completion.token_ids))
        try:
            return self.watch.rewritten(history, replies, tools, sampled)
        except ConfigError:
            # A history that the template refuses has no other wording: the stream goes on.
            return False


def _call_format(format: FormatLike, source: str) -> CallFormat:
    if format is None:
        return detect_format(source)
    if isinstance(format, str):
        return get_format(format)
    if isinstance(format, CallFormat):
        return format
    if callable(format):
        return custom_format(format, name=getattr(format, "__name__", type(format).__name__))
    raise ConfigError(
        f"format must be a name, a CallFormat or a function that reads a text, got {format!r}"
    )


def _dialect(template: ChatTemplate, call_format: CallFormat) -> Dialect:
    dialect = learn_dialect(template)
    taught = call_format.instructions([PROBE_TOOL]) is not None
    return dialect.for_taught_calls() if taught else dialect


def _opened(skeletons: Sequence[Skeleton]) -> Opened:
    opens = [opens_reasoning(skeleton.fixed[-1]) for skeleton in skeletons]
    if all(opens):
        return Opened.ALWAYS
    return Opened.SOMETIMES if any(opens) else Opened.NEVER
