"""Claims about learning: held out, with intervals, and from a recorded file."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmarks.improvement import Example

from agentfly.observe import read_metrics

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
ROW = re.compile(
    r"^\| (?:random|warm start|after RL|expert)(?:, seed \d+)? \| -?\d.*$", re.MULTILINE
)
"""A row of a table of an environment's results."""
BARE = re.compile(
    r"(?:rises?|rose|from|was)\s(?:[\w-]+\s){0,4}"
    r"(?:0?\.\d+\sto\s(?:over\s)?[01]\.\d+|to\s(?:over\s)?[01]\.\d+(?!\d|\s\())"
)
"""A gain in a sentence: it has no interval, and no file that it comes from."""
SHARE = re.compile(r"\d+% \(\d+% to \d+%\)")
"""A share of solved tasks with its interval."""
OTHERS = {"PPO": "ppo", "REINFORCE++": "reinforce++", "GRPO": "grpo", "RLOO": "rloo"}


def recorded_rows() -> set[str]:
    tables = [table.read_text() for table in RESULTS.glob("*/table.md")]
    return {row for table in tables for row in ROW.findall(table)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_row_of_results_is_recorded(page: Path) -> None:
    said = set(ROW.findall(page.read_text()))
    assert said <= recorded_rows()


def recorded_shares() -> set[str]:
    reports = [json.loads(file.read_text()) for file in RESULTS.glob("*/*.json")]
    curves = [read_metrics(file) for file in RESULTS.glob("*/metrics*.jsonl")]
    evaluations = [record.metrics for curve in curves for record in curve]
    return {*_shares(reports, ""), *_shares(evaluations, "eval/")}


def _shares(value: Any, prefix: str) -> Iterator[str]:
    """Yield all shares of solved tasks that are anywhere in a value."""
    if isinstance(value, Mapping):
        keys = [f"{prefix}solved{end}" for end in ("", "_low", "_high")]
        if all(isinstance(value.get(key), float) for key in keys):
            solved, low, high = (value[key] for key in keys)
            yield f"{solved:.0%} ({low:.0%} to {high:.0%})"
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _shares(one, prefix)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_share_with_an_interval_is_recorded(page: Path) -> None:
    assert set(SHARE.findall(page.read_text())) <= recorded_shares()


def test_rows_are_found_and_have_intervals() -> None:
    rows = recorded_rows()
    assert len(rows) >= 16
    assert all(re.search(r"\(-?\d\.\d\d to -?\d\.\d\d\)", row) for row in rows)
    assert ROW.search((ROOT / "docs" / "webshop.md").read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_sentence_claims_a_gain_by_bare_numbers(page: Path) -> None:
    assert BARE.findall(page.read_text()) == []


@pytest.mark.parametrize(
    ("sentence", "is_bare"),
    [
        ("rose from .1 to over 0.9", True),
        ("from held-out reward 0.02 to 1.00", True),
        ("it goes from there\nto 1.00.", True),
        ("it goes from there to 1.00 (0.94 to 1.00)", False),
        ("from held-out reward 0.02 (0.00 to 0.08) to 1.00 (0.94 to 1.00)", False),
        ("from 0.02 to 1.00 (0.94 to 1.00)", True),
    ],
)
def test_bare_numbers_are_found_in_every_form(sentence: str, is_bare: bool) -> None:
    assert bool(BARE.search(sentence)) is is_bare


def test_the_table_of_code_blocks_is_recorded() -> None:
    page = (ROOT / "docs" / "code.md").read_text()
    rows = ROW.findall((RESULTS / "code_blocks" / "table.md").read_text())
    _, before, after = (row.split("|")[2].strip() for row in rows[:3])
    assert f"`examples/code_blocks.toml` | {before} | {after} |" in page
    assert "intervals of the code blocks overlap" in page


RECIPES = ["code_interpreter", "search", "webshop", "alfworld", "scienceworld", "browser"]


@pytest.mark.parametrize("name", [*RECIPES, "code_blocks"])
def test_results_are_of_the_recipe_that_is_there(name: str) -> None:
    example = Example(name=name, folder=RESULTS)
    for report in (RESULTS / name).glob("report*.json"):
        assert json.loads(report.read_text())["demonstrations"] == example.demonstrations
    for metrics in (RESULTS / name).glob("metrics*.jsonl"):
        assert read_metrics(metrics)[-1].step == example.settings["train"]["steps"]


OVERVIEW = {"code": "code_interpreter"}
"""Folders of results that are not named as their environment."""


@pytest.mark.parametrize(
    "name", ["code", "search", "webshop", "alfworld", "scienceworld", "browser"]
)
def test_the_overview_of_environments_is_recorded(name: str) -> None:
    report = json.loads((RESULTS / OVERVIEW.get(name, name) / "report.json").read_text())
    levels = {level["who"]: level for level in report["levels"]}
    before, after = (
        f"{level['solved']:.0%} ({level['solved_low']:.0%} to {level['solved_high']:.0%})"
        for level in (levels["warm start"], levels["after RL"])
    )
    page = (ROOT / "docs" / "builtin.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| [{name}](")]
    assert row.endswith(f"| {before} | {after} | {levels['expert']['solved']:.0%} |")


def test_the_time_of_the_recipes_is_recorded() -> None:
    reports = {one: json.loads((RESULTS / one / "report.json").read_text()) for one in RECIPES}
    minutes = {one: (of["seconds"] + of["warm_seconds"]) / 60 for one, of in reports.items()}
    *most, last = sorted(one for one in RECIPES if minutes[one] > 45)
    shortest = min(minutes.values())
    page = (ROOT / "docs" / "builtin.md").read_text()
    assert f"in {shortest:.0f} to 45 minutes ({', '.join(most)} and {last} take longer)" in page


def test_what_was_tried_in_search_is_recorded() -> None:
    tried, *_ = json.loads((RESULTS / "search" / "tried.json").read_text())
    page = " ".join((ROOT / "docs" / "search.md").read_text().split())
    solved, low, high = (tried[key] for key in ("solved", "solved_low", "solved_high"))
    assert f"It solves {solved:.0%} ({low:.0%} to {high:.0%})" in page
    one, two = (tried["solved_by_hops"][hops] for hops in "12")
    assert f"{one[0]} of {one[1]} questions of one hop and {two[0]} of {two[1]} of two" in page
    exact, calls = tried["first_query_exact"], tried["invalid_calls"]
    assert f"exact in {exact[0]} of {exact[1]} held-out questions" in page
    assert calls[0] == 0
    assert f"none of its {calls[1]} calls is invalid" in page
    once = [tried["searches_by_hops"][hops]["1"] for hops in "12"]
    assert f"once in {once[0]} of the former and in {once[1]} of the latter" in page


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        *((name, name) for name in ("alfworld", "browser", "scienceworld", "search", "webshop")),
        ("code", "code_interpreter"),
    ],
)
def test_levels_of_what_was_tried_are_recorded(name: str, folder: str) -> None:
    tried = json.loads((RESULTS / folder / "tried.json").read_text())
    levels = [level for one in tried for level in one.get("levels", [])]
    page = (ROOT / "docs" / f"{name}.md").read_text()
    assert levels
    for level in levels:
        solved, low, high = (level[key] for key in ("solved", "solved_low", "solved_high"))
        assert f"{solved:.0%} ({low:.0%} to {high:.0%})" in page


def test_the_speed_of_the_browser_is_recorded() -> None:
    numbers = json.loads((ROOT / "benchmarks" / "results" / "envs.json").read_text())
    page = (ROOT / "docs" / "browser.md").read_text()
    assert f"a step takes {numbers['browser_step_ms_p50']:.0f} ms" in page
    assert f"{numbers['browser_16_steps_per_s']:.0f} steps per second" in page
    assert f"one more open page takes {numbers['browser_context_mb']:.0f} MB" in page


def test_what_the_shop_still_gets_wrong_is_recorded() -> None:
    found = json.loads((RESULTS / "webshop" / "choices.json").read_text())
    page = (ROOT / "docs" / "webshop.md").read_text()
    (wrong, of), (wrong_after, of_after) = found["before"], found["after"]
    assert f"in {wrong} of {of} sessions the product opened last is too expensive" in page
    assert f"and in {wrong_after} of {of_after} after training" in page


@pytest.mark.parametrize(
    ("name", "page", "step"), [("browser", "browser", 7), ("code_interpreter", "code", 60)]
)
def test_shares_in_the_middle_of_training_are_recorded(name: str, page: str, step: int) -> None:
    records = read_metrics(RESULTS / name / "metrics.jsonl")
    (found,) = [one.metrics for one in records if one.step == step and "eval/solved" in one.metrics]
    solved, low, high = (found[f"eval/solved{end}"] for end in ("", "_low", "_high"))
    said = f"{solved:.0%} ({low:.0%} to {high:.0%})"
    assert said in (ROOT / "docs" / f"{page}.md").read_text()


def test_the_deviation_of_nouns_in_the_shop_is_recorded() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "webshop_nouns.json").read_text())
    page = " ".join((ROOT / "docs" / "webshop.md").read_text().split())
    assert (
        f"`r_type` differs in {found['differs']:.1%} of the first ten results for the "
        f"{found['purchases'] // 10} test goals (higher in {found['higher']:.1%}), by "
        f"{found['mean_difference']:.3f} on average over all {found['purchases']:,}"
    ) in page


def test_the_quick_start_is_recorded() -> None:
    report = json.loads((RESULTS / "quickstart" / "report.json").read_text())
    cells = " | ".join(interval(report[when]) for when in ("before", "after"))
    assert f"| reward | {cells} |" in (ROOT / "README.md").read_text()
    assert f"| {cells} |" in (ROOT / "docs" / "training.md").read_text()
    sentence = " to ".join(interval(report[when]) for when in ("before", "after"))
    for page in (ROOT / "CHANGELOG.md", ROOT / "docs" / "models.md"):
        assert f"reward {sentence}" in page.read_text()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_quick_start_learns_on_other_seeds(seed: int) -> None:
    records = read_metrics(RESULTS / "quickstart" / f"seed{seed}.jsonl")
    held_out = [one for one in records if "eval/reward" in one.metrics]
    before, after = (interval(dict(one.metrics)) for one in (held_out[0], held_out[-1]))
    row = f"| | seed {seed}, {held_out[-1].step} steps | {before} | {after} |"
    assert row in (ROOT / "docs" / "training.md").read_text()


def interval(metrics: dict[str, Any]) -> str:
    mean, low, high = (metrics[f"eval/reward{end}"] for end in ("", "_low", "_high"))
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


@pytest.mark.parametrize(("label", "algorithm"), OTHERS.items())
def test_the_ranges_over_seeds_are_recorded(label: str, algorithm: str) -> None:
    runs = json.loads((RESULTS / "tiny_calculator" / "curves.json").read_text())["runs"]
    mine = [run for run in runs if run["algorithm"] == algorithm and not run["max_staleness"]]
    assert len(mine) == 3
    cells = [f"{min(x):.2f} to {max(x):.2f}" for x in ([r[w] for r in mine] for w in WHEN)]
    page = (ROOT / "docs" / "training.md").read_text()
    (row,) = [line for line in page.splitlines() if f"`tiny`, {label}" in line]
    assert " | ".join(cells) in row


WHEN = ("before", "after")


def test_the_scale_of_the_cluster_s_page_is_recorded() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "scale.json").read_text())
    page = (ROOT / "docs" / "cluster.md").read_text()
    columns = ("local_250", "local_1000", "local_4000", "ray_4000")
    for key, form in {
        "lease_p50_ms": "{:.1g} ms",
        "lease_p99_ms": "{:.2g} ms",
        "chains_per_s": "{:.1f}",
    }.items():
        cells = [form.format(found[f"{column}_{key}"]) for column in columns]
        assert f"| {' | '.join(cells)} |" in page
    assert f"(exponent {found['growth_exponent']:.2f}:" in page
    assert f"takes {found['bytes_per_chain'] / 1e3:.0f} KB in the run's process" in page
    assert f"ends {found['simulated_30s_turns_chains_per_s']:.0f} of the 1,111 chains" in page


@pytest.mark.parametrize("staleness", [0, 1, 2])
def test_the_table_of_asynchronous_learning_is_recorded(staleness: int) -> None:
    runs = json.loads((RESULTS / "async" / "curves.json").read_text())["runs"]
    mine = [run for run in runs if run["max_staleness"] == staleness]
    before, after = (sorted(run[when] for run in mine) for when in WHEN)
    first, last = (f"{one:.2f}" for one in (before[0], before[-1]))
    row = f"| {staleness} | {first} to {last} | {', '.join(f'{one:.2f}' for one in after)} |"
    assert row in (ROOT / "docs" / "async.md").read_text()


def test_the_speed_of_asynchronous_training_is_recorded() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "async.json").read_text())
    page = (ROOT / "docs" / "async.md").read_text()
    speed, bound = found["simulated_speedup"], found["simulated_over_bound"]
    assert f"{speed:.2f} times as fast, {bound:.2f} times the longer of the two stages" in page
    share = found["real_learning_s"] / found["real_sampling_s"]
    assert f"{found['real_tool_share']:.0%} of the sampling time and learning that takes" in page
    assert f"takes {share:.0%} as long as sampling: {found['real_speedup']:.2f} times" in page
    assert f"{found['real_over_bound']:.2f} times the longer stage" in page
