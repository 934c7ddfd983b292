"""docs/settings.md is made by `python tests/config/test_reference_page.py`."""

from pathlib import Path

from agentfly.algorithms import ALGORITHMS
from agentfly.config import RunSettings, settings_page
from agentfly.config.setting_types import table_of, types_of

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def current_page() -> str:
    return settings_page({"algorithm": ALGORITHMS})


def test_the_page_in_the_documentation_has_what_the_classes_say() -> None:
    assert PAGE.read_text() == current_page()


def test_every_key_is_reported_with_its_meaning() -> None:
    rows = [line for line in settings_page().splitlines() if line.startswith("| `")]
    reported = {line.split("`")[1] for line in rows}
    for kind in types_of(RunSettings).values():
        table = table_of(kind)
        assert set(types_of(table)) - {"lora"} <= reported
    assert all(not line.endswith("|  |") for line in rows), "a setting without a docstring"


if __name__ == "__main__":
    PAGE.write_text(current_page())
