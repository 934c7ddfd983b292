"""New weights for a vLLM server: in the right order, labeled, and never half."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.engines.http_standin import Received, Reply
from tests.engines.test_vllm_engine import FIRST, PROMPT, SEED, sample, serving
from tests.engines.vllm_standin import FakeVllm, token_at
from tests.patience import HandMovedClock, until

from agentfly.engines.vllm import NcclTransfer, VllmEngine, WeightSync
from agentfly.errors import ConfigError, DeadlineError, EngineError, StaleWeightsError
from agentfly.types import AdapterFolder, NamedTensors, SamplingParams, WeightsFolder

LONG = SamplingParams(max_tokens=12)
WEIGHTS = NamedTensors(stream=lambda: {"embed.weight": (4, 2), "head.weight": (4, 2)}.items())


WHOLE = ("lm_head.weight", "model.norm.weight")
"""Names of the tensors of a whole folder."""


@pytest.fixture
def folder(tmp_path: Path) -> WeightsFolder:
    return weights_folder(tmp_path, *WHOLE)


def weights_folder(
    path: Path, *names: str, metadata: dict[str, Any] | None = None
) -> WeightsFolder:
    """Write what a Hugging Face folder has: tensors of one number each, behind a header."""
    places = {
        name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * at, 4 * at + 4]}
        for at, name in enumerate(names)
    }
    header = json.dumps(places | (metadata or {})).encode()
    length = len(header).to_bytes(8, "little")
    (path / "model.safetensors").write_bytes(length + header + bytes(4 * len(names)))
    return WeightsFolder(path=path)


def torn_folder(path: Path, how: str) -> WeightsFolder:
    """Write `WHOLE` with its head, but without another tensor, or with the end of its file cut."""
    path.mkdir(exist_ok=True)
    folder = weights_folder(path, *(WHOLE[:1] if how == "lacks a tensor" else WHOLE))
    if how == "is cut":
        file = path / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-2])
    return folder


class FakeTransfer:
    """Speaks as vLLM's NCCL trainer-side engine does, and moves nothing.

    The announcement blocks until the tensors are sent, so it must run beside the sending.
    """

    def __init__(self) -> None:
        self.sent: list[NamedTensors] = []
        self.error: Exception | None = None

    def connect(self, sync: WeightSync) -> None:
        sync.init_weight_transfer_engine(
            {
                "master_address": "127.0.0.1",
                "master_port": 29600,
                "rank_offset": 1,
                "world_size": sync.world_size + 1,
                "packed": True,
            }
        )

    def send(self, sync: WeightSync, weights: NamedTensors) -> None:
        tensors = dict(weights.stream())
        sync.start_weight_update()
        announcement = threading.Thread(
            target=sync.update_weights,
            args=(
                {
                    "names": list(tensors),
                    "dtype_names": ["bfloat16"] * len(tensors),
                    "shapes": [list(shape) for shape in tensors.values()],
                },
            ),
        )
        announcement.start()
        announcement.join()
        if self.error is not None:
            raise self.error
        self.sent.append(weights)
        sync.finish_weight_update()


async def test_an_update_is_announced_sent_labeled_and_taken_up_in_order() -> None:
    fake, transfer = FakeVllm(), FakeTransfer()
    async with serving(fake, transfer=transfer) as (engine, server):
        await engine.publish(WEIGHTS, 1)
        await engine.publish(WEIGHTS, 2)
        assert (await sample(engine)).versions == ((2, 4),)
        init = next(r for r in server.received if r.path == "/init_weight_transfer_engine")
    update = ["start", "update", "finish", "version", "reset_cache", "resume"]
    assert fake.log == ["pause", "init", *update, "pause", *update]
    assert init.body["init_info"]["world_size"] == 3, "two workers and the learner"
    assert transfer.sent == [WEIGHTS, WEIGHTS]


async def test_a_folder_is_reloaded_by_every_worker(folder: WeightsFolder) -> None:
    fake = FakeVllm()
    async with serving(fake) as (engine, _):
        await engine.publish(folder, 7)
        assert (await sample(engine)).versions == ((7, 4),)
    assert fake.reloaded == [str(folder.path)]
    assert fake.log == ["pause", "reload", "version", "reset_cache", "resume"]


async def test_a_folder_without_the_head_is_refused(tmp_path: Path) -> None:
    fake = FakeVllm()
    async with serving(fake) as (engine, _):
        with pytest.raises(ConfigError, match=r"no tensor 'lm_head.weight'.*old head"):
            await engine.publish(weights_folder(tmp_path, "model.embed_tokens.weight"), 1)
        with pytest.raises(ConfigError, match=r"no \.safetensors file"):
            await engine.publish(WeightsFolder(path=tmp_path / "nowhere"), 1)
    assert fake.log == []


async def test_a_folder_that_lacks_a_tensor_of_the_last_one_is_refused(
    folder: WeightsFolder, tmp_path: Path
) -> None:
    """vLLM itself takes it without an error, and samples from a mixture."""
    fake = FakeVllm()
    async with serving(fake) as (engine, _):
        await engine.publish(folder, 1)
        with pytest.raises(ConfigError, match=r"lacks 1 of the 2 .* such as 'model.norm.weight'"):
            await engine.publish(torn_folder(tmp_path / "torn", "lacks a tensor"), 2)
        assert (await sample(engine)).versions == ((1, 4),)
    assert fake.reloaded == [str(folder.path)]


async def test_metadata_of_a_file_is_no_tensor(tmp_path: Path) -> None:
    async with serving(FakeVllm()) as (engine, _):
        described = {"__metadata__": {"format": "pt"}}
        await engine.publish(weights_folder(tmp_path, *WHOLE, metadata=described), 1)
        await engine.publish(weights_folder(tmp_path, *WHOLE), 2)
        assert (await sample(engine)).versions == ((2, 4),)


async def test_after_a_folder_that_the_server_can_not_read_a_whole_one_is_needed(
    folder: WeightsFolder, tmp_path: Path
) -> None:
    async with serving(FakeVllm()) as (engine, _):
        await engine.publish(folder, 1)
        with pytest.raises(EngineError, match="incomplete metadata"):
            await engine.publish(torn_folder(tmp_path / "torn", "is cut"), 2)
        with pytest.raises(EngineError, match=r"of no known version.*Load weights again"):
            await sample(engine)
        await engine.publish(folder, 3)
        assert (await sample(engine)).versions == ((3, 4),)


async def test_a_completion_may_span_versions_that_its_tokens_name(
    folder: WeightsFolder,
) -> None:
    fake = FakeVllm(seconds_per_token=0.02)
    async with serving(fake, version=3) as (engine, server):
        heard: list[int] = []
        task = asyncio.get_running_loop().create_task(
            sample(engine, LONG, on_token=lambda t, _: heard.append(t))
        )
        await until(lambda: len(heard) >= 3)
        await engine.publish(folder, 4)
        completion = await task
        assert len(server.received) == 6
    [(first, before), (second, after)] = completion.versions
    assert (first, second) == (3, 4)
    assert before >= 3
    assert before + after == 12
    assert completion.token_ids == tuple(FIRST[:12])


@pytest.mark.parametrize(("policy", "forgotten"), [("recompute", True), ("keep", False)])
async def test_old_keys_are_forgotten_or_kept_as_configured(
    policy: Any, forgotten: bool, folder: WeightsFolder
) -> None:
    fake = FakeVllm()
    async with serving(fake, stale_cache=policy) as (engine, _):
        await engine.publish(folder, 1)
    assert (fake.cache_resets > 0) is forgotten
    assert ("reset_cache" in fake.log) is forgotten


async def test_an_adapter_is_loaded_in_place_and_sampled_from() -> None:
    fake = FakeVllm()
    async with serving(fake) as (engine, server):
        await engine.publish(AdapterFolder(path=Path("/runs/1")), 1)
        first = await sample(engine)
        await engine.publish(AdapterFolder(path=Path("/runs/2")), 2)
        second = await sample(engine)
        bodies = [r.body for r in server.received if r.path == "/v1/load_lora_adapter"]
    assert bodies == [
        {"lora_name": "policy", "lora_path": f"/runs/{n}", "load_inplace": True} for n in (1, 2)
    ]
    wire_seed = SEED.value >> 1
    assert first.token_ids == tuple(token_at(PROMPT, wire_seed, i, "/runs/1") for i in range(4))
    assert second.token_ids == tuple(token_at(PROMPT, wire_seed, i, "/runs/2") for i in range(4))
    assert (first.versions, second.versions) == (((1, 4),), ((2, 4),))


async def test_a_server_that_lacks_an_option_is_an_error_that_names_it(
    folder: WeightsFolder,
) -> None:
    fake = FakeVllm()
    async with serving(fake) as (engine, _):
        fake.scale_out = False
        with pytest.raises(EngineError, match=r"without --enable-scale-out.* vllm serve MODEL "):
            await sample(engine)
        fake.loads_lora = False
        with pytest.raises(EngineError, match=r"without VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
            await engine.publish(AdapterFolder(path=Path("/runs/1")), 1)
        fake.dev_mode = False
        with pytest.raises(EngineError, match=r"without VLLM_SERVER_DEV_MODE=1.* vllm serve"):
            await engine.publish(folder, 1)


async def test_an_adapter_that_the_server_does_not_find_is_no_missing_option() -> None:
    async def handler(received: Received, reply: Reply) -> None:
        if received.path == "/v1/load_lora_adapter":
            error = {"message": "No adapter found for /runs/1", "code": 404}
            await reply.json({"error": error}, 404)
        else:
            await fake(received, reply)

    fake = FakeVllm()
    async with serving(handler) as (engine, _):
        with pytest.raises(EngineError, match="No adapter found") as raised:
            await engine.publish(AdapterFolder(path=Path("/runs/1")), 1)
    assert "was started without" not in str(raised.value)


async def test_a_refusal_of_the_key_asks_for_the_key() -> None:
    async def handler(received: Received, reply: Reply) -> None:
        await reply.json({"detail": "Forbidden"}, 403)

    async with serving(handler) as (engine, _):
        with pytest.raises(EngineError, match="api_key_env"):
            await sample(engine)


async def test_pausing_freezes_requests_and_resuming_lets_them_go_on(folder: WeightsFolder) -> None:
    fake = FakeVllm(seconds_per_token=0.01)
    async with serving(fake) as (engine, server):
        async with engine.paused():
            task = asyncio.get_running_loop().create_task(sample(engine))
            await server.until_received(2)
            await engine.publish(folder, 1)
            assert fake.paused, "an update inside the block must not end the pause"
            assert not task.done()
        assert (await task).versions == ((1, 4),)
    assert fake.log.count("pause") == fake.log.count("resume") == 1


@pytest.mark.parametrize(
    "route", ["/start_weight_update", "/update_weight_version", "/reset_prefix_cache"]
)
async def test_half_an_update_is_never_sampled_from(route: str) -> None:
    fake = FakeVllm(seconds_per_token=0.02)
    async with serving(fake, transfer=FakeTransfer()) as (engine, server):
        waiter = asyncio.get_running_loop().create_task(sample(engine, LONG))
        await server.until_received(1)
        fake.failing = {route}
        with pytest.raises(EngineError, match=r"answered 500: .*CUDA error"):
            await engine.publish(WEIGHTS, 1)
        with pytest.raises(EngineError, match="with the reason 'abort'"):
            await waiter
        assert fake.paused
        with pytest.raises(EngineError, match=r"of no known version.*to version 1.*Load weights"):
            await sample(engine)
        fake.failing = set()
        fake.update = "ready"
        await engine.publish(WEIGHTS, 2)
        assert (await sample(engine)).versions == ((2, 4),)


async def test_a_failure_of_the_transfer_itself_is_a_typed_error() -> None:
    transfer = FakeTransfer()
    transfer.error = RuntimeError("NCCL timeout")
    async with serving(FakeVllm(), transfer=transfer) as (engine, _):
        with pytest.raises(EngineError, match=r"sending weights to .*RuntimeError: NCCL timeout"):
            await engine.publish(WEIGHTS, 1)


async def test_a_transfer_that_hangs_ends_in_time() -> None:
    begun, never = threading.Event(), threading.Event()

    class Hanging(FakeTransfer):
        def send(self, sync: WeightSync, weights: Any) -> None:
            begun.set()
            never.wait()

    clock = HandMovedClock()
    async with serving(FakeVllm(), transfer=Hanging(), clock=clock) as (engine, _):
        update = asyncio.get_running_loop().create_task(engine.publish(WEIGHTS, 1))
        await until(begun.is_set)
        clock.pass_deadlines()
        with pytest.raises(DeadlineError, match="sending weights"):
            await update
        with pytest.raises(EngineError, match="of no known version"):
            await sample(engine)
    never.set()


async def test_a_server_that_is_gone_leaves_a_typed_error(folder: WeightsFolder) -> None:
    async with serving(FakeVllm()) as (_, server):
        url = server.url
    engine = VllmEngine(url, update_seconds=5)
    with pytest.raises(EngineError, match="/pause: the connection broke"):
        await engine.publish(folder, 1)
    await engine.close()


async def test_weights_without_a_way_are_a_mistake_that_costs_nothing() -> None:
    fake = FakeVllm()
    async with serving(fake) as (engine, _):
        with pytest.raises(ConfigError, match="takes AdapterFolder or WeightsFolder, got Named"):
            await engine.publish(WEIGHTS, 1)
        await sample(engine)
    assert fake.log == []


async def test_nccl_needs_vllm_here_too() -> None:
    async with serving(FakeVllm(), transfer=NcclTransfer(address="127.0.0.1")) as (engine, _):
        with pytest.raises(ConfigError, match="pip install vllm"):
            await engine.publish(WEIGHTS, 1)


async def test_a_server_that_lost_its_weights_is_found_out(folder: WeightsFolder) -> None:
    fake = FakeVllm()
    async with serving(fake) as (engine, _):
        await engine.publish(folder, 1)
        fake.label = "default"
        with pytest.raises(StaleWeightsError, match="Was the server restarted"):
            await sample(engine)


async def test_a_server_that_reports_no_labels_is_believed_while_nothing_changes(
    folder: WeightsFolder,
) -> None:
    fake = FakeVllm(seconds_per_token=0.02, reports_labels=False)
    async with serving(fake, version=2) as (engine, server):
        assert (await sample(engine)).versions == ((2, 4),)
        task = asyncio.get_running_loop().create_task(sample(engine, LONG))
        await server.until_received(2)
        await engine.publish(folder, 3)
        with pytest.raises(EngineError, match="changed from version 2 to 3 under this completion"):
            await task


async def test_a_publish_waits_for_a_pause_that_has_only_begun(folder: WeightsFolder) -> None:
    class SlowToPause(FakeVllm):
        async def _pause(self, received: Any, reply: Any) -> None:
            await asyncio.sleep(0.2)
            await super()._pause(received, reply)

    fake = SlowToPause()

    async def pause() -> None:
        async with engine.paused():
            assert fake.paused

    async with serving(fake) as (engine, _), asyncio.TaskGroup() as group:
        group.create_task(pause())
        await asyncio.sleep(0.05)
        await engine.publish(folder, 1)
    assert fake.log[0] == "pause"
    assert fake.log[-1] == "resume"
    assert fake.log.index("reload") > 0
