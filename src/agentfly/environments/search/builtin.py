"""Search as a ready-made environment: questions, what is searched, tools, reward, players."""

from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from agentfly.config import Settings
from agentfly.environments.kit import EnvironmentDefinition, Kit
from agentfly.environments.player import Player, Say
from agentfly.environments.search import players
from agentfly.environments.search.backend import (
    HTTP,
    BackendSpec,
    QuestionFileSpec,
    WebSpec,
    WorldSpec,
    backend_spec,
    get_world,
)
from agentfly.environments.search.environment import SearchEnvironment, ToolName, search_tools
from agentfly.environments.search.questions import (
    MAX_HOPS,
    QuestionFormat,
    load_questions,
    split_rows,
)
from agentfly.environments.search.retrieval import RetrievalMethod
from agentfly.environments.search.reward import Correct, search_reward
from agentfly.environments.search.web.page import PER_MINUTE
from agentfly.environments.search.world import held_out_rows, train_rows
from agentfly.runtime.extra import missing_packages
from agentfly.types import EnvSpec

PROMPT = "Answer the question by searching for facts. End with the answer alone, nothing else."
FILE_TURNS = 6
"""Turns for questions of a file, at least: nobody knows how many searches they need."""
FILE_TURNS_A_HOP = 2
"""A search, and another in other words or a page to open."""
SPARE_TURNS = 2
"""For the answer, and for one search that finds nothing."""
WEB = "web:"
"""How an `index` begins that is a provider of web search."""


def _folder_or_address(index: str | Path) -> str | Path:
    """Make paths of folders, so that they are looked for where all paths of a run are."""
    return index if str(index).startswith((*HTTP, WEB)) else Path(index)


class SearchOptions(Settings):
    """Choices of the environment `search`."""

    questions: Path | None = None
    """A file of questions; by default those of a generated world."""
    form: QuestionFormat = "squad"
    """What kind of file that is."""
    eval_questions: Path | None = None
    """A file of held-out questions of the same form; by default a tenth of `questions`."""
    index: Annotated[str | Path, AfterValidator(_folder_or_address)] | None = None
    """What is searched: a folder made by `agentfly search index`, `http://...` of a retrieval
    server, or `web:` and a provider; by default the passages that come with the questions."""
    by: RetrievalMethod = "bm25"
    """How passages are found here: bm25, dense or hybrid."""
    k: int = Field(default=3, ge=1, le=20)
    """How many passages a search shows."""
    snippet: int = Field(default=300, ge=20)
    """How many characters of each it shows."""
    tools: Annotated[tuple[ToolName, ...], Field(min_length=1)] = ("search",)
    """Of search, retrieve and open_page."""
    correct: Correct = "em"
    """What makes the reward: em (exact match) or f1 (shared words)."""
    format_weight: float = 0.0
    """What an answer without a wrong call before it adds to the reward."""
    hit_weight: float = 0.0
    """What it adds to have found all supporting passages."""
    people: int = Field(default=400, ge=20)
    """Size of the world: so many people to train on, and a third as many held out."""
    short: bool = False
    """Names of one word and the plainest sentences, for small models."""
    hops: Annotated[tuple[Annotated[int, Field(ge=1, le=3)], ...], Field(min_length=1)] = (1, 2, 3)
    """How many facts a question of the world goes through."""
    num_tasks: int = Field(default=2000, ge=1)
    """Questions about the world to train on."""
    num_eval_tasks: int = Field(default=200, ge=1)
    """Held-out questions about the world."""
    new_wordings: bool = True
    """Whether these are asked in wordings that are held out too."""
    seed: int = Field(default=0, ge=0)
    """Of the world."""
    cache: Path | None = None
    """A file in which what the web answers is kept for a week."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """How fast the provider may be asked."""
    pages_per_minute: float = Field(default=PER_MINUTE, gt=0)
    """How fast pages of one host may be opened."""
    provider_url: str | None = None
    """Where the provider is, such as your own SearXNG; by default where everybody finds it."""
    allow_private: bool = False
    """Whether `open_page` may open loopback and private addresses, for a web of your own."""


def make(options: SearchOptions) -> Kit:
    """Put the parts together; nothing is read or made yet."""
    spec = EnvSpec(
        SearchEnvironment,
        (("place", choose_backend(options)), ("k", options.k), ("snippet", options.snippet)),
    )
    return Kit(
        tasks=lambda: _train(options),
        eval_tasks=lambda: _held_out(options),
        tools=search_tools(spec, options.tools),
        reward=search_reward(
            spec,
            correct=options.correct,
            format_weight=options.format_weight,
            hit_weight=options.hit_weight,
        ),
        system_prompt=PROMPT,
        max_turns=_max_turns(options),
        expert=_player(players.expert, options) if options.questions is None else None,
        gold=_player(players.gold, options),
        random=_player(players.random, options),
    )


def _max_turns(options: SearchOptions) -> int:
    """Give turns by the longest questions.

    >>> _max_turns(SearchOptions(hops=(1, 2)))
    4
    >>> _max_turns(SearchOptions(questions=Path("musique_ans_v1.0_dev.jsonl"), form="musique"))
    10
    """
    if options.questions is None:
        return max(options.hops) + SPARE_TURNS
    return max(FILE_TURNS, FILE_TURNS_A_HOP * MAX_HOPS[options.form] + SPARE_TURNS)


def choose_backend(options: SearchOptions) -> BackendSpec:
    """Return where the chosen library is.

    >>> choose_backend(SearchOptions(index="http://localhost:8001"))
    ServerSpec(url='http://localhost:8001')
    """
    if options.index is None:
        if options.questions is not None:
            return QuestionFileSpec(str(options.questions), options.form, options.by)
        return _world(options)
    index = str(options.index)
    if index.startswith(WEB):
        return WebSpec(
            index.removeprefix(WEB),
            url=options.provider_url,
            requests_per_minute=options.requests_per_minute,
            pages_per_minute=options.pages_per_minute,
            cache=None if options.cache is None else str(options.cache),
            allow_private=options.allow_private,
        )
    return backend_spec(index, options.by)


def _player(
    player: Callable[..., Generator[Say, str, None]], options: SearchOptions
) -> Player | None:
    """Let a player search by the first tool that can; there is none if pages are only opened."""
    tool = next((name for name in options.tools if name != "open_page"), None)
    return None if tool is None else partial(player, tool=tool)


def _world(options: SearchOptions) -> WorldSpec:
    return WorldSpec(options.people, options.short, options.seed, options.by)


def _train(options: SearchOptions) -> list[dict[str, Any]]:
    if options.questions is None:
        return train_rows(get_world(_world(options)), options.hops, options.num_tasks)
    rows = load_questions(str(options.questions), options.form).rows
    return split_rows(rows)[0] if options.eval_questions is None else list(rows)


def _held_out(options: SearchOptions) -> list[dict[str, Any]]:
    if options.eval_questions is not None:
        return list(load_questions(str(options.eval_questions), options.form).rows)
    if options.questions is not None:
        return split_rows(load_questions(str(options.questions), options.form).rows)[1]
    return held_out_rows(
        get_world(_world(options)),
        options.hops,
        options.num_eval_tasks,
        new_wordings=options.new_wordings,
    )


SEARCH = EnvironmentDefinition(
    name="search",
    summary="Questions that need one to three searches, in a generated world or your own corpus",
    options=SearchOptions,
    make=make,
    requires=partial(missing_packages, ("tantivy",), extra="search", purpose="search"),
)
