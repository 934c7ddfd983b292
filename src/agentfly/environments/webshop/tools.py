"""The shop as tools: `search`, `click` and `buy`, or all of it as `act`."""

from agentfly.environments.webshop.environment import WebShop
from agentfly.tools import tool
from agentfly.types import EnvSpec, Step, Tool


def three_tools(shop: EnvSpec) -> tuple[Tool, ...]:
    """Return one tool for each kind of action in the shop."""

    @tool(env=shop)
    def search(query: str, env: WebShop) -> Step:  # noqa: D417 - the model fills no env
        """Search the shop. Only possible on the search page.

        Args:
            query: A few words.
        """
        return env.search(query)

    @tool(env=shop)
    def click(label: str, env: WebShop) -> Step:  # noqa: D417 - the model fills no env
        """Click a product, an option or a button of the page.

        Args:
            label: Its text.
        """
        return env.click(label)

    @tool(env=shop)
    def buy(env: WebShop) -> Step:
        """Buy the product of the page with the options clicked. This ends the task."""
        return env.buy()

    return search, click, buy


def one_tool(shop: EnvSpec) -> tuple[Tool, ...]:
    """Return one tool that takes actions as text."""

    @tool(env=shop)
    def act(action: str, env: WebShop) -> Step:  # noqa: D417 - the model fills no env
        """Act in the shop.

        Args:
            action: search[words] on the search page, or click[text of a link, option or button].
        """
        return env.step(action)

    return (act,)
