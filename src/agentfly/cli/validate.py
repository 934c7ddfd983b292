"""`agentfly validate`: check that right answers get full marks from tools and rewards."""

import asyncio
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agentfly.agents.demonstrate import demonstrate
from agentfly.agents.source_parts import SourceParts, resolve_source
from agentfly.cli.answerable import missing_field, missing_requirement
from agentfly.cli.command import ENVIRONMENT_OPTION, cli_errors, read_options
from agentfly.cli.envs.selection import Options
from agentfly.cli.trust import Trust, require_trust
from agentfly.config import SourceSettings, import_named, is_import_path, load_settings
from agentfly.environments import EnvironmentDefinition, Player, Say, Scene, environment_names
from agentfly.environments.player import NoPlayerError
from agentfly.errors import ConfigError
from agentfly.observe.summary import SOLVED, failure_cause
from agentfly.runtime.names import suggestion
from agentfly.tasks import load_tasks
from agentfly.types import Task, Trajectory
from agentfly.types.short_text import count as count_of
from agentfly.types.short_text import shorten

NOT_VALIDATED = 2
"""Exit code where nothing is known to be wrong, but some tasks could not be attempted."""
MAX_NOTE = 200
"""Maximum characters of a note that a reward or a tool has left."""
MAX_NAMES = 10
"""Maximum number of names of tasks that were not attempted."""

_LAST_NAME = re.compile(r"'[^']*'$")
_NO_PLAYER = NoPlayerError.__name__
"""Cause of a chain that its player could not attempt."""


def validate(
    target: Annotated[
        str, typer.Argument(help="A run's TOML file, a built-in environment, or a task file.")
    ],
    options: Options = None,
    *,
    reward: Annotated[
        str | None, typer.Option(help="For a task file: a reward's name, or module:name.")
    ] = None,
    environment: Annotated[
        str | None, typer.Option(help="For a task file: the environment that it belongs to.")
    ] = None,
    answer: Annotated[
        str, typer.Option(help="The field with the right answer, where no environment provides it.")
    ] = "answer",
    count: Annotated[int | None, typer.Option(min=1, help="Only the first tasks.")] = None,
    concurrent: Annotated[int, typer.Option(min=1, help="Maximum number of tasks at once.")] = 8,
    trust: Trust = False,
) -> None:
    """Check that correct answers get the full reward, and list the tasks that fail.

    A built-in environment plays its own solutions; otherwise the correct answer of the task is the
    final response. A model can't learn a task whose correct answer does not get the full reward.
    The exit code is 1 if a task fails, and 2 if tasks could not be attempted: a reward that reads
    the state of an environment of your own needs a scripted player, not an answer, and a player may
    not know every task.

    \b
        agentfly validate code tasks=programs
        agentfly validate sums.toml
        agentfly validate sums.jsonl --reward numeric_match
    """  # noqa: D301 - a real \\b keeps lines apart
    with cli_errors():
        failed = total = unplayable = 0
        for source, base in _sources(target, options or [], reward, environment, trust=trust):
            parts = resolve_source(source, base=base)
            _require_reward(parts, target)
            tasks = read_tasks(parts, count)
            if (needed := missing_requirement(parts, tasks, answer)) is not None:
                typer.echo(f"source {source.name!r} {needed}", err=True)
                unplayable += len(tasks)
                continue
            lacking = {
                task.id: text for task in tasks if (text := missing_field(task, parts, answer))
            }
            _print_reasons(lacking)
            whole = [task for task in tasks if task.id not in lacking]
            unsolved, refused = _attempt(parts, _gold(parts, answer), whole, concurrent)
            unchecked = [chain for chain in unsolved if failure_cause(chain) == _NO_PLAYER]
            bad = [chain for chain in unsolved if failure_cause(chain) != _NO_PLAYER]
            _print_failures(bad)
            _print_reasons(refused)
            _print_unchecked(unchecked)
            unplayed = lacking | refused
            failed += len(bad) + sum(task.id in unplayed for task in tasks)
            total += len(tasks) - len(unchecked)
            unplayable += len(unchecked)
        if not total and unplayable:
            raise typer.Exit(NOT_VALIDATED)
        if not total:
            raise ConfigError(f"{target} has no tasks: there is nothing to validate")
    typer.echo(f"{total - failed} of {total} tasks get full marks with their right answers")
    raise typer.Exit(1 if failed else NOT_VALIDATED if unplayable else 0)


def _print_unchecked(chains: Sequence[Trajectory]) -> None:
    """Print why tasks were not attempted, grouping reasons that differ only in the last name."""
    causes: dict[str, list[str]] = {}
    for chain in chains:
        reason = (chain.error or "").removeprefix(f"{_NO_PLAYER}: ")
        named = _LAST_NAME.search(reason)
        name = named[0] if named else ""
        causes.setdefault(reason.removesuffix(name), []).append(name)
    for cause, names in causes.items():
        distinct = list(dict.fromkeys(names))
        more = f" and {len(distinct) - MAX_NAMES} more" if len(distinct) > MAX_NAMES else ""
        were = "was" if len(names) == 1 else "were"
        typer.echo(
            f"{cause}{', '.join(distinct[:MAX_NAMES])}{more}: "
            f"{count_of(len(names), 'task')} {were} not checked",
            err=True,
        )


def _sources(
    target: str,
    options: list[str],
    reward: str | None,
    environment: str | None,
    *,
    trust: bool,
) -> Iterator[tuple[SourceSettings, Path | None]]:
    if target.endswith(".toml"):
        _refuse_for_a_run(options, reward, environment)
        settings = load_settings(Path(target))
        require_trust(settings, Path(target), trust=trust)
        for source in settings.source:
            yield source, Path(target).parent
        return
    known = target in environment_names() or is_definition(target)
    if not known and not is_import_path(target) and not Path(target).exists():
        raise unknown_source(target)
    source = SourceSettings(
        environment=target if known else environment,
        options=read_options(options, ENVIRONMENT_OPTION),
        tasks=None if known else target,
        reward=reward,
    )
    yield source, None


def unknown_source(name: str) -> ConfigError:
    """Return the error for a name that is neither a file of tasks nor an environment."""
    known = suggestion(name, environment_names())
    return ConfigError(f"there is no file and no environment {name!r}. {known}")


def missing_reward(tasks: object) -> ConfigError:
    """Return the error for tasks whose answers nothing can score."""
    return ConfigError(
        f"there is no reward for {tasks}: name one with --reward, or an environment with "
        "--environment"
    )


def is_definition(target: str) -> bool:
    """Return whether a `module:name` is an environment, not a function that returns rows."""
    if not is_import_path(target) or Path(target).exists():
        return False
    return isinstance(import_named(target, "environment or function"), EnvironmentDefinition)


def _refuse_for_a_run(options: list[str], reward: str | None, environment: str | None) -> None:
    if options or reward or environment:
        raise ConfigError(
            "the TOML file of a run already names its rewards, environments and options: leave "
            "them out here, or change the file"
        )


def read_tasks(parts: SourceParts, count: int | None) -> list[Task]:
    """Read the first tasks; held-out ones only if those to train on are not enough."""
    tasks = load_tasks(parts.tasks)
    if count is None or len(tasks) < count:
        tasks = [*tasks, *load_tasks(parts.eval_tasks)]
    return list(tasks[:count])


def _require_reward(parts: SourceParts, target: str) -> None:
    if parts.reward is None and parts.environment is None:
        raise missing_reward(target)


def _print_reasons(reasons: Mapping[str, str]) -> None:
    for name, text in reasons.items():
        typer.echo(f"  {name}: {text}")


def _gold(parts: SourceParts, field: str) -> Player:
    """Return a player of the environment's gold path, or else of the task's right answer."""
    own = parts.kit and (parts.kit.gold or parts.kit.expert)
    return own or _answering(field)


def _answering(field: str) -> Player:
    def give_answer(scene: Scene) -> Generator[Say, str, None]:
        value = scene.task.fields[field]
        yield Say(str(value[0] if isinstance(value, list) else value))

    return give_answer


def _attempt(
    parts: SourceParts, gold: Player, tasks: Sequence[Task], concurrent: int
) -> tuple[list[Trajectory], dict[str, str]]:
    """Return the chains that did not get full marks, and why tasks were refused, by their ids."""
    chains: dict[str, Trajectory] = {}
    refused: dict[str, str] = {}
    left = list(tasks)
    with typer.progressbar(length=len(tasks), file=sys.stderr) as bar:

        def keep(chain: Trajectory) -> None:
            chains[chain.task.id] = chain
            bar.update(1)

        play = partial(_play, parts, gold, concurrent, keep)
        while left:
            play(left)
            left = [task for task in left if task.id not in chains]
            # One of those that were just being attempted was refused, and none of them has ended:
            # they are the first that are left, and each of them alone shows which one it was.
            for task in left[:concurrent]:
                if error := play([task]):
                    refused[task.id] = str(error)
                    bar.update(1)
            left = left[concurrent:]
    attempted = [chains[task.id] for task in tasks if task.id in chains]
    return [one for one in attempted if one.reward is None or one.reward < SOLVED], refused


def _play(
    parts: SourceParts,
    gold: Player,
    concurrent: int,
    keep: Callable[[Trajectory], None],
    tasks: Sequence[Task],
) -> ConfigError | None:
    """Attempt tasks; return the mistake in one of them, which stops the others too."""
    attempts = demonstrate(parts, gold, tasks, max_concurrent=concurrent, on_trajectory=keep)
    try:
        asyncio.run(attempts)
    except ConfigError as error:
        return error
    return None


def _print_failures(bad: Sequence[Trajectory]) -> None:
    for chain in bad:
        reward = "unscored" if chain.reward is None else f"reward {chain.reward:g}"
        details = _notes(chain) or _low_parts(chain)
        why = f": {chain.error}" if chain.error else f" ({chain.stop}){details}"
        typer.echo(f"  {chain.task.id}: {reward}{why}")


def _notes(chain: Trajectory) -> str:
    """Return the texts in a chain's metadata, such as the judge's first problem with its code."""
    notes = ((key, note) for key, note in chain.metadata.items() if isinstance(note, str))
    return "".join(f"; {key}: {shorten(note, MAX_NOTE)}" for key, note in notes)


def _low_parts(chain: Trajectory) -> str:
    """Return the parts of a chain's reward that are below full marks."""
    parts = chain.score.parts if chain.score else {}
    low = [f"{name} {value:g}" for name, value in parts.items() if value < SOLVED]
    return f": {', '.join(low)}" if low else ""
