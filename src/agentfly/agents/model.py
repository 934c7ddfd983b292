"""Models as users give them, resolved to an engine with its renderer, or to a chat model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from agentfly.agents.chat_adapters import TextualChatModel
from agentfly.chat import CHATML, ChatTemplate, TemplateRenderer
from agentfly.chat.formats import CallFormat
from agentfly.chat.tokenizer_folder import require_matching_tokenizer
from agentfly.config import EngineSettings
from agentfly.config.validation_errors import refuse_if_any
from agentfly.engines import EngineSpec, ScriptedEngine, make_engine
from agentfly.engines.factory import engine_problems
from agentfly.errors import ConfigError
from agentfly.models import context_length, load_model, resolve_model
from agentfly.types import ChatModel, Engine, Renderer, Tokenizer


@dataclass(slots=True, kw_only=True)
class Model:
    """Engine with its renderer, or a chat model."""

    renderer: Renderer | None = None
    chat_model: ChatModel | None = None
    context_length: float = math.inf
    """Maximum number of tokens that the model can see at once."""
    folder: Path | None = None
    """Folder of a named model. Its weights are loaded when its engine is first needed, so that an
    agent that is only trained holds none of its own."""
    given: Engine | None = None
    """Engine that a user made, and closes."""
    loaded: Engine | None = None
    """Engine of the folder, made and closed here."""
    engine_settings: EngineSettings = field(default_factory=EngineSettings)
    """Settings of the folder's engine."""
    trust_remote_code: bool = False
    """Whether Python code in the folder may be run."""
    template_options: Mapping[str, Any] = field(default_factory=dict)
    """Values for variables of a named model's chat template."""

    @property
    def is_given(self) -> bool:
        """Whether there is a model at all."""
        return self.renderer is not None or self.chat_model is not None

    @property
    def engine(self) -> Engine | None:
        """Engine that samples tokens; None for a chat model."""
        if self.given is None and self.loaded is None and self.folder is not None:
            self.loaded = self._make_engine(self.folder)
        return self.given or self.loaded

    def _make_engine(self, folder: Path) -> Engine:
        load = partial(load_weights, folder, trust_remote_code=self.trust_remote_code)
        spec = EngineSpec(
            settings=self.engine_settings,
            folder=folder,
            load=load,
            tokenizer=tokenizer_of(self.renderer),
            context_length=self.context_length,
        )
        return make_engine(spec)

    def with_engine(self, engine: Engine) -> "Model":
        """Return a copy with another engine and the same renderer."""
        return replace(self, given=engine, loaded=None, chat_model=None)

    async def close(self) -> None:
        """Free the engine that was loaded here; users close their own."""
        if self.loaded is not None:
            await self.loaded.close()


def open_model(
    model: str | Path | Engine | ChatModel,
    renderer: Renderer | None,
    call_format: CallFormat | None,
    *,
    engine: EngineSettings | None = None,
    trust_remote_code: bool = False,
    template_options: Mapping[str, Any] | None = None,
) -> Model:
    """Combine a model with the renderer that it needs; look up a name and load its folder."""
    options = template_options or {}
    if options and (renderer is not None or not isinstance(model, (str, Path))):
        raise ConfigError(
            f"template_options ({', '.join(options)}) are for the template of a model that is "
            "named: give them to TemplateRenderer.from_folder(folder, template_options=...)"
        )
    if isinstance(model, (str, Path)):
        if engine is not None:
            refuse_if_any([*engine_problems(engine)], None)
        folder = resolve_model(model, trust_remote_code=trust_remote_code)
        opened = _open_named(folder, renderer, call_format, options)
        return replace(
            opened,
            engine_settings=engine or EngineSettings(),
            trust_remote_code=trust_remote_code,
        )
    if engine is not None:
        raise ConfigError(
            "`engine` chooses what samples from a model that is named, and this agent's model is a "
            f"{type(model).__name__} already: leave `engine` out"
        )
    if hasattr(model, "sample"):
        given = cast(Engine, model)
        own = _with_format(renderer, call_format) if renderer is not None else None
        return Model(
            given=given,
            renderer=own or _renderer_of(given, call_format),
            context_length=getattr(given, "context_length", math.inf),
        )
    if hasattr(model, "reply"):
        return Model(chat_model=TextualChatModel(model, call_format) if call_format else model)
    raise ConfigError(
        "a model is a name, a folder, an engine (with `sample`) or a chat model (with `reply`), "
        f"got {model!r}"
    )


def _open_named(
    folder: Path,
    renderer: Renderer | None,
    call_format: CallFormat | None,
    options: Mapping[str, Any],
) -> Model:
    if renderer is not None:
        require_matching_tokenizer(folder, renderer)
        renderer = _with_format(renderer, call_format)
    return Model(
        folder=folder,
        renderer=renderer
        or TemplateRenderer.from_folder(folder, format=call_format, template_options=options),
        context_length=context_length(folder),
        template_options=options,
    )


def tokenizer_of(renderer: Renderer | None) -> Tokenizer | None:
    """Return a renderer's tokenizer, if it has one; stop strings need it."""
    return getattr(renderer, "tokenizer", None)


def load_weights(folder: Path, dtype: str, *, trust_remote_code: bool) -> Any:
    """Load a folder in a dtype, onto the GPU if there is one."""
    import torch  # only for engines in this process

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return load_model(
        folder, dtype=getattr(torch, dtype), device=device, trust_remote_code=trust_remote_code
    )


def _with_format(renderer: Renderer, call_format: CallFormat | None) -> Renderer:
    """Return the given renderer, made to read the requested format."""
    if call_format is None:
        return renderer
    if not isinstance(renderer, TemplateRenderer):
        raise ConfigError(
            f"the format {call_format.name!r} can't be given to a {type(renderer).__name__}: "
            "let your renderer read it itself, and leave format= and kind= out"
        )
    return renderer.with_format(call_format)


def _renderer_of(engine: Engine, call_format: CallFormat | None) -> Renderer:
    """Return a ChatML renderer for a scripted engine; raise ConfigError for any other."""
    if not isinstance(engine, ScriptedEngine):
        raise ConfigError(
            f"how to render prompts for a {type(engine).__name__} is not known: pass "
            "renderer=TemplateRenderer.from_folder(folder), or name the model's folder instead"
        )
    return TemplateRenderer(engine.tokenizer, ChatTemplate(CHATML), format=call_format)
