"""The viewer's data and its walls, over a real server and a run written by hand."""

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.observe.finished_groups import chain, group, scored, turn
from tests.observe.recorded_runs import CONFIG, record_run
from tests.serve.hostile import HOSTILE, hostile_group

from agentfly.errors import ConfigError
from agentfly.observe.credit_file import write_credit
from agentfly.runtime.http.address import split_token
from agentfly.serve.viewer import viewer
from agentfly.types import ChainCredit, StreamCredit, ToolStatus

PAGE = Path(__file__).parents[2] / "src" / "agentfly" / "serve" / "page"
STEPS = {
    1: [scored("a", 1.0, 1.0), group("b", [chain(0.5, turn(ToolStatus.OK, text="Ährenfeld"))])],
    2: [
        group(
            "a",
            [
                chain(0.0, turn(ToolStatus.ERROR, tokens=6, version=1)),
                chain(0.25, turn(version=1)),
            ],
        ),
        scored("c", None),
    ],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run = record_run(folder / "demo", steps=STEPS, evaluations={2: [scored("held", 1.0)]})
    credit = StreamCredit(
        mask=(False,) * 3 + (True, False, True, True, True, True), advantages=(-0.5,) * 5
    )
    write_credit(
        run / "trajectories" / "advantages_2.jsonl.gz",
        [ChainCredit(chain_id="a/0/0", streams=(credit,))],
    )
    other = CONFIG.replace('"grpo"', '"ppo"')
    record_run(folder / "hostile", steps={1: [hostile_group()]}, config=other)
    return folder


@pytest.fixture(scope="module")
def site(runs: Path) -> Iterator[str]:
    with viewer(runs) as url:
        yield url


@pytest.fixture(scope="module")
def client(site: str) -> Iterator[httpx2.Client]:
    bare, _ = split_token(site)
    with httpx2.Client(base_url=bare, follow_redirects=True, timeout=60, verify=False) as client:
        assert client.get(site).status_code == HTTPStatus.OK
        yield client


def get(client: httpx2.Client, path: str, **query: Any) -> Any:
    """Return an answer; as the page does, ask again while chains are indexed or searched."""
    while True:
        answer = client.get(f"/api/runs/{path}", params=query)
        assert answer.status_code == HTTPStatus.OK, answer.text
        found = answer.json()
        if found.get("indexed", 1) == found.get("searched", 1) == 1:
            return found


def found(client: httpx2.Client, **query: Any) -> list[str]:
    rows = get(client, "demo/chains", **query)["rows"]
    return [f"{row['step']}:{row['chain']}" for row in rows]


def test_only_who_has_the_token_may_ask(site: str) -> None:
    bare, _ = split_token(site)
    wrong = {"Authorization": "Bearer wrong"}
    with httpx2.Client(base_url=bare, timeout=60, verify=False) as stranger:
        for path in ("/", "/page/main.js", "/api/runs", "/api/changes"):
            for headers in ({}, wrong):
                answer = stranger.get(path, headers=headers)
                assert answer.status_code == HTTPStatus.UNAUTHORIZED


def test_pages_of_others_are_refused(client: httpx2.Client) -> None:
    evil = client.get("/api/runs", headers={"Host": "evil.example"})
    assert (evil.status_code, evil.json()["error"]["kind"]) == (403, "HostNotAllowed")
    for origin in ("http://evil.example", "http://localhost:1", "null"):
        asked = client.get("/api/runs", headers={"Origin": origin})
        assert (asked.status_code, asked.json()["error"]["kind"]) == (403, "OriginNotAllowed")
    own = f"http://{urlsplit(str(client.base_url)).netloc}"
    assert client.get("/api/runs", headers={"Origin": own}).status_code == HTTPStatus.OK


def test_only_files_of_the_page_are_sent_and_under_a_strict_policy(client: httpx2.Client) -> None:
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    modules = re.findall(r'(?:src|href)="(/page/[^"]+)"', page.text)
    assert modules
    assert {client.get(name).status_code for name in modules} == {HTTPStatus.OK}
    assert {name for name in modules if name.endswith(".js")} == {
        f"/page/{file.name}" for file in PAGE.glob("*.js")
    }, "a module that is not named in the page is only found by reading another one"
    for path in ("/page/", "/page/../viewer.py", "/page/%2e%2e/viewer.py", "/page/..%2fviewer.py"):
        assert client.get(path).status_code == HTTPStatus.NOT_FOUND
    for name in ("..", "%2e%2e", "demo%2f..%2fdemo", "nothing"):
        assert client.get(f"/api/runs/{name}/settings").status_code == HTTPStatus.NOT_FOUND
    assert client.post("/api/runs").status_code == HTTPStatus.METHOD_NOT_ALLOWED


def test_the_page_makes_no_html_of_text_and_needs_no_network() -> None:
    for file in PAGE.iterdir():
        text = file.read_text()
        banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function"
        assert not re.search(banned, text), file.name
        # SVG's own name is no address.
        assert set(re.findall(r"https?://[^\"'\s]+", text)) <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r'\son\w+="|style="', text), file.name


def test_runs_and_their_metrics(client: httpx2.Client) -> None:
    listed = client.get("/api/runs").json()["runs"]
    demo = next(row for row in listed if row["name"] == "demo")
    assert (demo["step"], demo["planned"], demo["reward"], demo["best"]) == (4, 4, 1.0, 1.0)
    whole = get(client, "demo/metrics")
    assert whole["series"]["reward/mean"] == [0.25, 0.5, None, 0.75, 1.0]
    assert whole["about"]["reward/mean"].startswith("Mean reward")
    rest = get(client, "demo/metrics", since=3)
    assert (rest["from"], rest["steps"]) == (3, [3, 4])
    assert get(client, "demo/metrics", since=99)["from"] == 0
    settings = dict(get(client, "demo/settings")["settings"])
    others = dict(get(client, "hostile/settings")["settings"])
    assert {key for key in settings if settings[key] != others[key]} == {"algorithm.name"}


def test_filters_order_and_pages(client: httpx2.Client) -> None:
    assert found(client, set="train", sort="reward", order="asc") == [
        *("2:a/0/0", "2:a/0/1", "1:b/0/0", "1:a/0/0", "1:a/0/1", "2:c/0/0"),
    ]
    assert found(client, sort="reward", set="train", limit=2, offset=1) == ["1:a/0/1", "1:b/0/0"]
    assert found(client, set="eval") == ["2:held/0/0"]
    assert found(client, from_step=2, max_reward=0.1) == ["2:a/0/0"]
    assert found(client, tool="calculator") == ["2:a/0/0", "1:b/0/0"]
    assert found(client, tool="calculator", failing="yes") == ["2:a/0/0"]
    assert found(client, stop="env_crashed", scored="no", cause="EnvError") == ["2:c/0/0"]
    assert found(client, task="HELD") == ["2:held/0/0"]
    assert found(client, version=1) == ["2:a/0/0", "2:a/0/1"]
    choices = get(client, "demo/chains")["choices"]
    assert choices["tools"] == {"calculator": 2}
    assert (choices["first_step"], choices["last_step"]) == (1, 2)
    for wrong in ({"sort": "rewrd"}, {"colour": "1"}, {"min_reward": "much"}):
        refused = client.get("/api/runs/demo/chains", params=wrong)
        assert refused.status_code == HTTPStatus.BAD_REQUEST
    assert "Did you mean 'reward'" in client.get("/api/runs/demo/chains?sort=rewrd").text


def test_text_is_found_in_any_case(client: httpx2.Client) -> None:
    assert found(client, text="ährenFELD") == ["1:b/0/0"]
    assert found(client, text="EXPRESSION") == ["2:a/0/0", "1:b/0/0"]
    assert found(client, text='"expression": "6*7"') == ["2:a/0/0", "1:b/0/0"]
    assert found(client, text="logprobs") == []


def test_a_chain_with_its_recorded_mask_and_advantages(client: httpx2.Client) -> None:
    shown = get(client, "demo/chain", file="step_2", chain="a/0/0")
    tokens = shown["turns"][0]["tokens"]
    assert len(tokens["context"]["ids"]) == 3
    assert tokens["sampled"]["trained"] == [1, 0, 1, 1, 1, 1]
    assert tokens["sampled"]["advantages"] == [-0.5, None, -0.5, -0.5, -0.5, -0.5]
    assert tokens["sampled"]["entropies"] is None
    assert tokens["sampled"]["versions"] == [1] * 6
    assert len(tokens["sampled"]["texts"]) == 6, "the tokenizer of the built-in model is here"
    assert (shown["mask_source"], shown["turns"][0]["results"][0]["status"]) == (
        "recorded",
        "error",
    )
    assert [row["chain"] for row in shown["siblings"]] == ["a/0/0", "a/0/1"]
    other = get(client, "demo/chain", file="step_2.jsonl.gz", chain="a/0/1")
    assert (other["mask_source"], other["turns"][0]["tokens"]["sampled"]["trained"]) == (
        *("policy", [1] * 4),
    )
    held = get(client, "demo/chain", file="eval_2", chain="held/0/0")
    assert held["mask_source"] == "held_out", "never trained on"
    assert held["turns"][0]["tokens"]["sampled"]["trained"] is None
    both = get(client, "demo/group", file="step_2", group="a/0")
    assert [one["reward"] for one in both["chains"]] == [0.0, 0.25]
    for path in ("chain?file=step_9&chain=a/0/0", "chain?chain=x", "group?file=step_2&group=x"):
        assert client.get(f"/api/runs/demo/{path}").status_code == HTTPStatus.NOT_FOUND


def test_questions_are_answered(client: httpx2.Client) -> None:
    worse = get(client, "demo/ask/worse", step=1)
    link = {"text": "What is a?", "query": {"task": "a", "set": "train"}}
    assert worse["rows"] == [[link, "training", 1.0, 0.125, -0.875]]
    tools = get(client, "demo/ask/tools")
    assert tools["sentence"] == "1 of 2 calls (50.0%) did not succeed, in 1 chains."
    flat = get(client, "demo/ask/flat")
    assert flat["sentence"].startswith("2 of 3 groups have equal rewards: 1 of them are all at 1")
    publish = get(client, "demo/ask/publish")
    assert publish["rows"][0] == ["reward", 0.833, 0.125, -0.708]
    assert "waited for anything" in get(client, "demo/ask/waits")["sentence"]
    assert client.get("/api/runs/demo/ask/why").status_code == HTTPStatus.NOT_FOUND


def test_hostile_text_arrives_as_harmless_text(client: httpx2.Client) -> None:
    (row,) = get(client, "hostile/chains", set="train")["rows"]
    shown = get(client, "hostile/chain", file="step_1", chain=row["chain"])
    sent = json.dumps([row, shown], ensure_ascii=False)
    assert "<script>" in sent, "it is shown, not dropped"
    assert not [character for character in sent if not character.isprintable()]
    assert HOSTILE not in sent
    assert shown["turns"][0]["results"][0]["images"] == []


def test_changes_are_streamed(client: httpx2.Client, runs: Path) -> None:
    with client.stream("GET", "/api/changes", timeout=60) as stream:
        lines = stream.iter_lines()
        assert "event: ready" in [next(lines), next(lines)]
        with (runs / "demo" / "metrics.jsonl").open("ab") as file:
            file.write(b"")
        (runs / "demo" / "findings.json").write_text('{"findings": []}')
        assert next(line for line in lines if line.startswith("data: [")) == 'data: ["demo"]'


def test_a_file_of_chains_is_refused_with_the_command_that_shows_it(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.touch()
    with pytest.raises(ConfigError, match=f"use `agentfly show {re.escape(str(file))}`"):
        viewer(file).__enter__()


def test_a_wrong_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"), viewer(tmp_path / "none"):
        pass
