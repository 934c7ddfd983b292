"""The model that a run leaves behind, as a folder that is whole or absent."""

import shutil
from pathlib import Path

from agentfly.training.learner.policy import Policy


def export_model(policy: Policy, folder: Path) -> None:
    """Write a plain Hugging Face folder, adapters merged; an earlier one is replaced."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    policy.export(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
