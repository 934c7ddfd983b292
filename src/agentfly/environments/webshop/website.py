"""The shop as a website for people, with the agent's view next to it and the expert on request."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.visit import Visit, Visits
from agentfly.environments.webshop.website_html import message_page, visit_page
from agentfly.runtime.http.address import Listen
from agentfly.runtime.http.guard import Application, BodyLimits
from agentfly.runtime.http.messages import RefusalError, run_in_thread
from agentfly.runtime.http.server import serving_in_thread

MAX_BODY = 1 << 16
"""Maximum bytes of a form."""
SECONDS = 60.0
"""Time limit of one request; the expert plays to the end in less."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
"""Content security policy: no script runs and nothing is fetched, even if a product has HTML."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_METHODS = ("GET", "POST")


@contextmanager
def shop_site(options: WebShopOptions, listen: Listen | None = None) -> Iterator[str]:
    """Serve the shop in the background; yield its address, which carries the token."""
    site = Application(
        routes=_routes(Visits(options)),
        limits=BodyLimits(max_bytes=MAX_BODY),
        render=_refusal_page,
        cookies=True,
    )
    with serving_in_thread(site, listen or Listen()) as address:
        yield address


def _routes(visits: Visits) -> Sequence[BaseRoute]:
    """Return the routes: GET returns a page, POST performs an action and redirects to its page."""

    async def begin(request: Request) -> Response:
        visit = await run_in_thread(visits.begin, name="begin a visit", seconds=SECONDS)
        return await _after(visit, request)

    async def go_on(request: Request) -> Response:
        visit = visits.find(request.path_params["visit"])
        if visit is None:
            raise RefusalError(HTTPStatus.NOT_FOUND, "NoVisit", "")
        if request.method == "POST":
            return await _after(visit, request)
        page = await run_in_thread(partial(visit_page, visit), name="a page", seconds=SECONDS)
        return _page(page)

    return [
        Route("/", begin, methods=_METHODS),
        Route("/visits/{visit}", go_on, methods=_METHODS),
    ]


async def _after(visit: Visit, request: Request) -> Response:
    """Perform the action of a form, then redirect to the page of the visit."""
    sent = (await request.body()).decode(errors="replace")
    form = {name: values[-1] for name, values in parse_qs(sent, keep_blank_values=True).items()}
    await run_in_thread(partial(_do, visit, form), name="an action", seconds=SECONDS)
    return RedirectResponse(f"/visits/{visit.id}", HTTPStatus.SEE_OTHER, _HEADERS)


def _do(visit: Visit, form: dict[str, str]) -> None:
    """Perform the action of a form; the form "Another goal" has none."""
    match form:
        case {"query": query}:
            visit.act(f"search[{query}]")
        case {"expert": "step"}:
            visit.let_expert_act()
        case {"expert": "game"}:
            visit.let_expert_finish()
        case {"action": action} if action:
            visit.act(action)


def _refusal_page(refusal: RefusalError) -> Response:
    no_page = refusal.status == HTTPStatus.NOT_FOUND
    message = "There is no such page or session." if no_page else str(refusal)
    return _page(message_page(message), refusal.status, refusal.headers)


def _page(
    page: str, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    body = page.encode(errors="replace")
    return Response(body, status, {**_HEADERS, **(headers or {})}, "text/html")
