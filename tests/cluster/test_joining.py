"""`ray = "auto"`: a run on a cluster that was started before it and goes on after it."""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ray._private import services
from tests.patience import PATIENCE, wait_until

from agentfly.cluster import open_cluster
from agentfly.config import ClusterSettings
from agentfly.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster" / "one_machine.toml"
AUTO = ClusterSettings(ray="auto")


@pytest.fixture
def ray_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which Ray notes which cluster runs, not shared with other tests."""
    # Not pytest's: the paths of Ray's sockets would be too long.
    folder = Path(tempfile.mkdtemp(prefix="af"))
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield folder / "ray"
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def started_by_hand(folder: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Start a cluster as a user does; yield its address and the process that ends it."""
    ray_command = Path(sys.executable).with_name("ray")
    options = ("--block", "--port=0", "--num-cpus=2", "--include-dashboard=false")
    store = f"--object-store-memory={100_000_000}"
    variables = {**os.environ, "RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [str(ray_command), "start", "--head", *options, store]
    head = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL)
    named = folder / "ray_current_cluster"
    try:
        wait_until(lambda: head.poll() is not None or (named.exists() and named.read_text()))
        assert head.poll() is None
        yield named.read_text().strip(), head
    finally:
        head.terminate()
        head.wait(PATIENCE)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_joins_the_running_cluster_and_leaves_it_running(
    ray_folder: Path, tmp_path: Path
) -> None:
    with started_by_hand(ray_folder) as (address, head):
        changes = (f"folder={tmp_path}", "cluster.ray=auto", "train.steps=1", "engine.replicas=1")
        command = [sys.executable, "-m", "agentfly.cli", "train", str(EXAMPLE), *changes]
        run = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE)
        # Not by its exit code, which says that `tiny` has learned nothing about shops.
        assert "1 step done" in run.stdout, run.stdout + run.stderr
        log = (tmp_path / "one_machine" / "log.txt").read_text()
        assert f"connected to the Ray cluster at {address}" in log
        assert head.poll() is None
        seen = subprocess.run(
            [sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=PATIENCE
        )
        assert json.loads(seen.stdout.splitlines()[-1]) == {
            "address": address,
            "nodes alive": [True],
            "earlier jobs ended": [True],
            "actors": {"EngineActor": "DEAD", "PoolActor": "DEAD"},
        }


LOOK = """
import json, ray
from ray._private.state import actors, jobs

ray.init("auto", log_to_driver=False)
here = ray.get_runtime_context()
seen = {
    "address": here.gcs_address,
    "nodes alive": [node["Alive"] for node in ray.nodes()],
    "earlier jobs ended": [job["IsDead"] for job in jobs() if job["JobID"] != here.get_job_id()],
    "actors": {actor["ActorClassName"]: actor["State"] for actor in actors().values()},
}
print(json.dumps(seen))
"""


async def test_no_running_cluster_is_named_with_all_places_that_were_searched(
    ray_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hide_processes(monkeypatch)
    with pytest.raises(ConfigError) as raised:
        async with open_cluster(AUTO, log_folder=tmp_path, concurrency=1):
            pass
    said = str(raised.value)
    assert f"RAY_ADDRESS or {ray_folder / 'ray_current_cluster'} names none" in said
    assert "`ray start --head`" in said
    assert 'ray = "local"' in said


async def test_a_cluster_that_is_gone_is_named_with_the_file_that_still_names_it(
    ray_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hide_processes(monkeypatch)
    _write(ray_folder / "ray_current_cluster", "127.0.0.1:1")
    with pytest.raises(ConfigError, match=r":1, named by RAY_ADDRESS or .*does not answer") as gone:
        async with open_cluster(AUTO, log_folder=tmp_path, concurrency=1):
            pass
    assert str(ray_folder / "ray_current_cluster") in str(gone.value)
    assert "`ray start --head`" in str(gone.value)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)


def _hide_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Ray find no processes of clusters: other tests may run some."""
    monkeypatch.setattr(services, "find_gcs_addresses", functools.cache(frozenset))
