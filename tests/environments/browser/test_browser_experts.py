"""Experts in a real Chromium, through the real agent."""

import asyncio

import pytest
from tests.environments.kit_play import play

from agentfly.environments import Kit
from agentfly.environments.browser import BROWSER, BrowserOptions, BrowserSession
from agentfly.environments.browser.experts.miniwob import EXPERTS
from agentfly.environments.browser.experts.view import View
from agentfly.environments.browser.options import SiteName
from agentfly.types import Seed, Task

pytestmark = pytest.mark.browser

SEEDS = 20
AMBIGUOUS = {"miniwob-email-inbox-forward-2", "miniwob-email-inbox-noscroll-2"}
"""Two mails of these pages are from the sender that is asked for, and only one of them counts."""
AT_ONCE = 4


async def failures(kit: Kit) -> dict[str, str]:
    """Let the expert play every row; return the ends of the chains without full reward."""
    rows = [dict(row) for row in kit.tasks()]
    found: dict[str, str] = {}
    places = asyncio.Semaphore(AT_ONCE)

    async def one(row: dict[str, object]) -> None:
        async with places:
            chain = await play(kit, row, kit.expert)
        if chain.reward != 1.0:
            last = chain.turns[-1].results[-1:] if chain.turns else ()
            said = "".join(result.observation for result in last)
            found[Task.from_row(row).id] = f"{chain.stop} {chain.error}: {said}"

    async with asyncio.TaskGroup() as group:
        for row in rows:
            group.create_task(one(row))
    return found


async def test_experts_of_some_tasks_get_full_reward() -> None:
    names = ("click-checkboxes", "enter-date", "email-inbox-reply", "social-media", "use-slider-2")
    kit = BROWSER.make(BrowserOptions(tasks=names, episodes=2))
    lost = await failures(kit)
    assert not lost, "\n".join(f"{task}: {how}" for task, how in lost.items())


@pytest.mark.parametrize("level", ["easy", "medium"])
async def test_the_expert_solves_every_kind_of_the_office(level: str) -> None:
    options = BrowserOptions.model_validate({"site": "office", "level": level, "episodes": 2})
    assert await failures(BROWSER.make(options)) == {}


async def test_the_shop_gives_the_reward_of_the_text_version() -> None:
    pytest.importorskip("bm25s")
    from agentfly.environments.webshop import WEBSHOP, WebShopOptions

    site: SiteName = "webshop"
    kit = BROWSER.make(BrowserOptions(site=site))
    text = WEBSHOP.make(WebShopOptions(level="easy", max_turns=40))
    shown, written = list(kit.eval_tasks())[:4], list(text.eval_tasks())[:4]
    assert [row["id"] for row in shown] == [row["id"] for row in written]
    for ours, theirs in zip(shown, written, strict=True):
        in_browser = await play(kit, ours, kit.expert)
        in_text = await play(text, theirs, text.expert)
        assert in_browser.reward == in_text.reward


async def test_the_shop_has_titles_to_click_and_pictures_that_are_not_listed() -> None:
    pytest.importorskip("bm25s")
    kit = BROWSER.make(BrowserOptions(site="webshop"))
    session = BrowserSession(site="webshop")
    home = View(
        (await session.reset(Task.from_row(next(iter(kit.eval_tasks()))), Seed(0))).observation
    )
    await session.type(home.get("Search", "textbox").id, "soup bowls")
    results = View((await session.click(home.get("Search", "button").id)).observation)
    assert {item.role for item in results.items} == {"button", "text"}, "no shapes of pictures"
    title = results.first(lambda item: "Soup Bowl" in item.name, "button")
    product = View((await session.click(title.id)).observation)
    assert product.find(title.name, "heading") is not None
    option = product.items[product.items.index(product.get("color", "text")) + 1]
    chosen = View((await session.click(option.id)).observation)
    assert chosen.get(option.name, "button").states == ("selected",)
    await session.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_experts_solve_every_seed_that_is_not_ambiguous() -> None:
    assert len(EXPERTS) >= 30
    kit = BROWSER.make(BrowserOptions(episodes=SEEDS))
    assert len(list(kit.tasks())) == SEEDS * len(EXPERTS)
    lost = await failures(kit)
    assert lost.keys() == AMBIGUOUS, "\n".join(f"{task}: {how}" for task, how in lost.items())
