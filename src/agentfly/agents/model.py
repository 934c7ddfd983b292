"""From what a user calls a model to what the chain loop needs of it."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from agentfly.agents.textual import TextualChatModel
from agentfly.chat import CHATML, ChatTemplate, TemplateRenderer
from agentfly.chat.formats import CallFormat
from agentfly.engines import ScriptedEngine
from agentfly.errors import ConfigError
from agentfly.models import context_length, load_model, resolve_model
from agentfly.types import ChatModel, Engine, Renderer, Tokenizer


@dataclass(slots=True, kw_only=True)
class Model:
    """An engine with its renderer, or a chat model."""

    renderer: Renderer | None = None
    chat_model: ChatModel | None = None
    context_length: float = math.inf
    """How many tokens the model can see at once."""
    folder: Path | None = None
    """Where a named model lies. Its weights are read when its engine is first needed, so that an
    agent which is only to be trained holds none of its own."""
    given: Engine | None = None
    """An engine that a user made, and closes."""
    loaded: Engine | None = None
    """The engine of the folder, made and closed here."""

    @property
    def engine(self) -> Engine | None:
        """What samples tokens; None for a chat model."""
        if self.given is None and self.loaded is None and self.folder is not None:
            self.loaded = load_engine(self.folder, tokenizer_of(self.renderer))
        return self.given or self.loaded

    def through(self, engine: Engine) -> "Model":
        """Speak through another engine, rendered in the same way."""
        return replace(self, given=engine, loaded=None, chat_model=None)

    async def close(self) -> None:
        """Free the engine that was loaded here; what a user made is the user's to close."""
        if self.loaded is not None:
            await self.loaded.close()


def open_model(
    model: str | Path | Engine | ChatModel,
    renderer: Renderer | None,
    call_format: CallFormat | None,
) -> Model:
    """Join a model with the renderer that it needs; a name is looked up and loaded."""
    if isinstance(model, (str, Path)):
        return _open_named(model, renderer, call_format)
    if hasattr(model, "sample"):
        engine = cast(Engine, model)
        own = _with_format(renderer, call_format) if renderer is not None else None
        return Model(
            given=engine,
            renderer=own or _renderer_of(engine, call_format),
            context_length=getattr(engine, "context_length", math.inf),
        )
    if hasattr(model, "reply"):
        return Model(chat_model=TextualChatModel(model, call_format) if call_format else model)
    raise ConfigError(
        "a model is a name, a folder, an engine (with `sample`) or a chat model (with `reply`), "
        f"got {model!r}"
    )


def _open_named(
    name: str | Path, renderer: Renderer | None, call_format: CallFormat | None
) -> Model:
    folder = resolve_model(name)
    if renderer is not None:
        renderer = _with_format(renderer, call_format)
    return Model(
        folder=folder,
        renderer=renderer or TemplateRenderer.from_folder(folder, format=call_format),
        context_length=context_length(folder),
    )


def tokenizer_of(renderer: Renderer | None) -> Tokenizer | None:
    """Return what a renderer encodes with, where it says so; stop strings need it."""
    return getattr(renderer, "tokenizer", None)


def load_engine(folder: Path, tokenizer: Tokenizer | None) -> Engine:
    """Load a folder into the local engine, in bfloat16 where the hardware computes in it."""
    try:
        import torch

        from agentfly.engines.local import LocalEngine
        from agentfly.engines.local.weights import bfloat16_pays
    except ImportError as error:
        raise ConfigError(
            f"running a model here needs the extra `local` ({error.name} is missing): "
            "pip install 'agentfly[local]'"
        ) from error
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if bfloat16_pays(device) else torch.float32
    return LocalEngine(load_model(folder, dtype=dtype, device=device), tokenizer)


def _with_format(renderer: Renderer, call_format: CallFormat | None) -> Renderer:
    """Let a renderer that was passed read the format that was asked for."""
    if call_format is None:
        return renderer
    if not isinstance(renderer, TemplateRenderer):
        raise ConfigError(
            f"the format {call_format.name!r} can't be given to a {type(renderer).__name__}: "
            "let your renderer read it itself, and leave format= and kind= out"
        )
    return renderer.reading(call_format)


def _renderer_of(engine: Engine, call_format: CallFormat | None) -> Renderer:
    """Render for a script in ChatML; a real model's own template can't be guessed."""
    if not isinstance(engine, ScriptedEngine):
        raise ConfigError(
            f"how to render prompts for a {type(engine).__name__} is not known: pass "
            "renderer=TemplateRenderer.from_folder(folder), or name the model's folder instead"
        )
    return TemplateRenderer(engine.tokenizer, ChatTemplate(CHATML), format=call_format)
