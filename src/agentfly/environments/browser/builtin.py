"""The browser as a built-in environment: its definition and its reward."""

from functools import partial
from typing import Any

from agentfly.environments.browser.chromium.window import require_window
from agentfly.environments.browser.environment import BrowserSession
from agentfly.environments.browser.options import BrowserOptions
from agentfly.environments.browser.players import expert, pointing_expert, random_player
from agentfly.environments.browser.tasks import held_out_rows, task_choices, training_rows
from agentfly.environments.browser.tools import browser_tools
from agentfly.environments.index import INDEX
from agentfly.environments.kit import EnvironmentDefinition, Kit
from agentfly.environments.player import Player
from agentfly.rewards import reward
from agentfly.types import EnvSpec, Reward

SYSTEM_PROMPT = (
    "You use a web browser. Pages are shown as numbered elements; act on them by their numbers, "
    "one action at a time, until the task is solved."
)
_UNUSED_BY_SESSIONS = frozenset(
    {"tasks", "held_out", "episodes", "eval_episodes", "rows", "eval_rows", "tools", "max_turns"}
)
"""Options that a session does not read: chains that differ only in these share instances."""


def outcome_reward(spec: EnvSpec, lowest: float) -> Reward:
    """Return the reward of a chain: how far its task is solved."""

    @reward(name="outcome", env=spec, range=(lowest, 1))
    def outcome(env: BrowserSession) -> dict[str, Any]:
        found = env.outcome
        parts = {"success": float(found.reward >= 1), "finished": float(found.done)}
        return {"reward": found.reward, **parts, **found.parts}

    return outcome


def make_browser(options: BrowserOptions) -> Kit:
    """Make the kit for one choice of options. A browser is started when it is first used."""
    if options.headed:
        require_window()
    choices = options.model_dump(
        mode="json", exclude_defaults=True, exclude=set(_UNUSED_BY_SESSIONS)
    )
    hashable = {
        name: tuple(value) if isinstance(value, list) else value for name, value in choices.items()
    }
    spec = EnvSpec(BrowserSession, tuple(sorted(hashable.items())))
    return Kit(
        tasks=partial(training_rows, options),
        eval_tasks=partial(held_out_rows, options),
        tools=browser_tools(spec, options.tools),
        reward=outcome_reward(spec, -1 if options.site == "miniwob" else 0),
        environment=spec,
        system_prompt=SYSTEM_PROMPT,
        max_turns=options.max_turns,
        expert=_expert(options),
        random=random_player(options.tools),
    )


def _expert(options: BrowserOptions) -> Player | None:
    if options.site == "own":
        return None
    return expert if options.numbers == "before" else pointing_expert


BROWSER = EnvironmentDefinition(
    name="browser",
    summary=INDEX["browser"].summary,
    options=BrowserOptions,
    make=make_browser,
    requires=INDEX["browser"].requires,
    names_of=task_choices,
)
