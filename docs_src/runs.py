import tempfile
from pathlib import Path

from agentfly.observe import open_trackers, plot_curves, read_metrics
from agentfly.observe.run_folder import RunFolder
from agentfly.training.checkpoint import Checkpoints

home = Path(tempfile.mkdtemp())


def save(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(b"...")


with RunFolder.create(home / "demo", config='name = "demo"\n') as run:
    checkpoints = Checkpoints(run.checkpoints_folder, keep=2)
    trackers = open_trackers(
        run.path, names=["tensorboard"], project="docs", run="demo", settings={}
    )
    for step in (1, 2, 3, 4):
        trackers.log({"reward/mean": step / 4}, step)
        checkpoints.save(step, save, score=1.0 if step == 1 else 0.5)
    trackers.close()

# The best one and the newest two are left.
assert sorted(path.name for path in (home / "demo/checkpoints").iterdir()) == [
    "step_1",
    "step_3",
    "step_4",
]

# A killed run is taken up where its last whole checkpoint was; later metrics are dropped.
with RunFolder.open(home / "demo") as run:
    latest = Checkpoints(run.checkpoints_folder).latest()
    assert latest is not None
    assert latest.step == 4

records = read_metrics(home / "demo/metrics.jsonl")
plot_curves(records, home / "reward.png", home / "reward.html", "A demo run")
