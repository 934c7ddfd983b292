"""The files in examples/cluster/, as far as they can be checked without a cluster."""

import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from tests.patience import PATIENCE
from typer.testing import CliRunner

from agentfly.cli.main import app
from agentfly.config import ClusterSettings

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
