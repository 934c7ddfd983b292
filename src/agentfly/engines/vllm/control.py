"""vLLM's routes for reinforcement learning.

They exist when the server was started with VLLM_SERVER_DEV_MODE=1, and they are not guarded by
a key: keep such a server off the open network. Nothing here is retried, because half of an
update that ran twice would be worse than none.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field

from agentfly.engines.http_engine import engine_errors
from agentfly.engines.vllm.generate import PATH
from agentfly.errors import EngineError, HttpError
from agentfly.runtime.http_client import Call, HttpClient, HttpResponse
from agentfly.runtime.http_retry import ONCE, ForbiddenError, NotFoundError, Retry
from agentfly.types import AdapterFolder

T = TypeVar("T")

DEV_MODE = "VLLM_SERVER_DEV_MODE=1"
SCALE_OUT = "--enable-scale-out"
ENABLE_LORA = "--enable-lora"
LOAD_LORA = "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"

LOAD_LORA_PATH = "/v1/load_lora_adapter"
_NO_ROUTE = re.compile(r'"detail": ?"Not Found"')
"""Body of FastAPI's answer for a path that it does not know."""

SERVE_OPTIONS = (
    # After temperature: right for training as long as nothing is truncated.
    *("--logprobs-mode", "processed_logprobs"),
    # A model's own generation config must not change how we sample.
    *("--generation-config", "vllm"),
    # Without it the route for token ids answers 403.
    SCALE_OUT,
)
"""Options of every server that is trained through."""


class MissingOptionError(EngineError):
    """A server that was started without an option that training needs."""


def missing_option(url: str, option: str, *, lora_rank: int | str | None = None) -> EngineError:
    """Return the error that names an option and the way to start the server."""
    if lora_rank is None and option in (ENABLE_LORA, LOAD_LORA):
        lora_rank = "RANK"
    # All that is known then is that a route is missing.
    doubt = " (or it is no vLLM server)" if option == DEV_MODE else ""
    return MissingOptionError(
        f"{url} was started without {option}, which training needs{doubt}. Start it with: "
        f"{start_command(lora_rank)}"
    )


def start_command(lora_rank: int | str | None = None) -> str:
    """Return the way to start a server by hand.

    >>> start_command()
    'VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --logprobs-mode processed_logprobs \
--generation-config vllm --enable-scale-out'
    """
    if lora_rank is None:
        return " ".join((DEV_MODE, "vllm serve MODEL", *SERVE_OPTIONS))
    lora = (ENABLE_LORA, "--max-lora-rank", str(lora_rank))
    return " ".join((DEV_MODE, LOAD_LORA, "vllm serve MODEL", *SERVE_OPTIONS, *lora))


def require_scale_out(url: str, error: ForbiddenError, *, lora_rank: int | None = None) -> None:
    """Raise MissingOptionError if vLLM itself refused the route for token ids."""
    if SCALE_OUT in str(error):
        raise missing_option(url, SCALE_OUT, lora_rank=lora_rank) from error


class _WorldSize(BaseModel):
    world_size: int


class _Success(BaseModel):
    success: bool


class _Device(BaseModel):
    device: str


class _Model(BaseModel):
    logprobs_mode: str
    max_model_len: int


class _Lora(BaseModel):
    max_lora_rank: int


class _Config(BaseModel):
    device_config: _Device
    model_config_: _Model = Field(alias="model_config")
    lora_config: _Lora | None = None


class _ServerInfo(BaseModel):
    vllm_config: _Config
    vllm_env: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Options that a server was started with, as far as they matter here."""

    device: str
    logprobs_mode: str
    max_model_len: int
    max_lora_rank: int | None
    """None without --enable-lora."""
    loads_lora: bool
    """Whether adapters can be loaded while it runs, as far as it says."""


class Control:
    """Client of a vLLM server's routes other than sampling."""

    def __init__(self, server: HttpClient, *, lora_rank: int | None = None) -> None:
        """Prepare; `lora_rank` is for messages that say how to start the server."""
        self._server = server
        self._lora_rank = lora_rank

    async def pause(self, *, keep_cache: bool, deadline: float) -> None:
        """Freeze all requests where they are; new ones wait."""
        query = {"mode": "keep"} | ({"clear_cache": "false"} if keep_cache else {})
        await self._done(Call(path="/pause", query=query), deadline)

    async def resume(self, *, deadline: float) -> None:
        """Let all requests go on."""
        await self._done(Call(path="/resume"), deadline)

    async def abort_all(self, *, deadline: float) -> None:
        """End all requests: their waiters get what was sampled, marked as aborted."""
        await self._done(Call(path="/abort_requests", body={}), deadline)

    async def label_weights(self, version: int, *, deadline: float) -> None:
        """Set the version under which tokens are sampled from now on."""
        body = {"new_version": str(version)}
        await self._done(Call(path="/update_weight_version", body=body), deadline)

    async def forget_cache(self, *, deadline: float) -> None:
        """Forget all keys and values, those of frozen requests included: they are recomputed."""
        query = {"reset_running_requests": "true", "reset_external": "true"}
        call = Call(path="/reset_prefix_cache", query=query)
        if not (await self._request(call, _succeeded, deadline, retry=ONCE)).success:
            raise EngineError("vLLM could not forget the keys that the old weights made")

    async def load_adapter(self, adapter: AdapterFolder, *, deadline: float) -> None:
        """Load a LoRA adapter, in place of one of the same name."""
        body = {"lora_name": adapter.name, "lora_path": str(adapter.path), "load_inplace": True}
        await self._done(Call(path=LOAD_LORA_PATH, body=body), deadline)

    async def reload_weights(self, folder: Path, *, deadline: float) -> None:
        """Have every worker read the weights from a folder."""
        kwargs = {"weights_path": _absolute(folder)}
        body = {"method": "reload_weights", "kwargs": kwargs}
        await self._done(Call(path="/collective_rpc", body=body), deadline)

    async def world_size(self, *, deadline: float) -> int:
        """Return the number of workers that hold the model."""
        call = Call(method="GET", path="/get_world_size")
        return (await self._request(call, _world_size, deadline)).world_size

    async def describe(self, *, deadline: float) -> ServerInfo:
        """Return the options that the server was started with."""
        call = Call(method="GET", path="/server_info", query={"config_format": "json"})
        info = await self._request(call, _info, deadline)
        config, model = info.vllm_config, info.vllm_config.model_config_
        return ServerInfo(
            device=config.device_config.device,
            logprobs_mode=model.logprobs_mode,
            max_model_len=model.max_model_len,
            max_lora_rank=config.lora_config.max_lora_rank if config.lora_config else None,
            loads_lora=info.vllm_env.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING") is not False,
        )

    async def require_token_ids(self, *, deadline: float) -> None:
        """Raise MissingOptionError if the route for token ids is switched off.

        An empty request is refused in any case, and samples nothing.
        """
        call = Call(path=PATH, body={})
        try:
            await self._server.request(call, _anything, deadline=deadline, retry=ONCE)
        except ForbiddenError as error:
            require_scale_out(self._server.endpoint.url, error, lora_rank=self._lora_rank)
            raise EngineError(str(error)) from error
        except HttpError:
            return

    async def _done(self, call: Call, deadline: float) -> None:
        await self._request(call, _anything, deadline, retry=ONCE)

    async def _request(
        self,
        call: Call,
        read: Callable[[HttpResponse], Awaitable[T]],
        deadline: float,
        *,
        retry: Retry | None = None,
    ) -> T:
        with engine_errors():
            try:
                return await self._server.request(call, read, deadline=deadline, retry=retry)
            except NotFoundError as error:
                self._require_route(call.path, error)
                raise

    def _require_route(self, path: str, error: NotFoundError) -> None:
        """Raise MissingOptionError where it is the route that was not found."""
        if path == LOAD_LORA_PATH and not _NO_ROUTE.search(str(error)):
            return  # the adapter's folder was not found
        option = LOAD_LORA if path == LOAD_LORA_PATH else DEV_MODE
        url = self._server.endpoint.url
        raise missing_option(url, option, lora_rank=self._lora_rank) from error


def _absolute(path: Path) -> str:
    return str(path.resolve())


async def _anything(answer: HttpResponse) -> None:
    await answer.body()


async def _succeeded(answer: HttpResponse) -> _Success:
    return await answer.json(_Success, "whether it succeeded")


async def _info(answer: HttpResponse) -> _ServerInfo:
    return await answer.json(_ServerInfo, "vllm_config with device_config and model_config")


async def _world_size(answer: HttpResponse) -> _WorldSize:
    return await answer.json(_WorldSize, "its world size")
