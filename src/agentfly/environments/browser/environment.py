"""The environment: one chain's context in a shared browser, with a task's site in it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, ClassVar, TypeVar

from agentfly.environments.browser.actions import ActionProblem, PageActions
from agentfly.environments.browser.chromium.browser import Browser
from agentfly.environments.browser.chromium.connection import BrowserLostError, ProtocolError
from agentfly.environments.browser.chromium.context import BrowserContext
from agentfly.environments.browser.chromium.filter_proxy import FilterProxy
from agentfly.environments.browser.chromium.pool import browser_pool
from agentfly.environments.browser.chromium.tab import (
    DocumentGoneError,
    PageStuckError,
    Tab,
)
from agentfly.environments.browser.display import Display
from agentfly.environments.browser.options import BrowserOptions
from agentfly.environments.browser.site import Outcome, ScriptError, Site
from agentfly.environments.browser.sites import make_site
from agentfly.environments.browser.snapshot import Snapshot, name_page
from agentfly.errors import EnvError
from agentfly.resources import ClientOptions, Pooling
from agentfly.runtime.background import in_background
from agentfly.runtime.threads import shared_threads
from agentfly.types import Seed, Step, Task

OVER = "The task is over."
RESET_SECONDS = 180.0
"""Time limit of a reset, a new browser and a site's first preparation included."""
STEP_SECONDS = 120.0
"""Time limit of a step. Everything in it is bounded by itself; this is for what was overlooked."""

FIRST_PAGE_PATIENCE = 5.0
"""Factor of a page's time limits while it is a task's first: without it there is no task, and many
chains begin at once."""

_PAGE_ERRORS = (PageStuckError, DocumentGoneError, ProtocolError, ScriptError)
"""Failures of a page, after which it is left; the browser goes on."""

T = TypeVar("T")


class BrowserSession:
    """A browser for one chain: tabs, cookies and storage of its own.

    Takes the fields of `BrowserOptions`: `BrowserSession(part_chars=2000)`. After a reset and
    after every step, `outcome` says how far the task is solved.
    """

    pooling: ClassVar[Pooling] = Pooling(
        max_instances=64, memory_mb=150, reset_seconds=RESET_SECONDS, call_seconds=STEP_SECONDS
    )
    client_options: ClassVar[ClientOptions] = {
        "changes_only": (False, True),
        "numbers": ("before", "after"),
        "part_chars": tuple(range(200, 20_001, 100)),
    }

    def __init__(self, **choices: Any) -> None:
        self.options = BrowserOptions(**choices)
        self.outcome = Outcome()
        self._resources = AsyncExitStack()
        self._context: BrowserContext | None = None
        self._browser: Browser | None = None
        self._proxy: FilterProxy | None = None
        self._site: Site | None = None
        self._tab: Tab | None = None
        self._display = self._new_display()
        # A step that timed out may still be ending in the background when the next one begins.
        self._lock = asyncio.Lock()

    # ------------------------------------------------------------------ life

    async def reset(self, task: Task, seed: Seed) -> Step:
        """Open a task's first page in a new context. The seed is unused: the row has its own."""
        del seed
        return await _in_background(self._reset(task), RESET_SECONDS, "opening the task's page")

    async def close(self) -> None:
        """Close the context, and forget everything in it."""
        await _in_background(self._leave(), STEP_SECONDS, "closing the context")

    def healthy(self) -> bool:
        """Return whether the browser lives."""
        return self._browser is None or self._browser.lost is None

    async def _reset(self, task: Task) -> Step:
        async with self._lock:
            await self._leave()
            making = partial(make_site, task.fields, self.options)
            self._site = await shared_threads().run(making, name="make a site")
            await self._enter(self._site)
            instruction = await self._first_page(self._site)
            shown = await self._observe()
            self.outcome = await self._site.check(self._view)
            lines = [f"Task: {instruction}", *self._notes(), shown]
            return Step(observation="\n".join(lines), state_key=self._display.state_key)

    async def _enter(self, site: Site) -> None:
        """Lease a context in which only this site can be reached."""
        browser = self._browser = browser_pool().acquire(headed=self.options.headed)
        self._resources.callback(browser_pool().release, browser)
        if site.rules.allowed:
            proxy = FilterProxy(site.rules)
            self._proxy = await self._resources.enter_async_context(proxy)
        context = await browser.open_context(self._proxy.address if self._proxy else None)
        self._resources.push_async_callback(browser.close_context, context)
        context.site, self._context, self._tab = site, context, context.tabs[0]

    async def _first_page(self, site: Site) -> str:
        """Open the first page and begin its task; EnvError if it can't be opened."""
        tab = self._page
        tab.patience = FIRST_PAGE_PATIENCE
        try:
            problem = await tab.navigate(site.start)
            await tab.settled()
            problem = self._refusal(site.start) or problem
            if problem is None:
                return await site.begin(self._view)
        except _PAGE_ERRORS as error:
            problem = self._refusal(site.start) or str(error)
        finally:
            tab.patience = 1.0
        self._raise_failure()
        raise EnvError(f"the task's first page {site.start} can't be opened: {problem}")

    def _refusal(self, url: str) -> str | None:
        """Return that the server of an address does not run, None if that is not known."""
        return self._proxy.refusal(url) if self._proxy else None

    async def _leave(self) -> None:
        resources, self._resources = self._resources, AsyncExitStack()
        self._context = self._site = self._tab = self._browser = self._proxy = None
        self._display, self.outcome = self._new_display(), Outcome()
        await resources.aclose()

    # ------------------------------------------------------------------ actions

    async def open(self, url: str) -> Step:
        """Open an address."""
        return await self._act(lambda page: page.open(url))

    async def click(self, id: int) -> Step:
        """Click an item of the page."""
        return await self._act(lambda page: page.click(id))

    async def type(self, id: int, text: str) -> Step:
        """Type text into a field, over what is in it."""
        return await self._act(lambda page: page.type(id, text))

    async def select(self, id: int, option: str) -> Step:
        """Choose an option of a list."""
        return await self._act(lambda page: page.select(id, option))

    async def press(self, key: str, id: int | None = None) -> Step:
        """Press a key, in an item or where the focus is."""
        return await self._act(lambda page: page.press(key, id))

    async def scroll(self, down: bool = True, id: int | None = None) -> Step:  # noqa: FBT001, FBT002
        """Show the next or the previous part of the page, or scroll inside an item."""
        if id is not None:
            return await self._act(lambda page: page.scroll(id, down=down))
        return await self._act(
            lambda page: self._turn_part(1 if down else -1), whole=True, keep_part=True
        )

    async def back(self) -> Step:
        """Go back to the page before."""
        return await self._act(lambda page: page.back())

    async def read(self, id: int | None = None) -> Step:
        """Show the page as it is now, or the whole text of an item."""
        if id is None:
            return await self._act(_nothing, whole=True, keep_part=True)
        return await self._act(lambda page: page.read(id))

    async def tabs(self, number: int | None = None) -> Step:
        """List the open tabs, or go to one of them."""
        return await self._act(lambda page: self._choose_tab(number))

    async def screenshot(self) -> bytes | None:
        """Return the visible part of the page as a PNG; None if the page is stuck and was left."""
        return await _in_background(self._screenshot(), STEP_SECONDS, "taking a screenshot")

    # ------------------------------------------------------------------ one step

    async def _screenshot(self) -> bytes | None:
        async with self._lock:
            tab = self._page
            try:
                return await tab.screenshot()
            except _PAGE_ERRORS as error:
                await self._replace([tab], error)
                return None

    async def _act(
        self,
        action: Callable[[PageActions], Awaitable[str | None]],
        *,
        whole: bool = False,
        keep_part: bool = False,
    ) -> Step:
        work = self._step(action, whole=whole, keep_part=keep_part)
        return await _in_background(work, STEP_SECONDS, "acting in the browser")

    async def _step(
        self,
        action: Callable[[PageActions], Awaitable[str | None]],
        *,
        whole: bool,
        keep_part: bool,
    ) -> Step:
        async with self._lock:
            if self.outcome.done:
                return Step(observation=OVER, done=True)
            tab = self._page
            tab.dialogs = 0
            display = self._display
            invalid, said, before = False, None, display.part
            display.part = before if keep_part else 0
            try:
                said = await action(PageActions(tab, display.page, self._site_now))
            except ActionProblem as problem:
                invalid, said, display.part = True, str(problem), before
            except _PAGE_ERRORS as error:
                await self._replace([tab], error)
            return await self._answer(said, invalid=invalid, whole=whole)

    async def _answer(self, said: str | None, *, invalid: bool, whole: bool) -> Step:
        """Observe the page after an action, and check how far the task is solved."""
        seen = self._display.page
        shown = await self._observe(whole=whole)
        self._raise_failure()
        if not await self._check():
            shown = await self._observe(whole=True)
        done = self.outcome.done
        lines = [said] if said else []
        lines += self._notes()
        if done:
            lines.append(OVER)
        elif not invalid or self._display.page != seen:
            lines.append(shown)
        return Step(
            observation="\n".join(lines),
            reward=self.outcome.reward if done else 0.0,
            done=done,
            state_key=self._display.state_key,
            invalid=invalid,
        )

    async def _observe(self, *, whole: bool = False) -> str:
        """Wait until the page settles; return it as text."""
        tab = self._page
        try:
            listed = await tab.items(self._site_now.hidden)
        except _PAGE_ERRORS as error:
            await self._replace([tab], error)
            listed = await self._items_elsewhere()
        text = self._display.show(Snapshot.from_page(listed, self.options.numbers), whole=whole)
        tabs = self._context_now.tabs
        return f"Tab {tabs.index(self._page) + 1} of {len(tabs)}. {text}" if len(tabs) > 1 else text

    async def _items_elsewhere(self) -> Mapping[str, Any]:
        """Return the items of another tab; if its page is stuck too, those of a blank one."""
        try:
            return await self._page.items(self._site_now.hidden)
        except _PAGE_ERRORS as error:
            # One of them may keep all others busy, for example by opening more.
            await self._replace(self._context_now.tabs, error)
            return await self._page.items(())

    def _notes(self) -> list[str]:
        return self._context_now.take_notes()

    async def _check(self) -> bool:
        """Check how far the task is solved; return False if the page is stuck and was left."""
        tab = self._page
        try:
            self.outcome = await self._site_now.check(self._view)
        except (DocumentGoneError, ProtocolError):
            pass  # The page is just changing: it is checked after the next step.
        except (PageStuckError, ScriptError) as error:
            await self._replace([tab], error)
            return False
        return True

    async def _turn_part(self, by: int) -> str | None:
        first = self._display.turn(by)
        if first is None:
            where = "last" if by > 0 else "first"
            raise ActionProblem(f"This is the {where} part of the page.")
        await self._page.run("show", first)
        return None

    async def _choose_tab(self, number: int | None) -> str | None:
        tabs = self._context_now.tabs
        if number is None:
            titles = [await _title(tab) for tab in tabs]
            here = tabs.index(self._page)
            return "\n".join(
                f"Tab {place + 1}{' (here)' if place == here else ''}: {title}"
                for place, title in enumerate(titles)
            )
        if not 1 <= number <= len(tabs):
            raise ActionProblem(f"There is no tab {number}: there are {len(tabs)}.")
        self._tab = tabs[number - 1]
        return None

    async def _replace(self, tabs: Sequence[Tab], error: Exception) -> None:
        """Leave pages that are stuck: go to another tab, or to a blank one."""
        context = self._context_now
        self._require_browser()
        context.note(f"The page was left: {error}.")
        for tab in tuple(tabs):
            context.drop(tab)
        if not context.tabs:
            await context.new_tab()
        self._tab = context.tabs[-1]

    # ------------------------------------------------------------------ state

    def _require_browser(self) -> None:
        if self._browser is not None and self._browser.lost is not None:
            raise BrowserLostError(self._browser.lost)

    def _raise_failure(self) -> None:
        self._require_browser()
        if failure := self._context_now.failure:
            raise failure

    def _new_display(self) -> Display:
        options = self.options
        return Display(part_chars=options.part_chars, changes_only=options.changes_only)

    @property
    def _page(self) -> Tab:
        context = self._context_now
        if self._tab is None or self._tab.closed or self._tab not in context.tabs:
            self._require_browser()
            if not context.tabs:
                raise EnvError("the browser has no tab left")
            self._tab = context.tabs[-1]
        return self._tab

    @property
    def _view(self) -> "TabView":
        shown = self._display.page
        return TabView(self._page, shown.url if shown else "")

    @property
    def _context_now(self) -> BrowserContext:
        if self._context is None:
            raise EnvError("no task is open: call reset(task, seed) first")
        return self._context

    @property
    def _site_now(self) -> Site:
        if self._site is None:
            raise EnvError("no task is open: call reset(task, seed) first")
        return self._site


class TabView:
    """A tab as the checks of sites see it."""

    def __init__(self, tab: Tab, url: str) -> None:
        self._tab = tab
        self.url = url

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page's own world."""
        return await self._tab.evaluate(expression)

    async def syntax_error(self, expression: str) -> str | None:
        """Return why an expression can't be compiled, None if it can."""
        return await self._tab.syntax_error(expression)

    async def text(self) -> str:
        """Return the visible text."""
        return str((await self._tab.run("text", None, None))["text"])


async def _title(tab: Tab) -> str:
    try:
        found = await tab.run("title")
        return name_page(found["title"], found["url"])
    except _PAGE_ERRORS:
        return "it does not answer"


async def _nothing(_: PageActions) -> str | None:
    return None


async def _in_background(work: Coroutine[Any, Any, T], seconds: float, doing: str) -> T:
    """Run a coroutine on the browsers' event loop, whatever loop this is."""
    return await asyncio.wrap_future(in_background(_bounded(work, seconds, doing)))


async def _bounded(work: Coroutine[Any, Any, T], seconds: float, doing: str) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise EnvError(f"{doing} took more than {seconds:g} s") from None
    except _PAGE_ERRORS as error:
        raise EnvError(f"{doing} failed: {error}") from error
