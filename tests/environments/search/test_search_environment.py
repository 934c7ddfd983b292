"""The environment and its tools, as chains use and misuse them."""

import json
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from agentfly import Agent, ScriptedEngine
from agentfly.agents.source_parts import find_source_environment, resolve_source
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.config import SourceSettings
from agentfly.environments import Kit, PlayerModel, Say, Scene, call
from agentfly.environments.search import (
    SEARCH,
    Passage,
    SearchEnvironment,
    SearchOptions,
    retrieval_server,
    search_reward,
    search_tools,
)
from agentfly.environments.search.backend import (
    BackendSpec,
    FolderSpec,
    QuestionFileSpec,
    ServerSpec,
    WebSpec,
    WorldSpec,
    open_backend,
)
from agentfly.environments.search.builtin import make
from agentfly.environments.search.corpus import write_corpus
from agentfly.environments.search.environment import NO_RESULTS, PART_CHARS
from agentfly.environments.search.players import NOT_FOUND, gold
from agentfly.errors import ConfigError, ToolError
from agentfly.tasks import load_tasks
from agentfly.testing import check_environment
from agentfly.tools import Toolbox
from agentfly.types import EnvSpec, Seed, Task, ToolStatus, Trajectory

PLACE = WorldSpec(people=40, short=False, seed=1)
SPEC = EnvSpec(SearchEnvironment, (("place", PLACE),))
SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "squad" / "dev-v2.0.json.gz"


def someone() -> Passage:
    return open_backend(PLACE).retriever.search("born", 1)[0].passage


def opened(place: object = PLACE, **options: int) -> SearchEnvironment:
    environment = SearchEnvironment(place, **options)  # type: ignore[arg-type]
    environment.reset(Task(id="t", messages=(), fields={"question": "?", "answer": "x"}), Seed(0))
    return environment


async def test_it_keeps_the_contract_of_an_environment() -> None:
    name = someone().id
    task = Task(id="t", messages=(), fields={"question": "Who?", "answer": ["The Answer"]})
    actions = [
        f"<search>{name}</search>",
        f"<open_page>{name}</open_page>",
        "<search>cut off",
        "<open_page>nobody</open_page>",
        "<answer>the answer.</answer>",
    ]
    await check_environment(SPEC, task, actions)
    environment = opened()
    environment.reset(task, Seed(1))
    steps = [environment.step(action) for action in actions]
    assert name in steps[0].observation
    assert steps[1].observation.startswith(f"{name}\n")
    assert "there is no page 'nobody'" in steps[3].observation
    assert [(step.reward, step.done) for step in steps[3:]] == [(None, False), (1.0, True)]
    assert environment.step("something else").reward == 0.0


def test_equal_finds_are_equal_states_in_any_order() -> None:
    names = [hit.passage.id for hit in open_backend(PLACE).retriever.search("born", 2)]
    keys = []
    for order in (names, names[::-1]):
        environment = opened(k=1)
        before = environment.state_key
        for name in order:
            environment.search(name)
        keys.append(environment.state_key)
        assert before != keys[-1]
    assert keys[0] == keys[1]


def test_a_search_shows_beginnings_and_retrieve_shows_all() -> None:
    name = someone()
    short = opened(k=2, snippet=20).search(name.id)
    assert len(short.splitlines()) == 2
    assert all(line.endswith("…") for line in short.splitlines())
    assert opened().retrieve(name.id, 1).endswith(name.text)
    assert opened().search("zzzz qqqq") == NO_RESULTS


def test_long_pages_are_read_in_parts(tmp_path: Path) -> None:
    text = "".join(f"{n:09d} " for n in range(450))
    passages = [Passage(id="long#0", title="Long", text=text), Passage(id="b", title="", text="b")]
    write_corpus(tmp_path / "corpus", passages)
    environment = opened(FolderSpec(str(tmp_path)))
    assert environment.search("b") == "[b] b"
    first, third = environment.open_page("long"), environment.open_page(" long#0 ", 3)
    assert first.startswith("Long (part 1 of 3)\n000000000 ")
    assert len(first.partition("\n")[2]) == PART_CHARS
    assert third.endswith(text[2 * PART_CHARS :])
    for wrong in (0, 4):
        with pytest.raises(ToolError, match=f"has 3 parts, got {wrong}"):
            environment.open_page("long", wrong)
    assert set(environment.found) == {"b", "long", "long#0"}


def test_of_a_server_what_was_found_can_be_opened() -> None:
    with retrieval_server(open_backend(PLACE).retriever) as url:
        environment = opened(ServerSpec(url))
        name = someone()
        with pytest.raises(ToolError, match="use an id that a search has shown"):
            environment.open_page(name.id)
        environment.search(name.id)
        assert environment.open_page(name.id).endswith(name.text)


def run(calls: list[tuple[str, object]], said: str = "x", **row: object) -> Trajectory:
    """Make these calls through the real loop, then answer."""

    def player(scene: Scene) -> Generator[Say, str, None]:
        for tool, arguments in calls:
            assert isinstance(arguments, dict)
            yield call(tool, **arguments)
        yield Say(said)

    task = Task(id="t", messages=(), fields=row)
    agent = Agent(
        PlayerModel(player=player, task=task, random=Random(0)),
        tools=search_tools(SPEC, ("search", "retrieve", "open_page")),
        reward=search_reward(SPEC, format_weight=0.1, hit_weight=0.5),
        max_turns=len(calls) + 1,
    )
    (trajectory,) = agent.run_sync(
        [{"id": "t", "question": "Who?", "answer": "x", **row}]
    ).trajectories
    return trajectory


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "told"),
    [
        ("search", {"query": "x" * 2**20}, ToolStatus.ERROR, "at most 1000 characters"),
        ("search", {"query": ""}, ToolStatus.OK, NO_RESULTS),
        ("search", {"query": '"title:[* TO'}, ToolStatus.OK, ""),
        ("search", {"query": ["a"]}, ToolStatus.BAD_ARGUMENTS, "query"),
        ("search", {}, ToolStatus.BAD_ARGUMENTS, "query"),
        ("retrieve", {"query": "born", "k": 0}, ToolStatus.ERROR, "k must be from 1 to 20, got 0"),
        ("retrieve", {"query": "born", "k": 10**9}, ToolStatus.ERROR, "from 1 to 20"),
        ("open_page", {"page": "nobody"}, ToolStatus.ERROR, "there is no page 'nobody'"),
        ("open_page", {"page": "y" * 2**20}, ToolStatus.ERROR, "there is no page 'yyy"),
        ("open_page", {"page": "http://127.0.0.1/"}, ToolStatus.ERROR, "there is no page"),
    ],
)
def test_what_a_model_does_wrong_is_reported_to_it(
    tool: str, arguments: dict[str, object], status: ToolStatus, told: str
) -> None:
    (result,) = run([(tool, arguments)]).turns[0].results
    assert result.status is status
    assert told in result.observation
    assert len(result.observation) < 2000


def test_the_parts_of_a_reward_by_hand() -> None:
    found = someone().id
    good = run([("search", {"query": found})], "the X!", support=[found, "never found"])
    assert good.score is not None
    assert good.score.parts == {"em": 1.0, "f1": 1.0, "format": 1.0, "hit": 0.5}
    assert good.score.value == pytest.approx(1.0 + 0.1 + 0.25)
    wrong_call = run([("search", {})], "x y", support=[found])
    assert wrong_call.score is not None
    assert wrong_call.score.parts == {
        "em": 0.0,
        "f1": pytest.approx(2 / 3),
        "format": 0.0,
        "hit": 0.0,
    }
    silent = run([], " ")
    assert silent.score is not None
    assert silent.score.parts["format"] == 0.0


def test_without_known_support_a_hit_is_a_passage_with_the_answer() -> None:
    person = someone()
    town = person.text.split()[-1].rstrip(".")
    for answer, hit in ((town, 1.0), (town[:-1], 0.0)):
        scored = run([("search", {"query": person.id})], "?", answer=[answer], support=[]).score
        assert scored is not None
        assert scored.parts["hit"] == hit


@pytest.mark.parametrize(
    ("tool", "spoilt"), [("search", False), ("retrieve", False), ("search", True)]
)
def test_the_gold_path_is_right_only_where_its_passages_can_be_found(
    tool: str, spoilt: bool
) -> None:
    one = {"k": 1} if tool == "search" else {}
    kit = make(SearchOptions(people=40, num_tasks=20, hops=(2,), tools=(tool,), **one))  # type: ignore[arg-type]
    elsewhere = make(SearchOptions(people=40, seed=7, k=1)) if spoilt else kit
    assert kit.gold is not None
    for row in list(kit.tasks())[:5]:
        task = Task(id=row["id"], messages=(), fields=row)
        model = PlayerModel(player=kit.gold, task=task, random=Random(0))
        agent = Agent(model, tools=elsewhere.tools, reward=elsewhere.reward, max_turns=9)
        (played,) = agent.run_sync([row]).trajectories
        assert played.reward == float(not spoilt), row


def test_where_no_support_is_known_the_answer_must_be_shown() -> None:
    person = someone()
    town = person.text.split()[-1].rstrip(".")
    for question, said in ((person.id, town), ("Nothing?", NOT_FOUND)):
        fields = {"question": question, "answer": [town if said == town else "Zzyzx"]}
        playing = gold(
            Scene(task=Task(id="t", messages=(), fields=fields), observation="", random=Random(0))
        )
        turn = next(playing)
        while turn.calls:
            turn = playing.send(opened(k=1).search(json.loads(turn.calls[0].arguments)["query"]))
        assert turn.words == said


def test_without_a_tool_that_searches_there_are_no_players() -> None:
    kit = make(SearchOptions(tools=("open_page",)))
    assert (kit.expert, kit.gold, kit.random) == (None, None, None)


def test_an_answer_may_be_a_number() -> None:
    environment = opened()
    environment.reset(Task(id="t", messages=(), fields={"question": "?", "answer": 42}), Seed(0))
    assert environment.step("<answer>42</answer>").reward == 1.0


def test_f1_can_be_the_reward() -> None:
    reward = search_reward(SPEC, correct="f1")
    assert {part.name: weight for part, weight in reward.weights.items()} == {
        "em": 0.0,
        "f1": 1.0,
        "format": 0.0,
        "hit": 0.0,
    }


def test_tools_and_reward_of_a_kit_share_one_environment() -> None:
    kit = make(SearchOptions(tools=("search", "open_page")))
    assert kit.reward is not None
    assert Toolbox(kit.tools).environments == kit.reward.environments
    assert len(kit.reward.environments) == 1
    assert [tool.spec.name for tool in kit.tools] == ["search", "open_page"]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"index": "wiki"}, FolderSpec("/runs/wiki")),
        ({"index": "http://here:8001"}, ServerSpec("http://here:8001")),
        ({"index": "web:wikipedia", "cache": "a"}, WebSpec("wikipedia", cache="/runs/a")),
        ({"questions": "dev.json"}, QuestionFileSpec("/runs/dev.json", "squad")),
    ],
)
def test_paths_of_a_run_are_looked_for_beside_its_file(
    options: dict[str, str], place: BackendSpec
) -> None:
    source = SourceSettings(environment="search", options=options)
    kit = find_source_environment(source, base=Path("/runs"))
    assert isinstance(kit, Kit)
    ((spec,),) = (tool.environments for tool in kit.tools)
    assert dict(spec.options)["place"] == place


def test_a_kit_is_made_without_any_work() -> None:
    nowhere = SearchOptions(index="/nowhere", questions=Path("/nowhere.json"))
    assert SEARCH.make(nowhere).system_prompt


@pytest.mark.parametrize("index", ["/notes", "http://here:8001", "web:serper"])
def test_an_index_is_not_asked_the_questions_of_the_generated_world(index: str) -> None:
    kit = SEARCH.make(SearchOptions(index=index))
    for rows in (kit.tasks, kit.eval_tasks):
        with pytest.raises(
            ConfigError, match=f"index = '{index}' needs questions of its own: `que"
        ):
            rows()
    assert kit.expert is None


def test_a_source_with_tasks_of_its_own_needs_no_questions_for_its_index(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"question": "Who barks?", "answer": "dogs"}\n')
    source = SourceSettings(environment="search", tasks="own.jsonl", options={"index": "notes"})
    parts = resolve_source(source, base=tmp_path)
    assert [task.fields["answer"] for task in load_tasks(parts.tasks)] == ["dogs"]
    assert load_tasks(parts.eval_tasks) == []


@pytest.mark.skipif(not SHARED.exists(), reason="needs SQuAD")
def test_squad_is_played_over_its_own_paragraphs() -> None:
    kit = SEARCH.make(SearchOptions(questions=SHARED, form="squad", k=10))
    train, held_out = list(kit.tasks()), list(kit.eval_tasks())
    assert len(train) > 2000
    assert len(held_out) > 200
    assert not {r["answer"][0] for r in train} & {r["answer"][0] for r in held_out}
    row = next(r for r in held_out if r["support"])
    assert kit.gold is not None
    task = Task(id="t", messages=(), fields=row)
    model = PlayerModel(player=kit.gold, task=task, random=Random(0))
    (played,) = Agent(model, tools=kit.tools, reward=kit.reward).run_sync([row]).trajectories
    assert played.reward == 1.0


def test_the_tag_form_reads_what_a_model_writes() -> None:
    name = someone().id
    said = [f"I look. <search>{name}</search>", "<answer> the X </answer>"]
    engine = ScriptedEngine(said, tokenizer=ByteTokenizer(CHATML_TOKENS))
    agent = Agent(engine, kind="tags", tools=search_tools(SPEC), reward=search_reward(SPEC))
    (played,) = agent.run_sync([{"id": "t", "question": "Who?", "answer": "x"}]).trajectories
    assert played.reward == 1.0
    (reply,) = played.turns[0].replies
    assert reply.content.startswith("<information>")
    assert name in reply.content


def fuzz(number: int, steps: int) -> None:
    """One session with random actions, checked against what it alone did."""
    random = Random(number)
    known = open_backend(PLACE).retriever.search("born founded lies", 20)
    names = [hit.passage.id for hit in known]
    environment = opened(k=random.randint(1, 5))
    seen: set[str] = set()
    for _ in range(steps):
        name = random.choice(names)
        match random.randrange(5):
            case 0:
                shown = environment.step(f"<search>{name}</search>").observation
            case 1:
                query = "".join(chr(random.randrange(1, 0x3000)) for _ in range(20))
                shown = environment.search(query)
            case 2:
                shown = environment.retrieve(name, random.randint(1, 20))
            case 3:
                shown = environment.open_page(name)
            case _:
                environment.reset(Task(id=str(number), messages=(), fields={}), Seed(0))
                seen, shown = set(), ""
        found = environment.found
        assert seen <= set(found)  # nothing is forgotten …
        for one in set(found) - seen:
            assert one in shown  # … and nothing is there that this session was not shown
        seen = set(found)


def sessions(count: int, steps: int) -> None:
    with ThreadPoolExecutor(64) as threads:
        list(threads.map(lambda number: fuzz(number, steps), range(count)))


def test_many_sessions_at_once_do_not_mix() -> None:
    sessions(500, 6)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_million_random_steps_in_five_hundred_sessions() -> None:
    sessions(500, 2000)


def test_an_episode_is_plain_json() -> None:
    row = next(iter(SEARCH.make(SearchOptions(people=40, num_tasks=5)).tasks()))
    assert json.loads(json.dumps(row)) == row
