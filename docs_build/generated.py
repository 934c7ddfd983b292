"""Pages that are generated as a whole."""

from agentfly.algorithms import ALGORITHMS
from agentfly.config import settings_page
from docs_build.api_page import api_pages
from docs_build.command_page import command_page


def generated_pages() -> dict[str, str]:
    """Return the text of each generated page by its path below docs/."""
    return {
        "commands.md": command_page(),
        "settings.md": settings_page({"algorithm": ALGORITHMS}),
        **{f"api/{name}": text for name, text in api_pages().items()},
    }
