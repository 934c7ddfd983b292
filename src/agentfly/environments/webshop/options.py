"""The options of the environment `webshop`."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from agentfly.environments.kit import EnvironmentOptions


def _from_home(path: Path) -> Path:
    """Expand a leading `~` now: joined to another folder, it would no longer lead."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{error} Write the whole path instead of {str(path)!r}") from None


class WebShopOptions(EnvironmentOptions):
    """Catalog, goals, actions and observations of the shop."""

    data: Annotated[Path, AfterValidator(_from_home)] | None = None
    """Folder with the official files; a generated catalog without one."""
    full: bool = False
    """Take the files of all products where the folder also has those of the first 1,000. Only with
    `data`."""
    goals: Literal["written", "human"] = "written"
    """Which instructions of the official files to use: written by rule, or by people. Only with
    `data`."""
    level: Literal["easy", "medium", "hard"] = "medium"
    """Difficulty of the generated catalog: how many products, attributes and options it has. Only
    without `data`."""
    products: int | None = Field(default=None, ge=10)
    """Number of products: the first of the files, or generated ones."""
    option_match: Literal["published", "values"] = "published"
    """How the reward compares options: as published, where the very value that is asked for may
    count as missed; or value with value, where it never does."""
    actions: Literal["tools", "tool", "text", "last_line"] = "tools"
    """Tools `search`, `click` and `buy`; one tool `act`; actions in plain text; or a text whose
    last line is the action, above which a model can think, and the expert compares prices."""
    observation: Literal["compact", "text", "rich"] = "compact"
    """Form of a page: a row per line with brackets around clickable texts; the published text with
    separators; or the published rich form."""
    clickables: bool = False
    """End every observation with a list of the actions that are possible."""
    repeat_instruction: bool | None = None
    """Put the instruction above every page, or above the search page only; by default above every
    page of the published forms."""
    bracket_options: bool = False
    """Put the values to choose in [brackets] in the instruction too, exactly as on the pages: for
    models that are too small to know that a word with and without a blank before it is the same."""
    aligned_prices: bool = False
    """Write prices with leading zeros (`$087.99`), also in the instruction, so that they can be
    compared digit by digit."""
    page_size: int = Field(default=10, ge=1, le=50)
    """Number of results per page."""
    max_turns: int = Field(default=15, ge=1)
    """Maximum number of turns of a session."""

    @model_validator(mode="after")
    def _check_effects(self) -> "WebShopOptions":
        self.refuse_without_effect(
            (self.data is not None, ("full", "goals"), "for the official files, with `data`"),
            (self.data is None, ("level",), "for the generated catalog, without `data`"),
        )
        return self
