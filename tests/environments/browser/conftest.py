"""A real site on the loopback interface, and no browser left behind."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.environments.browser.browser_site import LocalSite

from agentfly.environments.browser import BrowserSession
from agentfly.environments.browser.chromium.pool import browser_pool
from agentfly.runtime.background import run_blocking


@pytest.fixture(scope="session")
def site() -> Iterator[LocalSite]:
    with LocalSite() as made:
        yield made


@pytest.fixture
async def session() -> AsyncIterator[BrowserSession]:
    made = BrowserSession()
    yield made
    await made.close()


@pytest.fixture(scope="module", autouse=True)
def no_browser_left() -> Iterator[None]:
    yield
    run_blocking(browser_pool().close())
