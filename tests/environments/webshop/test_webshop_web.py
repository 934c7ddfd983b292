import html
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentfly.environments.webshop import WebShopOptions
from agentfly.environments.webshop import visit as visiting
from agentfly.environments.webshop.placeholder_picture import picture
from agentfly.environments.webshop.website import MAX_BODY, shop_site
from agentfly.environments.webshop.website_html import visit_page
from agentfly.runtime.http.address import split_token

SCRIPT = "<script>alert('x')</script>"
EVIL = {
    "asin": "B0001",
    "name": f'Mug {SCRIPT} & "more"',
    "full_description": f"{SCRIPT}</pre>",
    "small_description": [f"<img src=x onerror=alert(1)> {SCRIPT}"],
    "pricing": "$5",
    "customization_options": {"Color": [{"value": 'red" onclick="alert(1)'}, {"value": "blue"}]},
    "query": "mugs",
}


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with shop_site(WebShopOptions(level="easy", page_size=3)) as address:
        yield address


@pytest.fixture
def evil_site(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "items_shuffle.json").write_text(json.dumps([EVIL]))
    written = {
        "attributes": ["round"],
        "instruction": f"Find me {SCRIPT}",
        "instruction_attributes": ["round"],
    }
    (tmp_path / "items_ins_v2.json").write_text(json.dumps({"B0001": written}))
    with shop_site(WebShopOptions(data=tmp_path)) as address:
        yield address


@pytest.fixture
def browser() -> Iterator[httpx2.Client]:
    with httpx2.Client(follow_redirects=True, timeout=30) as client:
        yield client


def enter(browser: httpx2.Client, site: str) -> httpx2.Response:
    """Open the address that was printed; the browser is known by a cookie from then on."""
    page = browser.get(site)
    assert "token" not in str(page.url)
    return page


def actions_of(page: str) -> list[str]:
    return [html.unescape(found) for found in re.findall(r'value="(click\[.*?\])"', page)]


def test_a_person_clicks_from_the_goal_to_the_purchase(site: str, browser: httpx2.Client) -> None:
    page = enter(browser, site)
    here = str(page.url)
    assert re.fullmatch(rf"{split_token(site)[0]}/visits/[0-9a-f]{{32}}", here)
    goal = re.search(r"Instruction: (.*)", page.text)
    assert goal
    found = browser.post(here, data={"query": html.unescape(goal.group(1))}).text
    first = next(action for action in actions_of(found) if action.startswith("click[G"))
    product = browser.post(here, data={"action": first}).text
    assert "Buy Now" in product
    option = actions_of(product)[2]
    chosen = browser.post(here, data={"action": option}).text
    assert 'class="chosen"' in chosen
    bought = browser.post(here, data={"action": "click[Buy Now]"}).text
    assert "Reward " in bought
    assert "Thank you for shopping" in bought
    # Beside it stands what the agent saw and did.
    for number, action in enumerate([f"search[{goal.group(1)}]", first, option], start=1):
        assert f"{number}. {action}" in bought


def test_an_impossible_action_is_answered_as_the_agent_is(
    site: str, browser: httpx2.Client
) -> None:
    here = str(enter(browser, site).url)
    page = browser.post(here, data={"action": "click[buy now]"}).text
    assert "There is no &#x27;buy now&#x27; to click on this page." in page


def past_of(page: str) -> list[str]:
    return [html.unescape(done) for done in re.findall(r"<summary>\d+\. (.*?)</summary>", page)]


def test_the_expert_plays_a_step_for_each_click(site: str, browser: httpx2.Client) -> None:
    page = enter(browser, site)
    here, text = str(page.url), page.text
    steps = 0
    while "Reward " not in text:
        assert 'name="expert" value="step"' in text
        text = browser.post(here, data={"expert": "step"}).text
        steps += 1
        assert len(past_of(text)) == steps
    assert "Reward 1.000" in text
    past = past_of(text)
    assert past[0].startswith("search[")
    assert past[-1] == "click[Buy Now] (expert)"
    assert all(done.endswith(" (expert)") for done in past)
    assert 'name="expert"' not in text
    assert past_of(browser.post(here, data={"expert": "step"}).text) == past


def test_the_expert_plays_the_rest_wherever_a_person_left_off(
    site: str, browser: httpx2.Client
) -> None:
    here = str(enter(browser, site).url)
    found = browser.post(here, data={"query": "nightstand"}).text
    first = next(action for action in actions_of(found) if action.startswith("click[G"))
    browser.post(here, data={"expert": "step"})
    browser.post(here, data={"expert": "step"})
    # A person meddles: the expert begins again from the search page.
    meddled = browser.post(here, data={"action": "click[back to search]"}).text
    assert past_of(meddled)[1] == "click[back to search] (expert)"
    browser.post(here, data={"query": "nightstand"})
    browser.post(here, data={"action": first})
    ended = browser.post(here, data={"expert": "game"}).text
    assert "Reward 1.000" in ended
    past = past_of(ended)
    assert past[4:6] == ["search[nightstand]", first]
    assert past[6] == "click[back to search] (expert)"
    assert past[7] == past[2]


def test_the_expert_says_so_when_it_finds_nothing(tmp_path: Path, browser: httpx2.Client) -> None:
    (tmp_path / "items_shuffle.json").write_text('[{"asin": "B1", "name": "Mug"}]')
    unheard_of = {"instruction": "Find me zebras", "instruction_attributes": ["striped"]}
    (tmp_path / "items_ins_v2.json").write_text(json.dumps({"B1": unheard_of}))
    with shop_site(WebShopOptions(data=tmp_path)) as site:
        here = str(enter(browser, site).url)
        text = browser.post(here, data={"expert": "game"}).text
        assert past_of(text) == ["search[Find me zebras] (expert)"]
        assert "The expert found nothing to buy." in text
        assert 'name="expert"' not in text
        # Whatever a person does gives it another chance.
        again = browser.post(here, data={"action": "click[back to search]"}).text
        assert "The expert found nothing to buy." not in again
        assert 'name="expert"' in again


def test_what_the_expert_does_is_no_markup_either(evil_site: str, browser: httpx2.Client) -> None:
    here = str(enter(browser, evil_site).url)
    text = browser.post(here, data={"expert": "game"}).text
    assert past_of(text)[0].startswith("search[Find me <script>alert")
    assert "<script" not in text
    assert 'onclick="' not in text


def test_a_page_is_shown_as_it_was_at_one_moment() -> None:
    visit = visiting.Visits(WebShopOptions(level="easy")).begin()
    meddler = threading.Thread(target=visit.act, args=("click[back to search]",))

    class Interrupted(str):
        """A text at whose writing somebody clicks."""

        def replace(self, *change: Any) -> str:
            meddler.start()
            meddler.join(0.2)  # Long enough for who does not wait for the page.
            return str(self)

    visit.act(Interrupted("search[bed]"))
    assert past_of(visit_page(visit)) == ["search[bed]"]
    meddler.join()
    assert [deed.action for deed in visit.history][1:] == ["click[back to search]"]


def test_without_the_token_there_is_no_shop(site: str, browser: httpx2.Client) -> None:
    bare = split_token(site)[0]
    for answer in (browser.get(bare), browser.get(f"{bare}/?token=guessed"), browser.post(bare)):
        assert answer.status_code == 401
        assert "needs its token" in answer.text
    assert not browser.cookies
    here = str(enter(browser, site).url)
    assert browser.get(here).status_code == 200
    stranger = httpx2.get(here)
    assert stranger.status_code == 401


def test_a_page_of_another_server_can_not_click_for_a_person(
    site: str, browser: httpx2.Client
) -> None:
    here = str(enter(browser, site).url)
    for origin in ("http://127.0.0.1:1", "http://evil.example", "null"):
        answer = browser.post(here, data={"query": "mug"}, headers={"Origin": origin})
        assert (answer.status_code, "may not use" in answer.text) == (403, True)
    own = {"Origin": split_token(site)[0]}
    assert browser.post(here, data={"query": "mug"}, headers=own).status_code == 200
    rebound = browser.get(here, headers={"Host": "evil.example"})
    assert rebound.status_code == 403


def test_visits_are_apart(site: str, browser: httpx2.Client) -> None:
    one, other = (
        str(enter(browser, site).url),
        str(browser.post(f"{split_token(site)[0]}/", data={}).url),
    )
    assert one != other
    browser.post(one, data={"query": "blue mug"})
    assert "blue mug" in browser.get(one).text
    assert "blue mug" not in browser.get(other).text


@pytest.mark.parametrize("path", ["/visits/0000", "/visits/", "/nothing", "/visits/../etc", "/%00"])
def test_an_unknown_page_or_session_is_said_to_be(
    site: str, browser: httpx2.Client, path: str
) -> None:
    enter(browser, site)
    bare = split_token(site)[0]
    for answer in (browser.get(bare + path), browser.post(bare + path, data={"query": "mug"})):
        assert answer.status_code == 404
        assert "There is no such page or session." in answer.text


def test_a_body_that_is_too_long_is_refused(site: str, browser: httpx2.Client) -> None:
    here = str(enter(browser, site).url)
    assert browser.post(here, data={"query": "x" * MAX_BODY}).status_code == 413
    assert browser.get(here).status_code == 200


def test_texts_of_products_are_never_markup(evil_site: str, browser: httpx2.Client) -> None:
    here = str(enter(browser, evil_site).url)
    steps = [
        {"query": f"mug {SCRIPT}"},
        {"action": "click[B0001]"},
        {"action": 'click[red" onclick="alert(1)]'},
        {"action": "click[features]"},
        {"action": f"click[{SCRIPT}]"},
        {"action": "click[< prev]"},
        {"action": "click[description]"},
        {"action": "click[< prev]"},
        {"action": "click[buy now]"},
    ]
    answers = [browser.post(here, data=step) for step in steps]
    for answer in answers:
        assert "<script" not in answer.text
        assert "<img" not in answer.text
        assert 'onclick="' not in answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "&lt;script&gt;" in answers[-1].text
    assert "Reward " in answers[-1].text


def test_the_oldest_visits_are_forgotten(
    site: str, browser: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visiting, "MAX_VISITS", 3)
    visits = visiting.Visits(WebShopOptions(level="easy"))
    first, second, third = (visits.begin() for _ in range(3))
    assert visits.find(first.id) is first
    visits.begin()
    assert visits.find(second.id) is None
    assert visits.find(first.id) is first
    assert visits.find(third.id) is third


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_real_browser_shows_it(site: str, browser: httpx2.Client, tmp_path: Path) -> None:
    here = str(enter(browser, site).url)
    browser.post(here, data={"query": "nightstand"})
    shown = subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path}",
            "--dump-dom",
            f"{here}?token={split_token(site)[1]}",
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    ).stdout
    assert "What the agent sees" in shown
    assert "Nightstand" in shown


def test_it_looks_like_a_shop(site: str, browser: httpx2.Client) -> None:
    """Goods have pictures, titles to click and prices that stand out."""
    page = enter(browser, site)
    results = browser.post(page.url, data={"query": "mug"}).text
    titles = re.findall(r'class="title" name="action" value="(click\[\w+\])">', results)
    assert titles
    assert results.count('<svg class="picture"') == results.count('class="price"') == len(titles)
    item = browser.post(page.url, data={"action": titles[0]}).text
    assert item.count('<svg class="picture"') == item.count("<h1>") == 1
    assert 'class="buy"' in item


def test_a_picture_is_of_the_kind_and_of_the_product() -> None:
    mug, other, boot = picture("B1", "Red Mug"), picture("B2", "Mug"), picture("B1", "Ankle Boot")
    assert len({mug, other, boot}) == 3
    assert mug.split(" fill-rule")[0].split('d="')[1].split('"')[0] in other
    assert "script" not in picture("B1", "<script>")
