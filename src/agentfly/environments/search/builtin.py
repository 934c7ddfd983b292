"""The built-in environment `search`: its options, and the kit made from them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from agentfly.environments.index import INDEX
from agentfly.environments.kit import (
    EnvironmentDefinition,
    EnvironmentOptions,
    Kit,
    NoTasksError,
)
from agentfly.environments.player import Play, Player
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
from agentfly.types import EnvSpec

PROMPT = "Answer the question by searching for facts. End with the answer alone, nothing else."
FILE_TURNS = 6
"""Minimum number of turns for questions of a file; the searches they need are unknown."""
FILE_TURNS_A_HOP = 2
"""Turns per hop: a search, and a second one in other words or a page to open."""
SPARE_TURNS = 2
"""Turns for the answer and for one search that finds nothing."""
WEB = "web:"
"""Prefix of an `index` that names a provider of web search."""
_OF_WORLD = (
    *("people", "short", "quoted", "hops"),
    *("num_tasks", "num_eval_tasks", "new_wordings", "seed"),
)
_OF_WEB = ("cache", "requests_per_minute", "pages_per_minute", "provider_url", "allow_private")


def _folder_or_address(index: str | Path) -> str | Path:
    """Make folders `Path`s, so that they are resolved as all paths of a run are."""
    return index if str(index).startswith((*HTTP, WEB)) else Path(index)


class SearchOptions(EnvironmentOptions):
    """Options of the environment `search`."""

    questions: Path | None = None
    """A file of questions; by default those of a generated world, which an `index` can't answer."""
    form: QuestionFormat = "squad"
    """Format of the files of questions."""
    eval_questions: Path | None = None
    """A file of held-out questions of the same form; by default a tenth of `questions`."""
    index: Annotated[str | Path, AfterValidator(_folder_or_address)] | None = None
    """Index to search: a folder made by `agentfly search index`, `http://...` of a retrieval
    server, or `web:` and a provider; by default the passages that come with the questions."""
    by: RetrievalMethod = "bm25"
    """Retrieval method of passages on this machine: bm25, dense or hybrid."""
    k: int = Field(default=3, ge=1, le=20)
    """Number of passages that a search shows."""
    snippet: int = Field(default=300, ge=20)
    """Number of characters shown of each passage."""
    tools: Annotated[tuple[ToolName, ...], Field(min_length=1)] = ("search",)
    """Tools of the model, out of search, retrieve and open_page."""
    correct: Correct = "em"
    """Measure of a correct answer: em (exact match) or f1 (shared words)."""
    format_weight: float = 0.0
    """Weight in the reward of an answer without a wrong call before it."""
    hit_weight: float = 0.0
    """Weight in the reward of the share of supporting passages that were found."""
    people: int = Field(default=400, ge=20)
    """Number of people in the world to train on; a third as many are held out. This and the other
    options of the world are not for `questions` or an `index`."""
    short: bool = False
    """Names of one word and the plainest sentences, for small models."""
    quoted: bool = False
    """Names of the world in quotation marks, as in the query of a call: for models that are too
    small to know that a name with and without a blank before it is the same."""
    hops: Annotated[tuple[Annotated[int, Field(ge=1, le=3)], ...], Field(min_length=1)] = (1, 2, 3)
    """Numbers of facts that a question of the world goes through."""
    num_tasks: int | None = Field(default=None, ge=1)
    """Number of questions about the world to train on; by default all that it has, at most
    2,000."""
    num_eval_tasks: int | None = Field(default=None, ge=1)
    """Number of held-out questions about the world; by default all that it has, at most 200."""
    new_wordings: bool = True
    """Whether held-out questions use wordings that are held out too."""
    seed: int = Field(default=0, ge=0)
    """Seed of the world."""
    cache: Path | None = None
    """A file in which answers from the web are cached for a week. This and the following options
    are for an index `web:...` only."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """Rate limit for requests to the provider."""
    pages_per_minute: float = Field(default=PER_MINUTE, gt=0)
    """Rate limit for opening pages of one host."""
    provider_url: str | None = None
    """Address of the provider, such as your own SearXNG; by default its public address."""
    allow_private: bool = False
    """Whether `open_page` may open loopback and private addresses, for a web of your own."""

    @model_validator(mode="after")
    def _check_effects(self) -> "SearchOptions":
        index = str(self.index)
        self.refuse_without_effect(
            (
                _is_world(self),
                _OF_WORLD,
                "for the generated world, without `questions` and `index`",
            ),
            (
                not _is_world(self) or self.eval_questions is None,
                ("num_eval_tasks", "new_wordings"),
                "for held-out questions of the world, without `eval_questions`",
            ),
            (index.startswith(WEB), _OF_WEB, "for the web, with an index such as web:serper"),
            (
                self.questions is not None or self.eval_questions is not None,
                ("form",),
                "for a file of `questions` or `eval_questions`",
            ),
            (
                not index.startswith((*HTTP, WEB)),
                ("by",),
                "for passages on this machine, and a server or the web has its own method",
            ),
            ("search" in self.tools, ("k", "snippet"), "for the tool `search`"),
        )
        return self


def make(options: SearchOptions) -> Kit:
    """Make the kit; no file is read and no world generated yet."""
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
        expert=_player(players.expert, options) if _is_world(options) else None,
        gold=_player(players.gold, options),
        random=_player(players.random, options),
    )


def _max_turns(options: SearchOptions) -> int:
    """Return the number of turns for the longest questions.

    >>> _max_turns(SearchOptions(hops=(1, 2)))
    4
    >>> _max_turns(SearchOptions(questions=Path("musique_ans_v1.0_dev.jsonl"), form="musique"))
    10
    """
    if options.questions is None:
        return max(options.hops) + SPARE_TURNS
    return max(FILE_TURNS, FILE_TURNS_A_HOP * MAX_HOPS[options.form] + SPARE_TURNS)


def choose_backend(options: SearchOptions) -> BackendSpec:
    """Return the backend spec that the options describe.

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


def _player(player: Callable[..., Play], options: SearchOptions) -> Player | None:
    """Bind a player to the first search tool; None if the only tool is open_page."""
    tool = next((name for name in options.tools if name != "open_page"), None)
    return None if tool is None else partial(player, tool=tool)


def _world(options: SearchOptions) -> WorldSpec:
    return WorldSpec(options.people, options.short, options.seed, options.by, options.quoted)


def _is_world(options: SearchOptions) -> bool:
    return options.index is None and options.questions is None


def _require_questions(options: SearchOptions) -> None:
    """Raise NoTasksError if the world's questions would be asked about another index."""
    if options.index is not None:
        raise NoTasksError(
            f"index = {str(options.index)!r} needs questions of its own: `questions` and `form`, "
            "or `tasks` in the [[source]]. `agentfly envs play search --tasks FILE` reads such "
            "tasks, and `agentfly search query` needs none"
        )


def _train(options: SearchOptions) -> list[dict[str, Any]]:
    if options.questions is None:
        _require_questions(options)
        return train_rows(get_world(_world(options)), options.hops, options.num_tasks)
    rows = load_questions(str(options.questions), options.form).rows
    return split_rows(rows)[0] if options.eval_questions is None else list(rows)


def _held_out(options: SearchOptions) -> list[dict[str, Any]]:
    if options.eval_questions is not None:
        return list(load_questions(str(options.eval_questions), options.form).rows)
    if options.questions is not None:
        return split_rows(load_questions(str(options.questions), options.form).rows)[1]
    _require_questions(options)
    return held_out_rows(
        get_world(_world(options)),
        options.hops,
        options.num_eval_tasks,
        new_wordings=options.new_wordings,
    )


SEARCH = EnvironmentDefinition(
    name="search",
    summary=INDEX["search"].summary,
    options=SearchOptions,
    make=make,
    requires=INDEX["search"].requires,
)
