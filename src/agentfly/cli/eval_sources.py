"""Sources of an evaluation as words of a command: environments with options, files, TOML files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentfly.agents.run_parts import make_agent
from agentfly.agents.source_parts import SourceParts, resolve_source
from agentfly.cli.command import ENVIRONMENT_OPTION, read_options, warn
from agentfly.cli.trust import require_trust
from agentfly.cli.validate import is_definition, missing_reward, unknown_source
from agentfly.config import (
    EvalSettings,
    RunSettings,
    SourceSettings,
    is_import_path,
    load_settings,
)
from agentfly.config.settings_file import validated
from agentfly.environments import environment_names
from agentfly.errors import ConfigError
from agentfly.evaluation import EvaluatedSource
from agentfly.evaluation.checkpoint_names import NamedCheckpoints
from agentfly.evaluation.run_sources import examples_of
from agentfly.observe.recorded_run import RecordedRun
from agentfly.tasks import Rows, load_tasks
from agentfly.tasks.task_loading import HUB, disambiguate_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts of task files that are given as options of the command."""

    tools: tuple[str, ...] = ()
    reward: str | None = None
    environment: str | None = None
    kind: str = "tools"
    system_prompt: str | None = None

    @property
    def given(self) -> bool:
        """Whether any of them is."""
        return self != Parts()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSources:
    """Tables of sources, the folder of their modules, and the run settings that they came with."""

    tables: tuple[SourceSettings, ...]
    bases: tuple[Path | None, ...]
    settings: RunSettings | None = field(default=None)
    as_trained: bool = False
    """Whether they are attempted as in the model's own run, worked examples included."""

    @property
    def seed(self) -> int:
        """Seed of the settings that they came with, so that a run's attempts are repeated; or 0."""
        return self.settings.seed if self.settings else 0

    @property
    def _limits(self) -> EvalSettings:
        return self.settings.eval if self.settings else EvalSettings()

    def read(self, tasks: str, count: int | None) -> list[EvaluatedSource]:
        """Resolve every source and read its tasks.

        Without a count, held-out tasks are limited as in the run's own evaluations.
        """
        found = [
            _read(table, base, tasks, count, self._limits)
            for table, base in zip(self.tables, self.bases, strict=True)
        ]
        every = disambiguate_ids([task for source in found for task in source.tasks])
        return [
            EvaluatedSource(
                name=source.name,
                agent=source.agent,
                tasks=tuple(task for task in every if task.source == source.name),
            )
            for source in found
        ]


def sources_for(
    given: list[str], parts: Parts, checkpoints: NamedCheckpoints | None, *, trust: bool
) -> ChosenSources:
    """Return the sources that follow the model on the command line, or those of its run.

    Raises:
        ConfigError: There are neither, or one is no source.
    """
    files = [word for word in given[1:] if Path(word).is_file() and Path(word).suffix != ".toml"]
    as_trained = checkpoints is not None and files == given[1:] and not parts.given
    if len(given) > 1 and not as_trained:
        _warn_untrained_prompt(checkpoints)
        return choose_sources(given[1:], parts, trust=trust)
    if checkpoints is None:
        raise ConfigError(
            f"name the tasks for {given[0]}: an environment (agentfly envs list), a "
            "file of tasks, or a run's TOML file"
        )
    return _sources_of(checkpoints.run, files, trust=trust)


def _sources_of(run: RecordedRun, files: list[str], *, trust: bool) -> ChosenSources:
    """Return a run's own sources; with a file, its source with the tasks of that file."""
    config = run.path / "config.toml"
    settings = validated(RunSettings, run.settings, (), str(config))
    tables = settings.source
    if not tables:
        raise ConfigError(
            f"the settings of {run.path} name no tasks, because code gave them to its trainer: "
            "name a source"
        )
    if files:
        if len(files) > 1 or len(tables) > 1:
            raise ConfigError(
                f"one file of tasks is attempted as {run.path} was trained, if that run has one "
                f"source: got {len(files)} files and {len(tables)} sources. Name --tools and "
                "--reward"
            )
        file = str(Path(files[0]).absolute())  # Other files are searched in the run's folder.
        tables = (tables[0].model_copy(update={"tasks": file, "eval_tasks": None}),)
    require_trust(settings, config, base=run.base, trust=trust)
    bases = (run.base,) * len(tables)
    return ChosenSources(tables=tables, bases=bases, settings=settings, as_trained=True)


def _warn_untrained_prompt(checkpoints: NamedCheckpoints | None) -> None:
    if checkpoints is not None and examples_of(checkpoints.run):
        warn(
            f"{checkpoints.run.path} was trained with a worked example before every "
            "conversation, and this evaluation shows none. With a file of tasks alone, without "
            "--tools, --reward, --kind and --system, the model is evaluated as it was trained"
        )


def choose_sources(words: Sequence[str], parts: Parts, *, trust: bool) -> ChosenSources:
    """Read the words after the model: each source, followed by its options `key=value`.

    Raises:
        ConfigError: One is no source, or the options of the command have nothing to apply to.
    """
    given = list(_with_options(words))
    if any(name.endswith(".toml") for name, _ in given):
        return _of_toml(given, parts, trust=trust)
    names = [_short_name(name) if len(given) > 1 else "default" for name, _ in given]
    tables = [
        _table(word, options, parts, name)
        for (word, options), name in zip(given, _distinct(names), strict=True)
    ]
    if parts.given and all(table.tasks is None for table in tables):
        raise ConfigError(
            "--tools, --reward, --kind, --environment and --system are for files of tasks: an "
            "environment has its own. Leave them out, or put both into a TOML file"
        )
    return ChosenSources(tables=tuple(tables), bases=(None,) * len(tables))


def _with_options(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each source with the options after it.

    >>> list(_with_options(["code", "tasks=programs", "sums.jsonl"]))
    [('code', ['tasks=programs']), ('sums.jsonl', [])]
    """
    name: str | None = None
    options: list[str] = []
    for word in words:
        if "=" in word and not Path(word).exists():
            if name is None:
                raise ConfigError(f"{word!r} is an option of a source, and no source is before it")
            options.append(word)
            continue
        if name is not None:
            yield name, options
        name, options = word, []
    if name is not None:
        yield name, options


def _of_toml(given: list[tuple[str, list[str]]], parts: Parts, *, trust: bool) -> ChosenSources:
    (file, overrides), *others = given
    if others or parts.given:
        raise ConfigError(
            f"{file} already names its tasks, tools and rewards: leave the others out, or write "
            "them into the file"
        )
    settings = load_settings(Path(file), overrides)
    require_trust(settings, Path(file), overrides=overrides, trust=trust)
    bases = (Path(file).parent,) * len(settings.source)
    return ChosenSources(tables=settings.source, bases=bases, settings=settings)


def _table(word: str, options: list[str], parts: Parts, name: str) -> SourceSettings:
    if word in environment_names() or is_definition(word):
        return SourceSettings(
            name=name, environment=word, options=read_options(options, ENVIRONMENT_OPTION)
        )
    if not Path(word).exists() and not is_import_path(word) and not word.startswith(HUB):
        raise unknown_source(word)
    if options and parts.environment is None:
        raise ConfigError(f"{options[0]!r} is an option of an environment, and {word} is a file")
    return SourceSettings(
        name=name,
        tasks=word,
        tools=parts.tools,
        reward=parts.reward,
        environment=parts.environment,
        options=read_options(options, ENVIRONMENT_OPTION),
        kind=parts.kind,
        system_prompt=parts.system_prompt,
        example="never",
    )


def _short_name(word: str) -> str:
    return Path(word).stem if Path(word).exists() else word


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names of which no two are equal.

    >>> _distinct(["code", "sums", "code"])
    ['code', 'sums', 'code-2']
    """
    found: list[str] = []
    for name in names:
        count = sum(one == name for one in names[: len(found)])
        found.append(f"{name}-{count + 1}" if count else name)
    return found


def _read(
    table: SourceSettings, base: Path | None, which: str, count: int | None, limits: EvalSettings
) -> EvaluatedSource:
    parts = resolve_source(table, base=base)
    _require_reward(parts, table)
    tasks = load_tasks(_rows(parts, which), source=table.name)[:count]
    if which == "held-out" and count is None:
        tasks = limits.select(tasks)
    if not tasks and which == "held-out" and table.eval_tasks is None:
        tasks = load_tasks(parts.tasks, source=table.name)[:count]
    if not tasks:
        raise ConfigError(f"source {table.name!r} has no {which} tasks: the list is empty")
    return EvaluatedSource(name=table.name, agent=make_agent(parts), tasks=tuple(tasks))


def _rows(parts: SourceParts, which: str) -> Rows:
    return parts.eval_tasks if which == "held-out" else parts.tasks


def _require_reward(parts: SourceParts, table: SourceSettings) -> None:
    if parts.reward is None and parts.group_reward is None and parts.environment is None:
        raise missing_reward(table.tasks)
