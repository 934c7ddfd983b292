"""Adapters from tokenizers to the small protocol that rendering needs.

`encode` adds nothing (no BOS, no padding, no truncation) and recognizes special tokens; `decode`
never raises, for any ids. Neither `tokenizers` nor `transformers` is imported here: objects of
both are recognized by their methods.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from agentfly.errors import ConfigError
from agentfly.types import Tokenizer

_BYTES = 256
_BYTE_IDS = range(_BYTES)
_MAX_ID = 2**32 - 1
_REPLACEMENT = "\ufffd"


def well_formed(text: str) -> str:
    r"""Replace lone surrogates, which no tokenizer can take, by U+FFFD; join those that pair up.

    >>> well_formed("a\ud800b")
    'a\ufffdb'
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def special_pattern(special_tokens: Mapping[str, int] | Sequence[str]) -> re.Pattern[str] | None:
    """Return what matches any special token, the longest first; None if there are none."""
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


class ByteTokenizer:
    """Ids 0 to 255 are the bytes of UTF-8; special tokens follow in the order given.

    >>> tokenizer = ByteTokenizer(["<|end|>"], eos_token="<|end|>")
    >>> tokenizer.encode("hi<|end|>")
    [104, 105, 256]
    >>> tokenizer.decode([104, 105, 256])
    'hi<|end|>'
    """

    def __init__(self, special_tokens: Sequence[str] = (), *, eos_token: str | None = None) -> None:
        names = dict.fromkeys((*special_tokens, *((eos_token,) if eos_token else ())))
        if "" in names:
            raise ConfigError("a special token can't be empty")
        self._ids = {name: _BYTES + index for index, name in enumerate(names)}
        self._names = list(names)
        self._pattern = special_pattern(self._ids)
        self._eos_id = self._ids[eos_token] if eos_token else None

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Text of each special token, and its id."""
        return self._ids

    @property
    def eos_id(self) -> int | None:
        """The id of the end token, if one was named."""
        return self._eos_id

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return _BYTES + len(self._names)

    def encode(self, text: str) -> list[int]:
        """Return the bytes of the text, with special tokens as one id each."""
        text = well_formed(text)
        ids: list[int] = []
        start = 0
        for match in self._pattern.finditer(text) if self._pattern else ():
            ids += text[start : match.start()].encode()
            ids.append(self._ids[match.group()])
            start = match.end()
        ids += text[start:].encode()
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; broken UTF-8 and unknown ids become U+FFFD."""
        try:
            return bytes(ids).decode(errors="replace")
        except ValueError:  # not all of them are bytes
            return "".join(
                bytes(run).decode(errors="replace") if is_byte else "".join(map(self._name, run))
                for is_byte, run in groupby(ids, key=_BYTE_IDS.__contains__)
            )

    def _name(self, token: int) -> str:
        index = token - _BYTES
        return self._names[index] if 0 <= index < len(self._names) else _REPLACEMENT


class FastTokenizer:
    """A `tokenizers.Tokenizer`, adapted without importing its package."""

    def __init__(self, inner: Any, *, eos_token: str | None = None) -> None:
        if inner.truncation is not None or inner.padding is not None:
            inner = type(inner).from_str(inner.to_str())
            inner.no_truncation()
            inner.no_padding()
        self._inner = inner
        self._special_ids, self.added_ids = _added(inner.get_added_tokens_decoder())
        self._eos_id = _id_of(eos_token, inner.token_to_id)

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """Every token as the tokenizer writes it, and its id."""
        vocabulary: Mapping[str, int] = self._inner.get_vocab()
        return vocabulary

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Text of each token that is flagged special, and its id."""
        return self._special_ids

    @property
    def eos_id(self) -> int | None:
        """The id of the end token, if one was named."""
        return self._eos_id

    def encode(self, text: str) -> list[int]:
        """Return ids for exactly this text."""
        encoded = self._inner.encode(well_formed(text), add_special_tokens=False)
        return list(encoded.ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text, special tokens included; unknown ids give nothing."""
        known = [token for token in ids if 0 <= token <= _MAX_ID]
        return str(self._inner.decode(known, skip_special_tokens=False))


class SlowTokenizer:
    """A `transformers` tokenizer without a fast backend."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._special_ids, self.added_ids = _added(inner.added_tokens_decoder)

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """Every token as the tokenizer writes it, and its id."""
        vocabulary: Mapping[str, int] = self._inner.get_vocab()
        return vocabulary

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Text of each token that is flagged special, and its id."""
        return self._special_ids

    @property
    def eos_id(self) -> int | None:
        """The tokenizer's own end token."""
        eos_id: int | None = self._inner.eos_token_id
        return eos_id

    def encode(self, text: str) -> list[int]:
        """Return ids for exactly this text."""
        return list(self._inner.encode(well_formed(text), add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text as it is: no space is cleaned up, and ids out of range give nothing."""
        known = [token for token in ids if 0 <= token < len(self._inner)]
        text = self._inner.decode(
            known, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return str(text)


def wrap_tokenizer(tokenizer: Any, *, eos_token: str | None = None) -> Tokenizer:
    """Adapt a `tokenizers` or `transformers` tokenizer; one that fits the protocol is returned.

    `eos_token` names the end token of a bare `tokenizers.Tokenizer`, which doesn't know its own.
    """
    if hasattr(tokenizer, "special_ids") and hasattr(tokenizer, "eos_id"):
        fitting: Tokenizer = tokenizer
        return fitting
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "get_added_tokens_decoder"):
        own = getattr(tokenizer, "eos_token", None)
        return FastTokenizer(backend, eos_token=eos_token or own)
    if hasattr(tokenizer, "added_tokens_decoder") and hasattr(tokenizer, "eos_token_id"):
        return SlowTokenizer(tokenizer)
    raise ConfigError(
        f"can't use {type(tokenizer).__name__} as a tokenizer: expected one of the `tokenizers` or "
        "`transformers` packages, or an object with special_ids, eos_id, encode and decode"
    )


def control_tokens(tokenizer: Tokenizer, template_source: str) -> dict[str, int]:
    """Return the tokens that a template uses as markup: special ones, and added ones in its source.

    Added tokens that are no more than a shorthand for common text (an empty line, an HTML tag) are
    left out, unless the template spells them.
    """
    added: Mapping[str, int] = getattr(tokenizer, "added_ids", {})
    written = {text: token for text, token in added.items() if text in template_source}
    every = {**tokenizer.special_ids, **written}
    return {text: token for text, token in every.items() if text.strip()}


def _added(tokens: Mapping[int, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the added tokens that are flagged special, and all of them."""
    special = {token.content: index for index, token in tokens.items() if token.special}
    return special, {token.content: index for index, token in tokens.items()}


def _id_of(token: str | None, look_up: Any) -> int | None:
    if token is None:
        return None
    found: int | None = look_up(token)
    if found is None:
        raise ConfigError(f"the end token {token!r} is not in the tokenizer's vocabulary")
    return found
