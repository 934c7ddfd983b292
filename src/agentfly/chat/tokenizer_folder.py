"""The tokenizer and chat template of a Hugging Face model folder, read without transformers.

`require_matching_tokenizer` compares a renderer's token ids with those of such a folder.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentfly.chat.tokenizer_adapters import FastTokenizer
from agentfly.errors import ConfigError, FormatError
from agentfly.runtime.extra import import_extra
from agentfly.types import Renderer, Tokenizer

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFolder:
    """The tokenizer, chat template and end tokens of a model folder."""

    tokenizer: Tokenizer
    chat_template: str | None
    """None if the folder carries none."""
    named_tokens: dict[str, str] = field(default_factory=dict)
    """Such as `{"bos_token": "<s>"}`: what the template calls them."""
    end_token_ids: tuple[int, ...] = ()
    """Tokens that end a turn, by the model's `generation_config.json`."""


def load_tokenizer(folder: str | Path) -> TokenizerFolder:
    """Read `tokenizer.json`, the named special tokens, the chat template and the end tokens.

    The template is `chat_template.jinja`, `chat_template.json` or an entry of
    `tokenizer_config.json`, the first that exists. Of several named ones `tool_use` is taken, then
    `default`.
    """
    folder = Path(folder)
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ConfigError(
            f"no tokenizer.json in {folder}: expected a Hugging Face model folder with a fast "
            "tokenizer (`AutoTokenizer.from_pretrained(...).save_pretrained(folder)` writes one)"
        )
    config = _read_json(folder / "tokenizer_config.json")
    named = _named_tokens({**_read_json(folder / "special_tokens_map.json"), **config})
    return TokenizerFolder(
        tokenizer=FastTokenizer(_open(file), eos_token=named.get("eos_token")),
        chat_template=_chat_template(folder, config),
        named_tokens=named,
        end_token_ids=_end_token_ids(folder / "generation_config.json"),
    )


def _open(file: Path) -> Any:
    tokenizers = import_extra("tokenizers", extra="tokenizers", purpose=f"reading {file}")
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises bare Exception
        raise FormatError(f"{file} is not a tokenizer that can be read: {error}") from error


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise FormatError(f"{file} must hold an object, got {type(content).__name__}")
    return content


def _end_token_ids(file: Path) -> tuple[int, ...]:
    """Read `"eos_token_id": 2`, or `"eos_token_id": [2, 7]`."""
    found = _read_json(file).get("eos_token_id")
    ids = found if isinstance(found, list) else [] if found is None else [found]
    if not all(isinstance(token, int) and token >= 0 for token in ids):
        raise FormatError(f"{file}: eos_token_id must be an id or a list of ids, got {found!r}")
    return tuple(ids)


def _named_tokens(config: dict[str, Any]) -> dict[str, str]:
    """Pick `"eos_token": "</s>"`, or `"eos_token": {"content": "</s>", …}`."""
    found = {name: config.get(name) for name in _NAMED_TOKENS}
    texts = {
        name: value.get("content") if isinstance(value, dict) else value
        for name, value in found.items()
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _chat_template(folder: Path, config: dict[str, Any]) -> str | None:
    jinja = folder / "chat_template.jinja"
    if jinja.is_file():
        return jinja.read_text(encoding="utf-8")
    template = _read_json(folder / "chat_template.json").get("chat_template")
    return _one_of(template if template is not None else config.get("chat_template"))


def _one_of(template: object) -> str | None:
    if isinstance(template, list):
        by_name = {entry["name"]: entry["template"] for entry in template}
        return by_name.get("tool_use", by_name.get("default"))
    return template if isinstance(template, str) else None


COMPARED_IDS = 2000
"""Number of ids that are compared by decoding, where a vocabulary is not available as a table."""


def require_matching_tokenizer(folder: Path, renderer: Renderer) -> None:
    """Refuse a renderer whose ids mean other tokens than those of the model in a folder.

    The renderer may know more tokens, or fewer, where the ids that both know agree. A folder
    without a `tokenizer.json` has nothing to compare with.
    """
    if not (folder / "tokenizer.json").is_file():
        return
    model = load_tokenizer(folder).tokenizer
    tokenizer = getattr(renderer, "tokenizer", None)
    theirs, ours = _vocabulary(model), _vocabulary(tokenizer)
    if theirs is None or ours is None:
        ids = _spread(len(theirs) if theirs else COMPARED_IDS)
        theirs, ours = _decoded(ids, model.decode), _decoded(ids, renderer.decode)
    for token_id in sorted(theirs.keys() & ours.keys()):
        if theirs[token_id] != ours[token_id]:
            raise ConfigError(
                f"the renderer has the tokenizer of another model: id {token_id} is "
                f"{ours[token_id]!r} there, and {theirs[token_id]!r} to the model in {folder}. "
                "Leave renderer= out, or make it of that folder: TemplateRenderer.from_folder"
            )


def _vocabulary(tokenizer: object) -> Mapping[int, str] | None:
    """Return token by id, where a tokenizer says it."""
    vocabulary = getattr(tokenizer, "vocabulary", None)
    return {token_id: token for token, token_id in vocabulary.items()} if vocabulary else None


def _spread(count: int) -> range:
    return range(0, count, max(1, count // COMPARED_IDS))


def _decoded(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> Mapping[int, str]:
    return {token_id: decode([token_id]) for token_id in ids}
