"""Real chat templates: those of the installed packages, and a folder next to the project."""

from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("transformers", "trl", "vllm")
_BESIDE = Path(__file__).parents[1].parent / "shared" / "data" / "templates"


def real_templates(folder: Path | None = None) -> dict[str, Path]:
    """Return all templates of a folder, or all at hand, by name.

    Variants of trl that differ from another template by `{% generation %}` alone are left out.
    """
    folders = [folder] if folder else [*_installed(), _BESIDE]
    files = (file for found in folders for file in sorted(found.rglob("*.jinja")))
    return {file.stem: file for file in files if not file.stem.endswith("_training")}


def _installed() -> list[Path]:
    specs = filter(None, map(find_spec, _PACKAGES))
    return [Path(place) for spec in specs for place in spec.submodule_search_locations or ()]
