"""The search environment: the state of one chain's search, and the tools that use it."""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from agentfly.chat.formats import tag_format
from agentfly.environments.search.backend import BackendSpec, open_backend
from agentfly.environments.search.retriever import MAX_QUERY, Hit, Passage
from agentfly.errors import ToolError
from agentfly.resources import ClientOptions, Pooling
from agentfly.rewards.reference_answers import listed_answers
from agentfly.rewards.text_match import normalize_answer
from agentfly.tools import tool
from agentfly.types import EnvSpec, Seed, Step, Task, Tool, ToolCall

MAX_K = 20
"""Maximum number of hits that a model may request."""
PART_CHARS = 2000
"""Characters of a page shown in one part."""
NO_RESULTS = "Nothing found. Try other words."

_ACTIONS = tag_format({"search": "query", "open_page": "page"})


class SearchEnvironment:
    """One chain's search. All chains of a process share the opened backend.

    Args:
        place: Spec of the backend that is searched.
        k: Number of hits that `search` shows.
        snippet: Number of characters shown of each hit.
    """

    # An instance is a few hundred bytes; the first of a process opens the backend for all.
    pooling = Pooling(max_instances=4096, make_seconds=600.0)
    client_options: ClassVar[ClientOptions] = {"k": tuple(range(1, MAX_K + 1))}

    def __init__(self, place: BackendSpec, *, k: int = 3, snippet: int = 300) -> None:
        self._backend = open_backend(place)
        self._k = k
        self._snippet = snippet
        self._found: dict[str, Passage] = {}
        self._question = ""
        self._answers: list[str] = []

    def reset(self, task: Task, seed: Seed) -> Step:
        """Clear the passages found; return the question."""
        del seed
        self._found = {}
        self._question = str(task.fields.get("question", ""))
        self._answers = listed_answers(task, "answer") if "answer" in task.fields else []
        return Step(observation=self._question, state_key=self.state_key)

    def step(self, action: str) -> Step:
        """Run the actions written in tags: `<search>…</search>`, `<open_page>…</open_page>`.

        Anything else is the answer, which ends the episode.
        """
        reading = _ACTIONS.read(action)
        if not reading.calls:
            right = normalize_answer(reading.content) in map(normalize_answer, self._answers)
            return Step(observation="", reward=float(right), done=True)
        steps = [self._act(call) for call in reading.calls]
        return Step(
            observation="\n".join(step.observation for step in steps),
            state_key=self.state_key,
            invalid=any(step.invalid for step in steps),
        )

    def _act(self, call: ToolCall) -> Step:
        if call.problem:
            return Step(observation=call.problem, invalid=True)
        try:
            return Step(observation=getattr(self, call.name)(**json.loads(call.arguments)))
        except ToolError as error:
            return Step(observation=str(error), invalid=True)

    def search(self, query: str) -> str:
        """Return the first characters of the best passages."""
        return self._format_hits(self._hits(query, self._k), self._snippet)

    def retrieve(self, query: str, k: int) -> str:
        """Return the full text of the best `k` passages."""
        if not 1 <= k <= MAX_K:
            raise ToolError(f"k must be from 1 to {MAX_K}, got {k}.")
        return self._format_hits(self._hits(query, k), None)

    def open_page(self, page: str, part: int = 1) -> str:
        """Return a part of a page."""
        found = self._backend.find(page.strip()) or self._found.get(page.strip())
        if found is None:
            raise ToolError(f"there is no page {page[:100]!r}: use an id that a search has shown.")
        parts = [
            found.text[start : start + PART_CHARS]
            for start in range(0, len(found.text), PART_CHARS)
        ]
        if not 1 <= part <= max(1, len(parts)):
            raise ToolError(f"the page has {len(parts)} parts, got {part}.")
        self._found[found.id] = found
        more = f" (part {part} of {len(parts)})" if len(parts) > 1 else ""
        return f"{found.title}{more}\n{''.join(parts[part - 1 : part])}"

    @property
    def found(self) -> dict[str, Passage]:
        """All passages that were shown so far, by id."""
        return dict(self._found)

    @property
    def state_key(self) -> str:
        """Key of the state: equal for the same question with the same passages found."""
        text = "\0".join((self._question, *sorted(self._found)))
        return blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()

    def close(self) -> None:
        """Clear the passages found; the shared backend stays open."""
        self._found = {}

    def _hits(self, query: str, k: int) -> list[Hit]:
        if len(query) > MAX_QUERY:
            raise ToolError(f"a query has at most {MAX_QUERY} characters, got {len(query)}.")
        return self._backend.retriever.search(query, k)

    def _format_hits(self, hits: Sequence[Hit], length: int | None) -> str:
        self._found |= {hit.passage.id: hit.passage for hit in hits}
        return "\n".join(format_passage(hit.passage, length) for hit in hits) or NO_RESULTS


def format_passage(passage: Passage, length: int | None = None) -> str:
    """Return a passage as one line, with the id that `open_page` takes.

    A text that begins with its own id is not preceded by it.

    >>> format_passage(Passage(id="Askel", title="Askel", text="Askel lies on the Umber."), 8)
    'Askel li…'
    >>> format_passage(Passage(id="d#3", title="Cats", text="They purr."))
    '[d#3] Cats: They purr.'
    """
    text = " ".join(passage.text.split())
    if length is not None and len(text) > length:
        text = f"{text[:length]}…"
    if passage.id == passage.title:
        named = passage.text.removeprefix('"').startswith(passage.id)
        return text if named else f"[{passage.id}] {text}"
    return f"[{passage.id}] {passage.title}: {text}" if passage.title else f"[{passage.id}] {text}"


ToolName = Literal["search", "retrieve", "open_page"]


def search(query: str, env: SearchEnvironment) -> str:  # noqa: D417 - hidden from the model: `env`
    """Search for passages.

    Args:
        query: A few words, such as a name.
    """
    return env.search(query)


def retrieve(query: str, env: SearchEnvironment, k: int = 3) -> str:  # noqa: D417 - hidden from the model: `env`
    """Search for passages and read them in whole.

    Args:
        query: A few words, such as a name.
        k: How many passages.
    """
    return env.retrieve(query, k)


def open_page(page: str, env: SearchEnvironment, part: int = 1) -> str:  # noqa: D417 - hidden from the model: `env`
    """Read a page.

    Args:
        page: An id in [brackets], a name or an address that a search has shown.
        part: Which part of a long page.
    """
    return env.open_page(page, part)


_FUNCTIONS: Mapping[ToolName, Callable[..., Any]] = MappingProxyType(
    {"search": search, "retrieve": retrieve, "open_page": open_page}
)


def search_tools(spec: EnvSpec, names: tuple[ToolName, ...] = ("search",)) -> tuple[Tool, ...]:
    """Make tools that use an environment of this spec."""
    return tuple(tool(_FUNCTIONS[name], env=spec) for name in names)
