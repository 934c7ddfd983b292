"""Comparing what token ids stand for: ids of one model mean nothing to another."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentfly.chat.tokenizer_folder import load_tokenizer
from agentfly.errors import ConfigError
from agentfly.types import Renderer

COMPARED_IDS = 2000
"""How many ids are compared where a vocabulary can't be had as a table, and each is decoded."""


def require_matching_tokenizer(folder: Path, renderer: Renderer) -> None:
    """Refuse a renderer whose ids stand for other tokens than those of the model in a folder.

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
