"""A check in Python: `check = "my_checks:cart"` in the source's options."""

from agentfly.environments.browser.sites.own import CheckedPage


def cart(page: CheckedPage) -> float | bool:
    return page.url.endswith("/cart") and page.task["product"] in page.text


shown = CheckedPage(url="http://shop/cart", text="1 red mug", task={"product": "mug"})
assert cart(shown)
