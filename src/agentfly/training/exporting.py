"""The model that a run leaves behind, as a folder that is whole or absent."""

import shutil
from collections.abc import Callable
from pathlib import Path

from agentfly.errors import RunError
from agentfly.training.disk import disk_problem


def export_model(export: Callable[[Path], None], folder: Path) -> None:
    """Let `export` write a plain Hugging Face folder; an earlier one is replaced."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        export(part)
    except Exception as error:
        free = shutil.disk_usage(folder.parent).free
        shutil.rmtree(part, ignore_errors=True)
        if problem := disk_problem(error, free):
            raise RunError(
                f"the model could not be written to {folder}: {problem}. Free some space, then "
                "continue with --resume"
            ) from error
        raise
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
