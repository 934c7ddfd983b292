"""vLLM's routes for reinforcement learning.

They exist when the server was started with VLLM_SERVER_DEV_MODE=1, and they are not guarded by
a key: keep such a server off the open network. Nothing here is retried, because half of an
update that ran twice would be worse than none.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field

from agentfly.engines.http_engine import engine_errors
from agentfly.errors import EngineError
from agentfly.runtime.http_client import Call, HttpClient, HttpResponse
from agentfly.runtime.http_retry import ONCE, Retry
from agentfly.types import AdapterFolder

T = TypeVar("T")


class _WorldSize(BaseModel):
    world_size: int


class _Success(BaseModel):
    success: bool


class _Device(BaseModel):
    device: str


class _Model(BaseModel):
    logprobs_mode: str
    max_model_len: int


class _Config(BaseModel):
    device_config: _Device
    model_config_: _Model = Field(alias="model_config")


class _ServerInfo(BaseModel):
    vllm_config: _Config


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Options that a server was started with, as far as they matter here."""

    device: str
    logprobs_mode: str
    max_model_len: int


class Control:
    """Client of a vLLM server's routes other than sampling."""

    def __init__(self, server: HttpClient) -> None:
        self._server = server

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
        await self._done(Call(path="/v1/load_lora_adapter", body=body), deadline)

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
        config = (await self._request(call, _info, deadline)).vllm_config
        model = config.model_config_
        return ServerInfo(
            device=config.device_config.device,
            logprobs_mode=model.logprobs_mode,
            max_model_len=model.max_model_len,
        )

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
            return await self._server.request(call, read, deadline=deadline, retry=retry)


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
