"""Players through the real chain: the agent's loop, the tools, the leases and the reward."""

import itertools
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.environments import kit_play

from agentfly.environments import Kit, Player, Say, Scene, call
from agentfly.environments.webshop import WEBSHOP, WebShop, WebShopOptions
from agentfly.environments.webshop.navigation import Click, Search
from agentfly.environments.webshop.page_reader import Result, read_results
from agentfly.environments.webshop.players import (
    ActionPlayer,
    compare_prices,
    play_expert,
    to_player,
)
from agentfly.resources import EnvironmentManager
from agentfly.types import Seed, Task, ToolStatus, Trajectory


async def play(kit: Kit, player: Player | None, row: dict[str, Any]) -> Trajectory:
    async with EnvironmentManager() as pool:
        return await kit_play.play(kit, row, player, pool)


async def rewards(kit: Kit, player: Player | None, rows: list[dict[str, Any]]) -> list[float]:
    played = [await play(kit, player, row) for row in rows]
    assert all(trajectory.reward is not None for trajectory in played)
    return [trajectory.reward or 0.0 for trajectory in played]


def kit_of(**choices: Any) -> Kit:
    return WEBSHOP.make(WebShopOptions(**choices))


def some(rows: Any, count: int) -> list[dict[str, Any]]:
    return [dict(row) for row in itertools.islice(rows(), count)]


WAYS = list(itertools.product(("tools", "tool", "text", "last_line"), ("compact", "text", "rich")))


@pytest.mark.parametrize(("actions", "form"), WAYS)
async def test_expert_and_gold_win_whatever_they_see_and_however_they_act(
    actions: str, form: str
) -> None:
    kit = kit_of(level="easy", actions=actions, observation=form, repeat_instruction=form != "rich")
    rows = some(kit.eval_tasks, 2)
    assert await rewards(kit, kit.expert, rows) == [1.0] * 2
    assert await rewards(kit, kit.gold, rows) == [1.0] * 2


async def test_the_expert_writes_every_label_as_it_was_shown() -> None:
    kit = kit_of(level="easy", actions="text", bracket_options=True)
    (row,) = some(kit.eval_tasks, 1)
    trajectory = await play(kit, kit.expert, row)
    clicks = [turn.message.content for turn in trajectory.turns[1:]]
    shown = trajectory.messages[-1].content
    for turn, click in zip(trajectory.turns, clicks, strict=False):
        shown += turn.replies[0].content
        assert click.removeprefix("click") in shown
    assert f": [{row['options'][0]}]" in trajectory.messages[-1].content
    assert trajectory.reward == 1.0


@pytest.mark.parametrize("aligned_prices", [False, True])
async def test_the_expert_compares_prices_up_to_the_one_that_it_opens(aligned_prices: bool) -> None:
    form = {"actions": "last_line", "aligned_prices": aligned_prices}
    kit = kit_of(level="easy", products=1500, page_size=3, **form)
    verdicts = set()
    for row in some(kit.eval_tasks, 12):
        trajectory = await play(kit, kit.expert, row)
        page = read_results(trajectory.turns[0].replies[0].content)
        limit = row["price_upper"]
        *lines, click = trajectory.turns[1].message.content.splitlines()
        compared = [line.split()[0] for line in lines]
        assert compared == [one.asin for one in page][: len(lines)]
        assert click == f"click[{compared[-1]}]"
        for line, one in zip(lines, page, strict=False):
            amounts, digits = line.split(": ")
            assert amounts == f"{one.asin} {int(one.price):03} / {int(limit):03}"
            *_, left, right, verdict = digits.split()
            assert (one.price <= limit) == (verdict == "yes") == (left < right)
            verdicts.add(verdict)
        assert [one.price <= limit for one in page[: len(lines)]].index(True) == len(lines) - 1
        assert trajectory.reward == 1.0
    assert verdicts == {"yes", "no"}


async def test_prices_are_compared_beside_the_calls_of_tools() -> None:
    kit = kit_of(level="easy", actions="tools")
    (row,) = some(kit.eval_tasks, 1)
    trajectory = await play(kit, to_player(play_expert, "tools", compares=True), row)
    search, opened, *_ = (turn.message for turn in trajectory.turns)
    assert (search.content, search.tool_calls[0].name) == ("", "search")
    assert re.fullmatch(r"(\w+ \d+ / \d+: [\d ,]+ (yes|no)\n?)+(?<!\n)", opened.content)
    assert opened.tool_calls[0].name == "click"
    assert trajectory.reward == 1.0


@pytest.mark.parametrize("observation", ["compact", "text", "rich"])
def test_aligned_prices_have_leading_zeros_everywhere(observation: str) -> None:
    shop = WebShop(level="easy", observation=observation, aligned_prices=True)
    (row,) = some(kit_of(level="easy").tasks, 1)
    seen = [shop.reset(Task(id="1", messages=(), fields=row), Seed(0)).observation]
    assert f"price lower than {int(row['price_upper']):03}.00 dollars" in seen[0]
    seen.append(shop.search(row["name"]).observation)
    seen.append(shop.click(row["asin"]).observation)
    for page in seen[1:]:
        dollars = re.findall(r"\$(\d+)\.", page)
        assert dollars
        assert all(len(amount) >= 3 for amount in dollars)


async def test_the_expert_searches_for_the_request_as_it_is_written() -> None:
    kit = kit_of(level="easy", actions="text")
    (row,) = some(kit.eval_tasks, 1)
    trajectory = await play(kit, kit.expert, row)
    query = trajectory.turns[0].message.content.removeprefix("search[").removesuffix("]")
    assert row["instruction"].startswith(f"{query}, and price lower than ")


@pytest.mark.parametrize(
    ("price", "limit", "line"),
    [
        (60.99, 60.0, "060 / 060: 0 0, 6 6, 0 0 no"),
        (60.0, 60.0, "060 / 060: 0 0, 6 6, 0 0 yes"),
        (1200.0, 90.0, "1200 / 0090: 1 0 no"),
    ],
)
def test_amounts_are_compared_up_to_the_first_digits_that_differ(
    price: float, limit: float, line: str
) -> None:
    compared = compare_prices(Click("G1"), [Result("G1", "Mug", price)], limit)
    assert list(compared) == [f"G1 {line}"]


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("A mug is what I want.\nsearch[mug]", "Total results"),
        ("search[mug]\n", "Total results"),
        ("search[mug]\nThat should do.", "An action is search[words] or click[label]."),
        ("", "An action is search[words] or click[label]."),
    ],
)
def test_only_the_last_line_is_an_action(said: str, seen: str) -> None:
    shop = WebShop(level="easy", actions="last_line")
    (row,) = some(kit_of(level="easy").tasks, 1)
    shop.reset(Task(id="1", messages=(), fields=row), Seed(0))
    assert seen in shop.step(said).observation


@pytest.mark.parametrize("level", ["medium", "hard"])
async def test_the_expert_solves_most_held_out_goals(level: str) -> None:
    kit = kit_of(level=level, products=1000)
    scores = await rewards(kit, kit.expert, some(kit.eval_tasks, 20))
    assert sum(score == 1.0 for score in scores) / len(scores) >= 0.9


async def test_the_random_player_gets_little() -> None:
    kit = kit_of(level="medium", products=1000)
    scores = await rewards(kit, kit.random, some(kit.eval_tasks, 20))
    assert max(scores) < 1.0
    assert sum(scores) / len(scores) < 0.5


FORMS = [
    {},
    {"observation": "text"},
    {"observation": "rich", "repeat_instruction": False, "bracket_options": True},
    {"aligned_prices": True, "clickables": True},
]


@pytest.mark.parametrize("actions", ["tools", "tool", "text", "last_line"])
@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_the_random_player_does_only_what_is_possible(
    form: dict[str, Any], actions: str
) -> None:
    kit = kit_of(level="easy", page_size=3, actions=actions, **form)
    played = [await play(kit, kit.random, row) for row in some(kit.eval_tasks, 4)]
    turns = [turn for trajectory in played for turn in trajectory.turns]
    assert len(turns) > 20
    assert not any(turn.invalid for turn in turns)
    assert {result.status for turn in turns for result in turn.results} <= {ToolStatus.OK}


async def test_the_random_player_finds_its_way_in_the_official_shop(official_folder: Path) -> None:
    kit = kit_of(data=str(official_folder), actions="text", observation="rich")
    played = [await play(kit, kit.random, row) for row in some(kit.eval_tasks, 8)]
    turns = [turn for trajectory in played for turn in trajectory.turns]
    assert len(turns) > 40
    assert not any(turn.invalid for turn in turns)


def knowing_no_query(moves: ActionPlayer) -> ActionPlayer:
    """The same player with another search."""

    def play(scene: Scene) -> Generator[Any, str, None]:
        playing = moves(scene)
        move = next(playing)
        while True:
            seen = yield Search("item of the day") if isinstance(move, Search) else move
            try:
                move = playing.send(seen)
            except StopIteration:
                return

    return play


async def test_the_expert_without_its_search_gets_next_to_nothing() -> None:
    kit = kit_of(level="medium", products=1000)
    blind = to_player(knowing_no_query(play_expert), "tools")
    scores = await rewards(kit, blind, some(kit.eval_tasks, 20))
    assert max(scores) < 1.0
    assert sum(scores) / len(scores) < 0.1


async def test_who_buys_nothing_gets_nothing() -> None:
    def idle(scene: Scene) -> Generator[Say, str, None]:
        yield Say("I would rather not.")

    kit = kit_of(level="easy")
    (row,) = some(kit.tasks, 1)
    trajectory = await play(kit, idle, row)
    assert trajectory.score is not None
    assert trajectory.score.value == 0.0
    assert trajectory.score.parts["bought"] == 0.0


async def test_an_impossible_click_is_reported_and_counted() -> None:
    def clumsy(scene: Scene) -> Generator[Say, str, None]:
        seen = yield call("click", label="buy now")
        assert "Possible: search[words]" in seen
        seen = yield call("buy")
        assert "There is no 'Buy Now'" in seen
        yield Say("done")

    kit = kit_of(level="easy")
    (row,) = some(kit.tasks, 1)
    trajectory = await play(kit, clumsy, row)
    statuses = [result.status for turn in trajectory.turns for result in turn.results]
    assert statuses == [ToolStatus.REFUSED] * 2


async def test_the_purchase_ends_the_chain_with_its_parts() -> None:
    kit = kit_of(level="easy")
    (row,) = some(kit.tasks, 1)
    trajectory = await play(kit, kit.gold, row)
    assert trajectory.stop == "tool_ended"
    assert trajectory.score is not None
    assert trajectory.score.parts == {
        "type": 1.0,
        "price": 1.0,
        "attributes": 1.0,
        "options": 1.0,
        "success": 1.0,
        "bought": 1.0,
    }


@pytest.mark.parametrize("actions", ["text", "last_line", "tool"])
async def test_turns_carry_the_key_of_the_state_in_which_they_act(actions: str) -> None:
    kit = kit_of(level="easy", actions=actions)
    (row,) = some(kit.tasks, 1)
    trajectory = await play(kit, kit.expert, row)
    keys = [turn.state_key for turn in trajectory.turns]
    assert trajectory.reward == 1.0
    assert keys[1] is not None
    assert keys[1].startswith("results 1 ")
    assert len(set(keys)) == len(keys)


async def test_gold_paths_of_official_goals(official_folder: Path) -> None:
    # Options compared by their values: as published, some goals can't be reached at all.
    choices = {"observation": "text", "max_turns": 30, "option_match": "values"}
    kit = kit_of(data=str(official_folder), **choices)
    held_out = some(kit.eval_tasks, 500)
    # One goal of each of twenty products.
    rows = list({row["asin"]: row for row in held_out}.values())[:20]
    assert await rewards(kit, kit.gold, rows) == [1.0] * 20


async def test_the_kit_is_cheap_until_it_is_used(tmp_path: Path) -> None:
    kit = kit_of(data=str(tmp_path / "nowhere"))
    assert len(kit.tools) == 3
    with pytest.raises(Exception, match="there is no folder"):
        kit.tasks()


def test_what_is_missing_is_said_with_the_way_to_get_it() -> None:
    assert WEBSHOP.requires() is None
