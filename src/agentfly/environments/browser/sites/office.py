"""The pages of the generated office: tables over several pages, records, forms."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from urllib.parse import urlsplit

from agentfly.environments.browser.address import AddressRules
from agentfly.environments.browser.site import Outcome, PageRequest, PageResponse, PageView
from agentfly.environments.browser.sites.office_data import (
    COLORS,
    KINDS,
    TEAMS,
    Item,
    Person,
    make_office,
)

HOST = "office.test"
ROWS_PER_PAGE = 10
_STYLE = "body{font:15px sans-serif;margin:24px}td,th{padding:2px 12px;text-align:left}"


class OfficeSite:
    """The office of one chain."""

    rules = AddressRules(served=frozenset({HOST}))
    hidden: tuple[str, ...] = ()
    start = f"http://{HOST}/"

    def __init__(self, kind: str, seed: int, level: str) -> None:
        self.office = make_office(kind, seed, level)

    async def begin(self, page: PageView) -> str:
        """Return the instruction."""
        del page
        return self.office.task.instruction

    async def check(self, page: PageView) -> Outcome:
        """Return the score of the form that was sent."""
        del page
        return Outcome(reward=self.office.score, done=self.office.sent is not None)

    def respond(self, request: PageRequest) -> PageResponse:
        """Return a page, or take a form."""
        if request.method == "POST":
            return self._take(request)
        parts = request.path.strip("/").split("/")
        if len(parts) == 2:
            return self._record(*parts)
        pages: Mapping[str, Callable[[], PageResponse]] = {
            "": lambda: _page("Office", "<p>Welcome to the office.</p>"),
            "staff": lambda: self._staff(request),
            "stock": lambda: self._stock(request),
            "request": _request,
            "answer": lambda: _form_page("Answer", "/answer", [_text("answer", "Answer")]),
            "done": lambda: _page("Thank you", "<p>Your form was sent.</p>"),
        }
        return pages.get(request.path.strip("/"), PageResponse.not_found)()

    def _record(self, table: str, number: str) -> PageResponse:
        place = int(number) if number.isascii() and number.isdigit() else -1
        if table == "staff" and 0 <= place < len(self.office.people):
            return _person(place, self.office.people[place])
        if table == "stock" and 0 <= place < len(self.office.stock):
            return _item(place, self.office.stock[place])
        return PageResponse.not_found()

    def _take(self, request: PageRequest) -> PageResponse:
        """Keep the first form that is sent: it ends the task."""
        if self.office.sent is None:
            self.office.sent = dict(request.form)
            self.office.sent_to = request.path
        return PageResponse.redirect(f"http://{HOST}/done")

    def _staff(self, request: PageRequest) -> PageResponse:
        rows = [
            (_link(f"/staff/{number}", one.name), escape(one.team), f"{one.room}")
            for number, one in enumerate(self.office.people)
        ]
        return _table("Staff", ("Name", "Team", "Room"), rows, request)

    def _stock(self, request: PageRequest) -> PageResponse:
        rows = [
            (_link(f"/stock/{number}", one.name), f"${one.price}", f"{one.amount} left")
            for number, one in enumerate(self.office.stock)
        ]
        return _table("Stock", ("Item", "Price", "Amount"), rows, request)


def _table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], request: PageRequest
) -> PageResponse:
    """Return one page of a table, with links to the ones before and after."""
    asked = request.query.get("page", "1")
    last = -(-len(rows) // ROWS_PER_PAGE)
    number = min(max(int(asked) if asked.isdigit() else 1, 1), last)
    shown = rows[(number - 1) * ROWS_PER_PAGE : number * ROWS_PER_PAGE]
    body = "".join(_row("td", row) for row in shown)
    path = urlsplit(request.url).path
    links = [_link(f"{path}?page={number - 1}", "Previous page")] if number > 1 else []
    links += [_link(f"{path}?page={number + 1}", "Next page")] if number < last else []
    return _page(
        f"{title}, page {number} of {last}",
        f"<table>{_row('th', head)}{body}</table><p>{' '.join(links)}</p>",
    )


def _person(number: int, person: Person) -> PageResponse:
    fields = [
        _select("team", "Team", TEAMS, person.team),
        _text("phone", "Phone", person.phone),
        _box("remote", "Works remotely", checked=person.remote),
    ]
    return _form_page(person.name, f"/staff/{number}", fields, f"<p>Room {person.room}</p>")


def _item(number: int, item: Item) -> PageResponse:
    about = f"<p>${item.price}, {item.amount} left</p>"
    return _form_page(item.name, f"/stock/{number}", [_text("amount", "Amount", "1")], about)


def _request() -> PageResponse:
    fields = [
        _text("name", "For whom"),
        _select("kind", "Kind", KINDS, KINDS[0]),
        _select("color", "Color", COLORS, COLORS[0]),
        _text("amount", "Amount"),
        _box("urgent", "Urgent", checked=False),
    ]
    return _form_page("Request", "/request", fields)


def _form_page(title: str, path: str, fields: Iterable[str], about: str = "") -> PageResponse:
    lines = "".join(f"<p>{field}</p>" for field in fields)
    form = f'<form method="post" action="{path}">{lines}<button>Send</button></form>'
    return _page(title, about + form)


def _text(name: str, label: str, value: str = "") -> str:
    return f'<label>{label} <input name="{name}" value="{escape(value)}"></label>'


def _select(name: str, label: str, options: Iterable[str], chosen: str) -> str:
    listed = "".join(
        f"<option{' selected' if one == chosen else ''}>{escape(one)}</option>" for one in options
    )
    return f'<label>{label} <select name="{name}">{listed}</select></label>'


def _box(name: str, label: str, *, checked: bool) -> str:
    state = " checked" if checked else ""
    return f'<label><input type="checkbox" name="{name}" value="yes"{state}> {label}</label>'


def _row(cell: str, values: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{value}</{cell}>' for value in values)}</tr>"


def _link(path: str, text: str) -> str:
    return f'<a href="{path}">{escape(text)}</a>'


def _page(title: str, body: str) -> PageResponse:
    menu = " ".join(
        _link(path, text)
        for path, text in (
            ("/staff", "Staff"),
            ("/stock", "Stock"),
            ("/request", "Request"),
            ("/answer", "Answer"),
        )
    )
    return PageResponse.html(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><nav>{menu}</nav><h1>{escape(title)}</h1>{body}</html>"
    )
