"""A user's check in Python, which tests name as `module:name`."""

from agentfly.environments.browser.sites.own import CheckedPage


def cart_has_wanted(page: CheckedPage) -> float:
    """Score the page of a cart by the things in it that the row wants."""
    assert page.url.startswith("http"), page.url
    wanted = page.task["wanted"]
    return sum(f"{thing} in the cart" in page.text for thing in wanted) / len(wanted)


async def cart_later(page: CheckedPage) -> float:
    """Refused: it would run on the event loop of all browsers."""
    return cart_has_wanted(page)
