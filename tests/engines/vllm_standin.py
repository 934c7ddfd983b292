"""Stands in for a vLLM server: keeps its interface, and samples made-up tokens.

Every request is checked against `vllm_schema`. Tokens depend on prompt, seed, position and adapter
and never repeat the prompt. As in vLLM, a pause freezes requests between two tokens, a completion
names the label of each token's weights, and aborted requests are answered as such.

Run as a program it takes the command line of `vllm serve`.
"""

import argparse
import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.engines.http_standin import Received, Reply, StandIn
from tests.engines.vllm_schema import (
    AbortRequests,
    CollectiveRpc,
    CompletionRequest,
    FinishWeightUpdate,
    GenerateRequest,
    InitWeightTransfer,
    LoadLoraAdapter,
    Pause,
    ResetPrefixCache,
    UpdateWeights,
    UpdateWeightVersion,
    WireSamplingParams,
)

FIRST_TOKEN = 1000
VOCABULARY = 50
"""Sampled tokens are 1000 to 1049."""


ALWAYS_THERE = ("/inference/v1/generate", "/v1/completions", "/health")
SCALE_OUT_IS_OFF = {
    "error": {
        "message": "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out "
        "to enable them.",
        "type": "PermissionDeniedError",
        "param": None,
        "code": 403,
    }
}
"""The answer of vLLM 0.32 started without --enable-scale-out."""


def token_at(prompt: list[int], seed: int | None, position: int, weights: str = "") -> int:
    digest = hashlib.sha256(repr((prompt, seed, position, weights)).encode()).digest()
    return FIRST_TOKEN + digest[0] % VOCABULARY


def logprob_of(token: int, position: int) -> float:
    return -0.01 * (token - FIRST_TOKEN) - 0.001 * position


def text_of(tokens: list[int]) -> str:
    """The stand-in's tokenizer: token 1005 reads "<5>"."""
    return "".join(f"<{token - FIRST_TOKEN}>" for token in tokens)


@dataclass(eq=False)
class Generating:
    tokens: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | str | None = None

    def spans(self) -> list[dict[str, Any]]:
        spans: list[dict[str, Any]] = []
        for index, label in enumerate(self.labels):
            if not spans or spans[-1]["version"] != label:
                spans.append({"version": label, "start": index, "end": index})
            spans[-1]["end"] = index + 1
        return spans


class FakeVllm:
    def __init__(self, *, seconds_per_token: float = 0.0, reports_labels: bool = True) -> None:
        self.seconds_per_token = seconds_per_token
        self.reports_labels = reports_labels
        self.label = "default"
        self.adapters: dict[str, str] = {}
        self.update: str = "none"
        self.reloaded: list[str] = []
        self.cache_resets = 0
        self.log: list[str] = []
        """Control routes in the order in which they were called."""
        self.failing: set[str] = set()
        self.healthy = True
        self.aborts = 0
        self.seeds: list[int | None] = []
        self.device = "cpu"
        self.logprobs_mode = "processed_logprobs"
        self.dev_mode = True
        """Whether it was started with VLLM_SERVER_DEV_MODE=1."""
        self.scale_out = True
        """Whether it was started with --enable-scale-out."""
        self.max_lora_rank: int | None = 16
        """None without --enable-lora."""
        self.loads_lora = True
        """Whether it was started with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1."""
        self._go = asyncio.Event()
        self._go.set()
        self._routes: dict[tuple[str, str], Callable[[Received, Reply], Awaitable[None]]] = {
            ("POST", "/inference/v1/generate"): self._generate,
            ("POST", "/v1/completions"): self._completions,
            ("GET", "/health"): self._health,
            ("GET", "/get_world_size"): self._world_size,
            ("GET", "/server_info"): self._server_info,
            ("POST", "/pause"): self._pause,
            ("POST", "/resume"): self._resume,
            ("POST", "/abort_requests"): self._abort,
            ("POST", "/init_weight_transfer_engine"): self._init,
            ("POST", "/start_weight_update"): self._start,
            ("POST", "/update_weights"): self._update,
            ("POST", "/finish_weight_update"): self._finish,
            ("POST", "/update_weight_version"): self._version,
            ("POST", "/reset_prefix_cache"): self._reset_cache,
            ("POST", "/v1/load_lora_adapter"): self._load_adapter,
            ("POST", "/collective_rpc"): self._rpc,
        }

    @property
    def paused(self) -> bool:
        return not self._go.is_set()

    async def __call__(self, received: Received, reply: Reply) -> None:
        route = self._routes.get((received.method, received.path))
        if route is None or not self._has_route(received.path):
            await reply.json({"detail": "Not Found"}, 404)
        elif received.path == "/inference/v1/generate" and not self.scale_out:
            await reply.json(SCALE_OUT_IS_OFF, 403)
        elif received.path in self.failing:
            await reply.json({"error": {"message": "CUDA error", "code": 500}}, 500)
        else:
            try:
                await route(received, reply)
            except (ValidationError, AssertionError) as error:
                await reply.json({"error": {"message": str(error), "code": 400}}, 400)

    def _has_route(self, path: str) -> bool:
        if path == "/v1/load_lora_adapter":
            return self.loads_lora
        return self.dev_mode or path in ALWAYS_THERE

    async def _step(
        self, state: Generating, prompt: list[int], params: WireSamplingParams, model: str | None
    ) -> None:
        """Sample one token, when not paused."""
        aborts = self.aborts
        await asyncio.sleep(self.seconds_per_token)
        await self._go.wait()
        if self.aborts != aborts:
            state.finish_reason = "abort"
            return
        position = len(state.tokens)
        token = token_at(prompt, params.seed, position, self.adapters.get(model or "", ""))
        state.tokens.append(token)
        state.labels.append(self.label)
        _end(state, params)

    async def _generate(self, received: Received, reply: Reply) -> None:
        request = GenerateRequest.model_validate(received.body)
        self.seeds.append(request.sampling_params.seed)
        if request.model is not None and request.model not in self.adapters:
            await reply.json({"error": {"message": "no such model", "code": 404}}, 404)
            return
        state = Generating()
        if request.stream:
            await self._stream(request, state, reply)
            return
        while state.finish_reason is None:
            await self._step(state, request.token_ids, request.sampling_params, request.model)
        choice = self._choice(state, 0)
        await reply.json({"request_id": "r", "output_mode": "tokens", "choices": [choice]})

    async def _stream(self, request: GenerateRequest, state: Generating, reply: Reply) -> None:
        reply.start_events()
        while state.finish_reason is None:
            before = len(state.tokens)
            await self._step(state, request.token_ids, request.sampling_params, request.model)
            await reply.event({"request_id": "r", "choices": [self._choice(state, before)]})
        await reply.event("[DONE]")

    def _choice(self, state: Generating, start: int) -> dict[str, Any]:
        entries = [
            {"token_id": t, "logprob": logprob_of(t, i), "rank": 1, "top_logprobs": []}
            for i, t in enumerate(state.tokens)
        ]
        ended = state.finish_reason is not None and self.reports_labels
        return {
            "index": 0,
            "token_ids": state.tokens[start:],
            "logprobs": {"content": entries[start:]},
            "finish_reason": state.finish_reason,
            "stop_reason": state.stop_reason,
            "weight_versions": state.spans() if ended else None,
        }

    async def _completions(self, received: Received, reply: Reply) -> None:
        request = CompletionRequest.model_validate(received.body)
        assert isinstance(request.prompt, list)
        prompt = [token for token in request.prompt if isinstance(token, int)]
        wire = {k: v for k, v in received.body.items() if k in WireSamplingParams.model_fields}
        params = WireSamplingParams.model_validate(wire)
        state = Generating()
        if request.stream:
            reply.start_events()
        while state.finish_reason is None:
            before = len(state.tokens)
            await self._step(state, prompt, params, None)
            if request.stream:
                await reply.event(_completion(state, before, prompt if before == 0 else None))
        if request.stream:
            await reply.event("[DONE]")
        else:
            await reply.json(_completion(state, 0, prompt))

    async def _health(self, received: Received, reply: Reply) -> None:
        await reply.body(b"", 200 if self.healthy else 503)

    async def _world_size(self, received: Received, reply: Reply) -> None:
        await reply.json({"world_size": 2})

    async def _server_info(self, received: Received, reply: Reply) -> None:
        assert received.query == {"config_format": "json"}
        model = {"logprobs_mode": self.logprobs_mode, "max_model_len": 512, "dtype": "float32"}
        lora = None if self.max_lora_rank is None else {"max_lora_rank": self.max_lora_rank}
        device = {"device": self.device}
        config = {"model_config": model, "device_config": device, "lora_config": lora}
        variables = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": self.loads_lora}
        await reply.json({"vllm_config": config, "vllm_env": variables, "system_env": {}})

    async def _pause(self, received: Received, reply: Reply) -> None:
        query = Pause.model_validate(received.query)
        assert query.mode == "keep", "other modes lose what requests in flight have sampled"
        self._go.clear()
        # As in vLLM 0.32, unless told otherwise a pause forgets the cache.
        self.cache_resets += query.clear_cache
        await self._done("pause", reply, {"status": "paused"})

    async def _resume(self, received: Received, reply: Reply) -> None:
        self._go.set()
        await self._done("resume", reply, {"status": "resumed"})

    async def _abort(self, received: Received, reply: Reply) -> None:
        AbortRequests.model_validate(received.body)
        self.aborts += 1
        # Aborted requests are answered although the scheduler stays paused.
        self._go.set()
        await asyncio.sleep(0.05)
        self._go.clear()
        await self._done("abort", reply, {"status": "aborted"})

    async def _init(self, received: Received, reply: Reply) -> None:
        InitWeightTransfer.model_validate(received.body)
        self.update = "ready"
        await self._done("init", reply, {"message": "Weight transfer initialized"})

    async def _start(self, received: Received, reply: Reply) -> None:
        assert received.body is None
        assert self.update == "ready", "init_weight_transfer_engine comes first"
        assert self.paused, "weights change only while generation is paused"
        self.update = "started"
        await self._done("start", reply, {"message": "Weight update started"})

    async def _update(self, received: Received, reply: Reply) -> None:
        UpdateWeights.model_validate(received.body)
        assert self.update == "started"
        await self._done("update", reply, {"message": "Weights updated"})

    async def _finish(self, received: Received, reply: Reply) -> None:
        FinishWeightUpdate.model_validate(received.body or {})
        assert self.update == "started"
        self.update = "ready"
        await self._done("finish", reply, {"message": "Weight update finished"})

    async def _version(self, received: Received, reply: Reply) -> None:
        assert self.paused, "weight versions change only while generation is paused"
        self.label = UpdateWeightVersion.model_validate(received.body).new_version
        await self._done("version", reply, {"success": True, "new_version": self.label})

    async def _reset_cache(self, received: Received, reply: Reply) -> None:
        query = ResetPrefixCache.model_validate(received.query)
        assert query.reset_running_requests, "else frozen requests keep it from being reset"
        self.cache_resets += 1
        await self._done("reset_cache", reply, {"success": True})

    async def _rpc(self, received: Received, reply: Reply) -> None:
        rpc = CollectiveRpc.model_validate(received.body)
        assert rpc.method == "reload_weights"
        assert self.paused, "weights change only while generation is paused"
        if cut := _cut_files(rpc.kwargs["weights_path"]):
            # Others of the folder's tensors may have been loaded before it came to these.
            message = f"Error while deserializing header: incomplete metadata: {cut}"
            await reply.json({"error": {"message": message, "code": 500}}, 500)
            return
        # As in vLLM 0.32, tensors that the folder lacks are no error: they stay as they were.
        self.reloaded.append(rpc.kwargs["weights_path"])
        await self._done("reload", reply, {"results": [None, None]})

    async def _load_adapter(self, received: Received, reply: Reply) -> None:
        request = LoadLoraAdapter.model_validate(received.body)
        if request.lora_name in self.adapters and not request.load_inplace:
            await reply.json({"error": {"message": "already loaded", "code": 400}}, 400)
            return
        self.adapters[request.lora_name] = request.lora_path
        self.log.append("adapter")
        await reply.body(b"Success: LoRA adapter added")

    async def _done(self, what: str, reply: Reply, answer: dict[str, Any]) -> None:
        self.log.append(what)
        await reply.json(answer)


def _cut_files(folder: str) -> list[str]:
    return [str(file) for file in Path(folder).glob("*.safetensors") if _is_cut(file.read_bytes())]


def _is_cut(data: bytes) -> bool:
    """Whether a file of tensors is shorter than its header says."""
    end = 8 + int.from_bytes(data[:8], "little")
    places = json.loads(data[8:end])
    places.pop("__metadata__", None)
    ends: list[int] = [place["data_offsets"][1] for place in places.values()]
    return len(data) < end + max(ends)


def _end(state: Generating, params: WireSamplingParams) -> None:
    stops = [params.stop] if isinstance(params.stop, str) else params.stop or []
    text = text_of(state.tokens)
    found = next((stop for stop in stops if stop in text), None)
    if state.tokens[-1] in (params.stop_token_ids or []):
        state.finish_reason, state.stop_reason = "stop", state.tokens[-1]
    elif found is not None:
        state.finish_reason, state.stop_reason = "stop", found
    elif len(state.tokens) == params.max_tokens:
        state.finish_reason = "length"


def _completion(state: Generating, start: int, prompt: list[int] | None) -> dict[str, Any]:
    logprobs = [logprob_of(t, i) for i, t in enumerate(state.tokens)][start:]
    choice = {
        "index": 0,
        "text": text_of(state.tokens[start:]),
        "token_ids": state.tokens[start:],
        "prompt_token_ids": prompt,
        "logprobs": {"tokens": [], "token_logprobs": logprobs},
        "finish_reason": state.finish_reason,
        "stop_reason": state.stop_reason,
    }
    return {"id": "c", "object": "text_completion", "model": "m", "choices": [choice]}


class ServeArguments(BaseModel):
    """What `start_vllm` must have said."""

    model: str
    host: str
    port: int
    logprobs_mode: str
    generation_config: str
    weight_transfer_config: str
    enable_lora: bool
    enable_scale_out: bool


def read_command_line() -> ServeArguments:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("model")
    for name in ("host", "logprobs-mode", "generation-config", "weight-transfer-config"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--port", type=int, required=True)
    for name in ("dtype", "max-num-seqs", "max-model-len", "max-lora-rank"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("--enable-lora", action="store_true")
    parser.add_argument("--enable-scale-out", action="store_true")
    parser.add_argument("--fails", action="store_true")
    parser.add_argument("--sick", action="store_true")
    options = parser.parse_args()
    if options.fails:
        print("RuntimeError: CUDA out of memory")
        sys.exit(3)
    return ServeArguments(**vars(options))


async def serve() -> None:
    arguments = read_command_line()
    assert json.loads(arguments.weight_transfer_config) == {"backend": "nccl"}
    assert os.environ["VLLM_SERVER_DEV_MODE"] == "1"
    assert arguments.enable_scale_out, "else the real server answers 403 to /inference/v1/generate"
    print("listening", arguments.model_dump_json(), flush=True)
    fake = FakeVllm(seconds_per_token=float(os.environ.get("STANDIN_SECONDS_PER_TOKEN", "0")))
    fake.healthy = "--sick" not in sys.argv
    server = await StandIn(fake).start(arguments.port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
