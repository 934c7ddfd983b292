"""What can be chosen about the shop."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from agentfly.config import Settings


def _from_home(path: Path) -> Path:
    """Replace a leading `~`, which is only known for one as long as it leads."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{error} Write the whole path instead of {str(path)!r}") from None


class WebShopOptions(Settings):
    """The shop, its goals, and how an agent sees and moves in it."""

    data: Annotated[Path, AfterValidator(_from_home)] | None = None
    """Folder with the official files; a generated catalog without one."""
    full: bool = False
    """Take the files of all products where the folder also has those of the first 1,000."""
    goals: Literal["written", "human"] = "written"
    """Of the official files: the instructions written by rule, or those that people wrote."""
    level: Literal["easy", "medium", "hard"] = "medium"
    """Of the generated catalog: how many products, attributes and options there are."""
    products: int | None = Field(default=None, ge=10)
    """How many products: the first of the files, or so many generated ones."""
    actions: Literal["tools", "tool", "text"] = "tools"
    """Tools `search`, `click` and `buy`; one tool `act`; or actions said in plain text."""
    observation: Literal["compact", "text", "rich"] = "compact"
    """How a page reads: one row a line with brackets around what can be clicked; the published text
    with separators; or the published rich form."""
    clickables: bool = False
    """End every observation with a list of the actions that are possible."""
    repeat_instruction: bool = False
    """Put the instruction over every page, as published; else over the search page alone."""
    page_size: int = Field(default=10, ge=1, le=50)
    """How many results a page shows."""
    max_turns: int = Field(default=15, ge=1)
    """How many turns a session may take."""
