"""The generated world: questions mean what they say, and can't be answered from memory."""

import re
from collections.abc import Generator
from functools import cache
from random import Random

import pytest

from agentfly import Agent
from agentfly.agents.argument_checks import to_tasks
from agentfly.chat.formats import tag_format
from agentfly.environments import Player, PlayerModel, Say, Scene
from agentfly.environments.kit import Kit
from agentfly.environments.search import SEARCH, SearchOptions
from agentfly.environments.search.world import World, held_out_rows, parse_question, train_rows
from agentfly.environments.search.world.relation import RELATIONS
from agentfly.errors import ConfigError
from agentfly.types import Trajectory

SMALL = SearchOptions(people=60, num_tasks=300, num_eval_tasks=60)
HOPS = (1, 2, 3)


@pytest.fixture(params=[False, True], ids=["long", "short"])
def world(request: pytest.FixtureRequest) -> World:
    return World(people=120, short=request.param, seed=3)


def test_a_question_is_understood_as_it_was_meant(world: World) -> None:
    for half, rows in (
        (world.train, train_rows(world, HOPS, 600)),
        (world.held_out, held_out_rows(world, HOPS, 200)),
    ):
        for row in rows:
            question = parse_question(row["question"])
            assert question is not None
            names = half.walk(question.start, question.path)
            assert names == [*row["support"], row["answer"]]
            assert len(question.path) == row["hops"]


def test_every_fact_is_said_in_its_passage_and_nowhere_else(world: World) -> None:
    texts = {passage.id: passage.text for passage in world.passages}
    relations = {relation.name: relation for relation in RELATIONS}
    for half in (world.train, world.held_out):
        for (subject, name), answer in half.facts.items():
            assert relations[name].read_fact(texts[subject], subject) == answer
    whole = " ".join(texts.values())
    for (subject, name), answer in list(world.train.facts.items())[:50]:
        assert relations[name].read_fact(whole, subject) == answer


def test_quotation_marks_change_the_texts_and_nothing_else() -> None:
    plain, quoted = (
        World(people=60, short=True, seed=0, quoted=quoted) for quoted in (False, True)
    )
    for rows in (train_rows, held_out_rows):
        for one, other in zip(rows(plain, HOPS, 40), rows(quoted, HOPS, 40), strict=True):
            start = one["support"][0]
            assert other == {**one, "question": one["question"].replace(start, f'"{start}"')}
    assert [one.text.replace('"', "") for one in quoted.passages] == [
        one.text for one in plain.passages
    ]
    assert quoted.passages[0].text.startswith(f'"{quoted.passages[0].id}" ')


def test_the_expert_reads_names_in_quotation_marks() -> None:
    kit = SEARCH.make(SMALL.model_copy(update={"quoted": True, "short": True}))
    (chain,) = play(kit, kit.expert, 1)
    assert chain.reward == 1.0
    name = chain.task.fields["support"][0]
    assert chain.turns[0].replies[0].content.startswith(f'"{name}" ')


def test_the_halves_share_no_word_of_a_name_and_no_wording(world: World) -> None:
    train, held_out = train_rows(world, HOPS, 600), held_out_rows(world, HOPS, 200)
    assert not {row["answer"] for row in train} & {row["answer"] for row in held_out}
    common = {"Works", "River", "Mount", "The", "of"}
    words = [
        {word for entity in half.entities for word in entity.name.split()} - common
        for half in (world.train, world.held_out)
    ]
    assert not words[0] & words[1]
    held_out_asks = [relation.asks[-1].split("{}")[0] for relation in RELATIONS]
    assert not [r for r in train if r["question"].startswith(tuple(held_out_asks))]
    assert all(r["question"].startswith(tuple(held_out_asks)) for r in held_out)
    known = held_out_rows(world, HOPS, 200, new_wordings=False)
    assert not [r for r in known if r["question"].startswith(tuple(held_out_asks))]


def test_a_world_is_its_seed(world: World) -> None:
    same = World(people=world.people, short=world.short, seed=world.seed)
    other = World(people=world.people, short=world.short, seed=world.seed + 1)
    assert same.passages == world.passages
    assert train_rows(same, HOPS, 50) == train_rows(world, HOPS, 50)
    assert not {p.id for p in other.passages} & {p.id for p in world.passages if " " in p.id}


def test_a_world_that_is_too_small_for_so_many_questions_says_so() -> None:
    world = World(people=20, short=True, seed=0)
    with pytest.raises(ConfigError, match=r"num_tasks = 900 .*Set num_tasks=\d+ or less") as said:
        train_rows(world, (1,), 900)
    (most,) = re.findall(r"has: (\d+) different questions of 1 hop\.", str(said.value))
    assert len(train_rows(world, (1,), int(most))) == int(most)
    with pytest.raises(ConfigError, match=r"num_eval_tasks = 900 .* of 1 or 2 hops\. Set num_eval"):
        held_out_rows(world, (1, 2), 900)


def test_the_default_number_of_questions_is_a_maximum_and_one_that_was_set_is_not() -> None:
    small = {"people": 20, "hops": 1, "short": True}
    written = SearchOptions.model_validate(small).model_dump()
    assert len(list(SEARCH.make(SearchOptions(**written)).tasks())) > 20, "no other than unset"
    kit = SEARCH.make(SearchOptions.model_validate(small))
    assert 20 < len(list(kit.tasks())) < 2000
    assert 5 < len(list(kit.eval_tasks())) < 200
    for count in (900, 2000, 10**12):
        kit = SEARCH.make(SearchOptions.model_validate({**small, "num_tasks": count}))
        with pytest.raises(ConfigError, match=f"num_tasks = {count} is more than the world has"):
            kit.tasks()
    assert len(list(kit.eval_tasks())) < 200, "its default is still one"
    kit = SEARCH.make(SearchOptions.model_validate({**small, "num_eval_tasks": 900}))
    with pytest.raises(ConfigError, match="num_eval_tasks = 900 is more than the world has"):
        kit.eval_tasks()


def play(
    kit: Kit, player: Player | None, count: int, *, kind: str = "tools", held_out: bool = True
) -> list[Trajectory]:
    assert player is not None
    write = tag_format({"search": "query"}).write if kind == "tags" else None
    played: list[Trajectory] = []
    for row in list(kit.eval_tasks() if held_out else kit.tasks())[:count]:
        (task,) = to_tasks([row])
        model = PlayerModel(player=player, task=task, random=Random(row["id"]), write=write)
        agent = Agent(
            model,
            tools=kit.tools,
            reward=kit.reward,
            kind=kind,
            system_prompt=kit.system_prompt,
            max_turns=kit.max_turns,
        )
        played += agent.run_sync([row]).trajectories
    return played


def mean(played: list[Trajectory], part: str | None = None) -> float:
    scores = [one.score for one in played]
    assert None not in scores, [one.error for one in played]
    values = [(s.parts[part] if part else s.value) for s in scores if s is not None]
    return sum(values) / len(values)


@pytest.mark.parametrize("kind", ["tools", "tags"])
@pytest.mark.parametrize("options", [{}, {"short": True, "k": 1, "hops": (1, 2)}])
def test_the_expert_answers_held_out_questions(kind: str, options: dict[str, object]) -> None:
    kit = SEARCH.make(SMALL.model_copy(update=options))
    played = play(kit, kit.expert, 30, kind=kind)
    assert mean(played) == 1.0
    assert mean(played, "hit") == 1.0
    assert mean(played, "format") == 1.0
    assert all(len(one.turns) == one.task.fields["hops"] + 1 for one in played)


def test_gold_is_always_right_and_random_hardly_ever() -> None:
    kit = SEARCH.make(SMALL)
    assert mean(play(kit, kit.gold, 40, held_out=False)) == 1.0
    assert mean(play(kit, kit.random, 60)) <= 0.1


@cache
def known_world() -> World:
    return World(people=SMALL.people, short=False, seed=0)


def without_search(scene: Scene) -> Generator[Say, str, None]:
    """All that can be known by heart: the grammar, and every fact of the half to train on."""
    world = known_world()
    question = parse_question(scene.observation)
    assert question is not None
    kinds = {entity.name: entity.kind for entity in world.train.entities}
    wanted = [name for name, kind in kinds.items() if kind == question.path[-1].object]
    yield Say(scene.random.choice(wanted))


def test_an_expert_without_search_is_hardly_ever_right() -> None:
    kit = SEARCH.make(SMALL)
    assert mean(play(kit, without_search, 60)) == 0.0
    assert mean(play(kit, without_search, 100, held_out=False)) <= 0.15


def test_all_questions_of_a_world_are_found_and_no_more_are_counted() -> None:
    rare = {"people": 40, "short": True, "seed": 2}
    rows = list(SEARCH.make(SearchOptions.model_validate({**rare, "num_tasks": 1417})).tasks())
    assert len({row["id"] for row in rows}) == 1417
    more = SEARCH.make(SearchOptions.model_validate({**rare, "num_tasks": 1418}))
    with pytest.raises(ConfigError, match="more than the world has: 1417 different questions"):
        more.tasks()
