"""Settings of clusters and the files in examples/cluster/, as far as they need no cluster."""

import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from tests.patience import PATIENCE
from typer.testing import CliRunner

from agentfly.agents.preflight import cluster_problems
from agentfly.cli.main import app
from agentfly.config import ClusterSettings, RunSettings

FOLDER = Path(__file__).parents[2] / "examples" / "cluster"


@pytest.mark.parametrize("name", ["one_machine.toml", "gpu_nodes.toml"])
def test_settings_pass_a_dry_run(name: str) -> None:
    result = CliRunner().invoke(app, ["train", str(FOLDER / name), "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "[cluster]" in result.output


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_of_valid_syntax(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True, timeout=PATIENCE)


def test_the_kubernetes_file_has_a_head_and_nodes_that_share_a_volume() -> None:
    job = yaml.safe_load((FOLDER / "kuberay.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    pods = [group["template"]["spec"] for group in cluster["workerGroupSpecs"]]
    pods.append(cluster["headGroupSpec"]["template"]["spec"])
    for pod in pods:
        (container,) = pod["containers"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_the_client_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="not supported"):
        ClusterSettings(ray="ray://10.0.0.1:10001")


@pytest.mark.parametrize(
    ("key", "value", "way_out"),
    [("gpus", [0, 1], "set cluster.engine_gpus"), ("weights", "nccl", "choose 'folder'")],
)
def test_servers_on_nodes_take_no_settings_of_servers_here(
    key: str, value: object, way_out: str
) -> None:
    engine = {"name": "vllm", "replicas": 2, key: value}
    tables = {"name": "run", "model": {"name": "tiny"}, "engine": engine}
    cluster = {"ray": "auto"}
    (problem,) = cluster_problems(RunSettings.model_validate({**tables, "cluster": cluster}))
    assert problem.key == f"engine.{key}"
    assert way_out in problem.text
    here = RunSettings.model_validate({**tables, "cluster": {**cluster, "engines": "here"}})
    assert not list(cluster_problems(here))
