r"""The renderer: from messages to tokens and back; sampled tokens are never tokenized again.

A chat template makes the first prompt, and the suffix that follows each sampled turn; sampled
tokens stay as they are. So the prompt of every turn begins with all tokens of the turns before it:

    open                          sampled            extend                          sampled
    <|im_start|>user…assistant\n   Rome.<|im_end|>    \n<|im_start|>user…assistant\n   …

- A suffix starts with what closes the turn, as far as the model did not sample it: after
  `<|im_end|>` only the newline, after a turn cut short `<|im_end|>` and the newline. If another end
  token was sampled than the one the template writes, it counts, and no second one is added.
- Special tokens are only ever made by the template: what users, tools, models and MCP servers wrote
  is encoded as the characters it is, special token or not (see `taint` and `safe_encode`).
- What a template can't render is adapted (see `conversation_writer`).
- Where a template rewrites earlier turns, the stream stays as sampled (`on_rewrite="keep"`), or the
  chain continues in a new stream with a new prompt (`on_rewrite="cut"`).

Not covered: templates of vision models are used for text only, and images are only named.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from agentfly.chat.capabilities import PROBE_TOOL, Capabilities, detect_capabilities
from agentfly.chat.chat_template import ChatTemplate
from agentfly.chat.completion_reader import CompletionReader
from agentfly.chat.conversation_writer import ConversationWriter, RewriteDetector
from agentfly.chat.format_choice import FormatChoice, choose_format, judge_format
from agentfly.chat.formats import CallFormat, Parser, custom_format, get_format
from agentfly.chat.reasoning import OpensReasoning, opens_reasoning
from agentfly.chat.safe_encode import SafeEncoder
from agentfly.chat.suffix import Suffix, SuffixEncoder
from agentfly.chat.suffix_probe import Skeleton, SuffixProbe
from agentfly.chat.taint import Taint
from agentfly.chat.tokenizer_adapters import control_tokens, wrap_tokenizer
from agentfly.chat.tokenizer_folder import load_tokenizer
from agentfly.chat.turn_probe import TurnMarks, TurnProbe, detect_turn_marks
from agentfly.errors import ConfigError
from agentfly.types import Completion, Extension, Message, Parsed, ToolCall, ToolSpec
from agentfly.types.message import Role

OnRewrite = Literal["keep", "cut"]
FormatLike = str | CallFormat | Parser | None
"""A format's name, a format, a function that reads a text, or None to go by the template."""

_RELATED_ENDS = {"<|eot_id|>": "<|eom_id|>"}
"""Tokens that end a turn in addition to the one that a template writes: with tools, Llama's
models end a turn that calls one with `<|eom_id|>`, and its templates don't write that."""

_USER = Message(role="user")
_RESULT = Message(role="tool", name=PROBE_TOOL.name, tool_call_id="call_0")


class TemplateRenderer:
    r"""Renders with any Hugging Face chat template and tokenizer.

    Args:
        tokenizer: Of `tokenizers` or `transformers`, or one that fits `agentfly.types.Tokenizer`.
        template: The chat template, or its source.
        format: How calls are written; by default the template's own way.
        on_rewrite: What to do where the template rewrites earlier turns.
        trusted_roles: Roles whose messages may spell special tokens, such as `["system"]` for
            prompts that you wrote yourself. By default nothing but the template makes them.
        end_token_ids: More tokens that end a turn, such as those of `generation_config.json`.

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
        trusted_roles: Sequence[Role] = (),
        end_token_ids: Sequence[int] = (),
    ) -> None:
        if on_rewrite not in ("keep", "cut"):
            raise ConfigError(f"on_rewrite is 'keep' or 'cut', got {on_rewrite!r}")
        _require_roles(trusted_roles)
        self.tokenizer = wrap_tokenizer(tokenizer)
        self.template = template if isinstance(template, ChatTemplate) else ChatTemplate(template)
        self.on_rewrite = on_rewrite
        self.trusted_roles = tuple(trusted_roles)
        self.end_token_ids = tuple(end_token_ids)
        native = detect_capabilities(self.template)
        turns = TurnProbe(self.template, native)
        self.format_choice = _format_choice(format, turns)
        self.turn_marks = detect_turn_marks(turns)
        self.call_format = self.format_choice.format
        self.capabilities = _capabilities(native, self.call_format)
        control = control_tokens(self.tokenizer, self.template.source)
        self.encoder = SafeEncoder(self.tokenizer, control)
        self.taint = Taint(control, self.template.own_text, trusted_roles)
        self.writer = ConversationWriter(
            template=self.template,
            capabilities=self.capabilities,
            taint=self.taint,
            call_format=self.call_format,
        )
        self.rewrite_detector = RewriteDetector(writer=self.writer, pattern=self.encoder.pattern)
        self._probe = SuffixProbe(self.template, self.capabilities, self.encoder, self.taint)
        self._opened: tuple[object, tuple[int, ...]] = (None, ())
        self._learn_ends()
        self._learn_reasoning_ends()

    def with_format(self, call_format: CallFormat) -> "TemplateRenderer":
        """Return the same renderer for another format of calls."""
        return TemplateRenderer(
            self.tokenizer,
            self.template,
            format=call_format,
            on_rewrite=self.on_rewrite,
            trusted_roles=self.trusted_roles,
            end_token_ids=self.end_token_ids,
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
            ends=frozenset(self._stop_token_ids),
            closings=_texts_before_ends(skeletons),
            spelled_ends=self._spelled_ends,
            opened=_opened(skeletons, self.turn_marks),
            marks=self.turn_marks,
            lead=self.format_choice.lead,
            call_ends=self._call_ends(),
        )

    def _learn_reasoning_ends(self) -> None:
        self._reasoning_close = self._probe.reasoning_close()
        pattern, special = self.encoder.pattern, self.encoder.special_ids
        between = self._reasoning_close.between if self._reasoning_close else ""
        tokens = {special[token] for token in pattern.findall(between)} if pattern else set()
        self._reasoning_ends = tokens & set(self._stop_token_ids)

    def _ids_of_ends(self, skeletons: Sequence[Skeleton]) -> tuple[int, ...]:
        special = self.encoder.special_ids
        written = [token for skeleton in skeletons for token in skeleton.end.tokens]
        relatives = [_RELATED_ENDS[token] for token in written if token in _RELATED_ENDS]
        ids = [special[token] for token in [*written, *relatives] if token in special]
        eos = self.tokenizer.eos_id
        own = [] if eos is None else [eos]
        return tuple(dict.fromkeys([*ids, *own, *self.end_token_ids]))

    def _call_ends(self) -> dict[int, str]:
        """Return the end tokens with which the template closes its calls."""
        if self.format_choice.source != "read back":
            return {}
        call = ToolCall(id="call_0", name=PROBE_TOOL.name, arguments="{}")
        written = self.call_format.write([call]).rstrip()
        names = self.encoder.special_ids.items()
        return {
            i: text for text, i in names if i in self._stop_token_ids and written.endswith(text)
        }

    @classmethod
    def from_folder(
        cls,
        folder: str | Path,
        *,
        format: FormatLike = None,
        on_rewrite: OnRewrite = "keep",
        trusted_roles: Sequence[Role] = (),
        template_options: Mapping[str, Any] | None = None,
    ) -> "TemplateRenderer":
        """Make a renderer from a Hugging Face model folder, without transformers or torch.

        `template_options` are values for variables of the template, such as `enable_thinking`.
        """
        found = load_tokenizer(folder)
        if found.chat_template is None:
            raise ConfigError(
                f"{folder} carries no chat template: expected chat_template.jinja or an entry in "
                "tokenizer_config.json; pass one to TemplateRenderer(tokenizer, template)"
            )
        template = ChatTemplate.with_options(
            found.chat_template, template_options or {}, named_tokens=found.named_tokens
        )
        return cls(
            found.tokenizer,
            template,
            format=format,
            on_rewrite=on_rewrite,
            trusted_roles=trusted_roles,
            end_token_ids=found.end_token_ids,
        )

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn: those that the template writes, and the tokenizer's own."""
        return self._stop_token_ids

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Strings that end a turn: the format's, and the template's if they are no tokens."""
        return (*self.call_format.stop_strings, *self._spelled_ends)

    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        """Render the first prompt; cached, because the chains of a group have the same one."""
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
        follows = self.suffix_ids(completion.token_ids, replies, tools, history[:-1])
        return Extension(token_ids=follows)

    def parse(self, completion: Completion, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Parse a completion. Never raises, for any tokens.

        Where the call format writes arguments as bare text, the tools' schemas give their types.
        """
        return self._reader.read(completion.token_ids, tools)

    def sampled_text(self, completion: Completion) -> str:
        """Return a completion's text without what ends the turn."""
        return self._reader.text(completion.token_ids)

    def goes_on(self, completion: Completion) -> bool:
        """Return whether the sampled stop token closes only the reasoning.

        Some templates (Solar Open's) close reasoning with the token that also ends a turn. An
        engine stops there; the turn is not over, and its sampling has to be continued.
        """
        ids, close = completion.token_ids, self._reasoning_close
        if close is None or not ids or ids[-1] not in self._reasoning_ends:
            return False
        first = sum(token in self._reasoning_ends for token in ids) == 1
        return first and self.decode(ids).startswith(close.opening)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these ids, for people to look at."""
        return self.tokenizer.decode(ids)

    @property
    def opens_reasoning(self) -> OpensReasoning:
        """When the generation prompt opens the reasoning."""
        return self._reader.opened

    def suffix(
        self,
        replies: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        before: Sequence[Message] = (),
    ) -> Suffix:
        """Return what follows a turn that gets these replies; `before` is what came before it."""
        if not before or not self._probe.needs_history:
            return self._probe.suffix(replies, tools)
        return self._probe.suffix(replies, tools, next(self.writer.variants(before, tools)))

    def suffix_ids(
        self,
        sampled: Sequence[int],
        replies: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        before: Sequence[Message] = (),
    ) -> tuple[int, ...]:
        """Return the tokens that follow sampled ones; `before` is what came before the turn."""
        return self._suffixes.encode(self.suffix(replies, tools, before), sampled)

    def _rewritten(
        self,
        history: Sequence[Message],
        completion: Completion,
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
    ) -> bool:
        sampled = self.tokenizer.decode(self._reader.without_end(completion.token_ids))
        try:
            return self.rewrite_detector.rewritten(history, replies, tools, sampled)
        except ConfigError:
            # A history that the template refuses can't be rewritten: the stream continues.
            return False


def _require_roles(roles: Sequence[Role]) -> None:
    if isinstance(roles, str) or not set(roles) <= set(get_args(Role)):
        raise ConfigError(
            f"trusted_roles is a list of roles ({', '.join(get_args(Role))}), got {roles!r}"
        )


def _format_choice(format: FormatLike, turns: TurnProbe) -> FormatChoice:
    if format is None:
        return choose_format(turns)
    return judge_format(turns, _given_format(format))


def _given_format(format: str | CallFormat | Parser) -> CallFormat:
    if isinstance(format, str):
        return get_format(format)
    if isinstance(format, CallFormat):
        return format
    if callable(format):
        return custom_format(format, name=getattr(format, "__name__", type(format).__name__))
    raise ConfigError(
        f"format must be a name, a CallFormat or a function that reads a text, got {format!r}"
    )


def _capabilities(native: Capabilities, call_format: CallFormat) -> Capabilities:
    taught = call_format.instructions([PROBE_TOOL]) is not None
    return native.for_taught_calls() if taught else native


def _texts_before_ends(skeletons: Sequence[Skeleton]) -> tuple[str, ...]:
    """Return the texts between a turn's text and its end token, the longest first."""
    ends = (skeleton.end for skeleton in skeletons)
    texts = {end.closing.rpartition(end.tokens[0])[0] for end in ends if end.tokens}
    return tuple(sorted(filter(None, texts), key=len, reverse=True))


def _opened(skeletons: Sequence[Skeleton], marks: TurnMarks) -> OpensReasoning:
    opens = [opens_reasoning(skeleton.fixed[-1], marks.reasoning) for skeleton in skeletons]
    if all(opens):
        return OpensReasoning.ALWAYS
    return OpensReasoning.SOMETIMES if any(opens) else OpensReasoning.NEVER
