"""The viewer of runs: a page and its data, served to this machine's browsers alone.

GET /                                   the page, and its modules under /page/
GET /api/runs                           all runs
GET /api/runs/NAME                      one run; with /metrics, /settings
GET /api/runs/NAME/chains?...           a page of its table of chains
GET /api/runs/NAME/chain?file=&chain=   one chain, with its tokens
GET /api/runs/NAME/group?file=&group=   the chains of one group
GET /api/runs/NAME/ask/QUESTION?step=   the answer to a question
GET /api/changes                        names of runs as they change

Nothing can be changed through it, files of runs are read as data, and all that it sends as a page
comes from this package.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from agentfly.errors import ConfigError
from agentfly.observe.recorded_run import ChainFile
from agentfly.runtime.http.address import Listen
from agentfly.runtime.http.guard import Application, BodyLimits
from agentfly.runtime.http.messages import RefusalError, dump, json_bytes, run_in_thread
from agentfly.runtime.http.server import serving_in_thread
from agentfly.runtime.names import suggestion
from agentfly.serve.chain_detail import chain_json
from agentfly.serve.chain_query import ChainQuery, Entry, choices, row_json
from agentfly.serve.live import changes
from agentfly.serve.questions import QUESTIONS
from agentfly.serve.run_data import metrics_json, overview_json, run_row, settings_json
from agentfly.serve.run_store import OpenRun, RunStore

SECONDS = 60.0
"""Time limit of one request."""
WORK_SECONDS = 0.3
"""Time in which a request reads on in files; the page asks again for the rest."""
MAX_GROUP = 64
"""Chains of a group that are shown side by side."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content security policy: scripts and styles of this package alone, and no HTML made from text."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@contextmanager
def viewer(folder: Path, listen: Listen | None = None) -> Iterator[str]:
    """Serve the runs of a folder in the background; yield the address, which carries the token."""
    if folder.is_file():
        raise ConfigError(
            f"{folder} is a file, and the viewer opens folders of runs. To read the chains of a "
            f"file, use `agentfly show {folder}`"
        )
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder {str(folder)!r}: expected the folder in which runs are kept, or "
            "that of one run"
        )
    closing, store = threading.Event(), RunStore(folder)
    try:
        with serving_in_thread(_application(store, closing), listen or Listen()) as address:
            try:
                yield address
            finally:
                closing.set()  # It ends open streams, for which the server would wait.
    finally:
        store.close()


def _application(store: RunStore, closing: threading.Event) -> Application:
    return Application(
        routes=[*_page_routes(), *_data_routes(store), _changes_route(store, closing)],
        limits=BodyLimits(max_bytes=1 << 10),
        cookies=True,
    )


def _page_routes() -> Sequence[BaseRoute]:
    """Return a route for each file of the page: no path is ever made from a request."""
    found = {
        file.name: file.read_bytes() for file in files("agentfly.serve").joinpath("page").iterdir()
    }
    routes = {f"/page/{name}": name for name in found} | {"/": "index.html"}
    return [
        Route(path, partial(_send_file, found[name], _TYPES[Path(name).suffix]))
        for path, name in routes.items()
        if Path(name).suffix in _TYPES
    ]


async def _send_file(body: bytes, media_type: str, request: Request) -> Response:
    del request
    return Response(body, HTTPStatus.OK, HEADERS, f"{media_type}; charset=utf-8")


def _data_routes(store: RunStore) -> Sequence[BaseRoute]:
    def data(path: str, make: Callable[[RunStore, Request], object]) -> Route:
        async def endpoint(request: Request) -> Response:
            def work() -> bytes:
                return dump(make(store, request))

            return json_bytes(await run_in_thread(work, name=path, seconds=SECONDS))

        return Route(path, endpoint)

    return [
        data("/api/runs", _runs),
        data("/api/runs/{name}", _run),
        data("/api/runs/{name}/metrics", _metrics),
        data("/api/runs/{name}/settings", _settings),
        data("/api/runs/{name}/chains", _chains),
        data("/api/runs/{name}/chain", _chain),
        data("/api/runs/{name}/group", _group),
        data("/api/runs/{name}/ask/{question}", _answer),
    ]


def _changes_route(store: RunStore, closing: threading.Event) -> Route:
    async def endpoint(request: Request) -> Response:
        del request
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        stream = changes(store, closing)
        return StreamingResponse(stream, headers=headers, media_type="text/event-stream")

    return Route("/api/changes", endpoint)


def _runs(store: RunStore, request: Request) -> object:
    del request
    rows = [run_row(name, path) for name, path in store.paths().items()]
    rows.sort(key=lambda row: row["updated"], reverse=True)
    return {"folder": str(store.folder), "runs": rows}


def _open(store: RunStore, request: Request) -> OpenRun:
    return store.find(request.path_params["name"])


def _run(store: RunStore, request: Request) -> object:
    return overview_json(request.path_params["name"], _open(store, request).path)


def _metrics(store: RunStore, request: Request) -> object:
    since = request.query_params.get("since", "0")
    return metrics_json(_open(store, request).run, int(since) if since.isdecimal() else 0)


def _settings(store: RunStore, request: Request) -> object:
    return settings_json(_open(store, request).run)


def _chains(store: RunStore, request: Request) -> object:
    opened = _open(store, request)
    query = ChainQuery.read(request.query_params)
    # The first rows at once are better than many later: the page asks again for the rest.
    is_first = next(opened.index.rows(), None) is None
    opened.index.refresh(WORK_SECONDS, rows=int(query.limit) if is_first else None)
    entries = list(opened.index.rows())
    selected, searched = query.select(entries), 1.0
    if query.text:
        search = opened.search(query.text)
        search.extend(WORK_SECONDS)
        searched, found = search.share, set(search.found)
        selected = [e for e in selected if (e[0].path.name, e[1].chain_id) in found]
    return {
        "rows": [row_json(*entry) for entry in query.page(selected)],
        "total": len(selected),
        "all": len(entries),
        "indexed": opened.index.share,
        "searched": searched,
        "problems": opened.index.problems,
        "choices": choices(entries),
    }


def _chain(store: RunStore, request: Request) -> object:
    opened = _open(store, request)
    file, chain = request.query_params.get("file", ""), request.query_params.get("chain", "")
    _index_file(opened, file)
    entry = _entry(opened, file, chain)
    found = opened.index.read(entry[0].path.name, chain)
    if found is None:
        raise _missing(f"{file} has changed: chain {chain[:100]!r} can't be read any more")
    siblings = [row_json(*e) for e in _members(opened, entry[0], entry[1].group_id)]
    return {**chain_json(found, entry[0], opened.run, opened.decoder), "siblings": siblings}


def _group(store: RunStore, request: Request) -> object:
    opened = _open(store, request)
    named = _stem(request.query_params.get("file", ""))
    _index_file(opened, named)
    group = request.query_params.get("group", "")
    entries = list(opened.index.rows())
    file = next((file for file, _ in entries if _stem(file.path.name) == named), None)
    members = _members(opened, file, group) if file else []
    if file is None or not members:
        raise _missing(f"there is no group {group[:100]!r} in {named[:100]!r}")
    found = [opened.index.read(file.path.name, row.chain_id) for _, row in members[:MAX_GROUP]]
    shown = [chain_json(chain, file, opened.run, opened.decoder) for chain in found if chain]
    return {"group": group, "step": file.step, "chains": shown, "count": len(members)}


def _index_file(opened: OpenRun, file: str) -> None:
    """Index a file until its chains can be looked up; a link may lead to one never listed."""
    opened.index.refresh(SECONDS / 2, file=_stem(file))


def _entry(opened: OpenRun, file: str, chain: str) -> Entry:
    """Return a chain's row; a step's file is compacted at its end, and its name with it."""
    stem = _stem(file)
    for entry in opened.index.rows():
        if entry[1].chain_id == chain and stem in ("", _stem(entry[0].path.name)):
            return entry
    raise _missing(f"there is no chain {chain[:100]!r} in {file[:100]!r}")


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _members(opened: OpenRun, file: ChainFile, group: str) -> list[Entry]:
    rows = opened.index.rows()
    return [e for e in rows if e[0].path == file.path and e[1].group_id == group]


def _answer(store: RunStore, request: Request) -> object:
    opened = _open(store, request)
    name = request.path_params["question"]
    if name not in QUESTIONS:
        raise _missing(f"unknown question {name[:50]!r}. {suggestion(name, list(QUESTIONS))}")
    opened.index.refresh(WORK_SECONDS)
    entries = list(opened.index.rows())
    step = request.query_params.get("step", "")
    last = max((file.step for file, _ in entries), default=0)
    since = int(step) if step.isdecimal() else last // 2
    answer: Mapping[str, Any] = QUESTIONS[name](entries, since).json()
    return {**answer, "step": since, "last_step": last, "indexed": opened.index.share}


def _missing(message: str) -> RefusalError:
    return RefusalError(HTTPStatus.NOT_FOUND, "NotFound", message)
