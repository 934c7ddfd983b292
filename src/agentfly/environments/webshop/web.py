"""The shop as a site to click through or to watch the expert in, with the agent's view beside."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from urllib.parse import parse_qs

from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.visit import Visit, Visits
from agentfly.environments.webshop.web_page import message_page, visit_page
from agentfly.runtime.http_server import Handler, listening

MAX_BODY = 1 << 16
"""A form has fewer bytes than this."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
"""No script runs and nothing is fetched, whatever a product's text says."""

_log = logging.getLogger(__name__)


def serve_shop(options: WebShopOptions, host: str = "127.0.0.1", port: int = 8701) -> None:
    """Serve the shop until this is interrupted. There is no password."""
    with shop_site(options, host, port) as address:
        _log.warning("the shop is open at %s", address)
        threading.Event().wait()


@contextmanager
def shop_site(options: WebShopOptions, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve the shop in the background; yield its address. Port 0 means any that is free."""
    with listening(_Handler, host=host, port=port, visits=Visits(options)) as address:
        yield address


class _Handler(Handler):
    """One connection: a page for GET, an action and a redirection to its page for POST."""

    visits: Visits

    def do_GET(self) -> None:
        if self.path == "/":
            self._redirect(self.visits.begin())
            return
        visit = self._visit()
        if visit is not None:
            self._send(HTTPStatus.OK, visit_page(visit))

    def do_POST(self) -> None:
        form = self._form()
        if form is None:
            return
        visit = self.visits.begin() if self.path == "/" else self._visit()
        if visit is None:
            return
        _do(visit, form)
        self._redirect(visit)

    def _visit(self) -> Visit | None:
        """Find the visit of this address, or say that there is none."""
        start, _, visit_id = self.path.rpartition("/")
        visit = self.visits.find(visit_id) if start == "/visits" else None
        if visit is None:
            self._send(HTTPStatus.NOT_FOUND, message_page("There is no such page or session."))
        return visit

    def _form(self) -> dict[str, str] | None:
        """Read what was sent, or say why it can't be."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.close_connection = True
            too_long = message_page(f"A request may have {MAX_BODY} bytes.")
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, too_long)
            return None
        sent = self.rfile.read(int(length)).decode(errors="replace")
        fields = parse_qs(sent, keep_blank_values=True)
        return {name: values[-1] for name, values in fields.items()}

    def _redirect(self, visit: Visit) -> None:
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", f"/visits/{visit.id}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, status: HTTPStatus, page: str) -> None:
        body = page.encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")  # Else it would be used again.
        self.end_headers()
        self.wfile.write(body)


def _do(visit: Visit, form: dict[str, str]) -> None:
    """Do what a button asks for; "Another goal" asks for nothing more."""
    match form:
        case {"query": query}:
            visit.act(f"search[{query}]")
        case {"expert": "step"}:
            visit.let_expert_act()
        case {"expert": "game"}:
            visit.let_expert_finish()
        case {"action": action} if action:
            visit.act(action)
