"""`agentfly eval`: how well a model does on tasks, with intervals."""

import asyncio
import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from agentfly.cli.command import TemplateOptions, cli_errors, read_options, resumable
from agentfly.cli.eval_compare import compare_evaluations
from agentfly.cli.eval_sources import ChosenSources, Parts, choose_sources
from agentfly.cli.trust import Trust
from agentfly.config import EngineSettings, RunSettings
from agentfly.config.evaluation_settings import (
    AttemptSettings,
    EvaluatedCheckpoint,
    EvaluatedModelSettings,
    EvaluationSettings,
    PriceSettings,
)
from agentfly.config.settings_file import validated
from agentfly.config.validation_errors import refuse_if_any
from agentfly.engines.factory import engine_problems
from agentfly.errors import ConfigError
from agentfly.evaluation import EvaluatedSource, EvaluationResult, evaluate
from agentfly.evaluation.checkpoint_names import (
    NamedCheckpoints,
    find_checkpoints,
    run_of_model,
)
from agentfly.evaluation.model_under_test import served_model
from agentfly.evaluation.overlap import find_overlap
from agentfly.evaluation.run_sources import examples_of, with_examples_of
from agentfly.observe.evaluation_table import show_curve, show_evaluation
from agentfly.observe.recorded_run import RUNS, RecordedRun


def eval_(  # noqa: PLR0913 - each is an option of the command
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL [SOURCE]...",
            help="MODEL: a built-in model, folder, hub id, http address of a chat server, or "
            "checkpoints of a run (runs/sums@best, @40, @all). SOURCE: an environment with its "
            "options (code tasks=programs), a file of tasks, or a run's TOML file; without any, "
            "the held-out tasks of MODEL's run. A file of tasks for a run is attempted as the run "
            "was trained: with its tools, reward, prompt and limits.",
            show_default=False,
        ),
    ] = None,
    *,
    tools: Annotated[
        str, typer.Option(help="For a file: comma-separated names, or module:name.")
    ] = "",
    reward: Annotated[
        str | None, typer.Option(help="For a file: a reward's name, or module:name.")
    ] = None,
    environment: Annotated[
        str | None, typer.Option(help="For a file: the environment that it belongs to.")
    ] = None,
    kind: Annotated[
        str, typer.Option(help="For a file: the kind of agent: tools, react, code or tags.")
    ] = "tools",
    system: Annotated[str | None, typer.Option(help="For a file: the system prompt.")] = None,
    num_chains: Annotated[
        int | None, typer.Option("--num-chains", "-n", min=1, help="Attempts at each task.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Of sampling; 0 is greedy. By default 1.")
    ] = None,
    top_p: Annotated[float | None, typer.Option(help="Of sampling.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum sampled tokens per turn.")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Maximum turns per chain.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all sampling.")] = 0,
    count: Annotated[
        int | None, typer.Option(min=1, help="Only the first tasks of each source.")
    ] = None,
    training_tasks: Annotated[
        bool,
        typer.Option("--training-tasks", help="Not the held-out tasks, but those to train on."),
    ] = False,
    by: Annotated[
        list[str] | None,
        typer.Option(help="A field of the tasks: a row for each value. Can be repeated."),
    ] = None,
    concurrent: Annotated[int, typer.Option(min=1, help="How many chains at once.")] = 64,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Repeat bit for bit; about half as fast.")
    ] = False,
    prompt_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a million prompt tokens.")
    ] = None,
    sampled_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a million sampled tokens.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="What samples: local, vllm, or module:name of your own.")
    ] = "local",
    url: Annotated[
        str | None, typer.Option(help="A running vLLM server, for --engine vllm.")
    ] = None,
    server_model: Annotated[
        str | None, typer.Option(help="The chat server's name for the model.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the chat server's key.")
    ] = None,
    template_option: TemplateOptions = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="Run Python code that comes with the model."),
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name of the results' folder in `runs`.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the results' folder is made.")] = RUNS,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue: finished tasks are not attempted again.")
    ] = False,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Compare two evaluations task by task; nothing is run."),
    ] = None,
    trust: Trust = False,
) -> None:
    """Attempt tasks with a model, and report reward, solved share, pass@k and pass^k.

    Every number has its 95% interval, over tasks. The results are a folder like that of a run:
    `agentfly show`, `agentfly runs` and `agentfly report` open it. An evaluation that was killed
    continues with the same command and --resume. Tasks that the model's run was trained on are
    counted and named.

    \b
        agentfly eval tiny sums.jsonl --tools calculator --reward numeric_match -n 4
        agentfly eval smollm2-135m-instruct code tasks=sums --by level
        agentfly eval http://localhost:8000/v1 webshop alfworld --temperature 0
        agentfly eval runs/sums@best                 # on the run's own held-out tasks
        agentfly eval runs/sums@all                  # a curve over its checkpoints
        agentfly eval --compare runs/eval-tiny-sums runs/eval-sums-best
        agentfly eval --compare sums@0 sums@40       # evaluations of one run
    """  # noqa: D301 - a real \\b keeps lines apart
    given = list(words or ())
    with cli_errors():
        if compare is not None:
            if given:
                raise ConfigError("--compare runs nothing: leave out the model and the sources")
            compare_evaluations(*compare, console=Console())
            return
        if not given:
            raise ConfigError("name a model, then the tasks: agentfly eval tiny sums.jsonl …")
        parts = Parts(
            tools=tuple(name.strip() for name in tools.split(",") if name.strip()),
            reward=reward,
            environment=environment,
            kind=kind,
            system_prompt=system,
        )
        checkpoints = None if _is_server(given[0]) else find_checkpoints(given[0])
        chosen = _sources(given, parts, checkpoints, trust=trust)
        prices = _prices(prompt_price, sampled_price)
        model = _model(
            given[0],
            checkpoints,
            chosen,
            server_model=server_model,
            api_key_env=api_key_env,
            trust_remote_code=trust_remote_code,
            template_options=read_options(template_option),
        )
        settings = EvaluationSettings(
            name=name or _default_name(given),
            folder=folder,
            seed=seed,
            deterministic=deterministic,
            tasks="training" if training_tasks else "held-out",
            count=count,
            by=tuple(by or ()),
            model=model,
            engine=EngineSettings(name=engine, urls=(url,) if url else ()),
            attempts=_attempts(
                chosen.settings,
                num_chains=num_chains,
                temperature=temperature,
                top_p=top_p,
                max_tokens=max_tokens,
                max_turns=max_turns,
                max_concurrent=concurrent,
            ),
            prices=prices,
            checkpoint=_checkpoints(checkpoints),
            source=chosen.tables,
        )
        refuse_if_any([*engine_problems(settings.engine, deterministic=deterministic)], None)
        sources = chosen.read(settings.tasks, count)
        if checkpoints is not None and chosen.as_trained:
            sources = with_examples_of(checkpoints.run, sources)
        _say_overlap(sources, checkpoints.run if checkpoints else run_of_model(given[0]))
        words_again = [word for word in sys.argv[1:] if word != "--resume"]
        with resumable(shlex.join(["agentfly", *words_again]), folder / settings.name):
            result = evaluate(settings, sources, resume=resume)
        _show(result, settings, Console())


def _is_server(model: str) -> bool:
    return model.startswith(("http://", "https://"))


def _sources(
    given: list[str], parts: Parts, checkpoints: NamedCheckpoints | None, *, trust: bool
) -> ChosenSources:
    files = [word for word in given[1:] if Path(word).is_file() and Path(word).suffix != ".toml"]
    as_trained = checkpoints is not None and files == given[1:] and not parts.given
    if len(given) > 1 and not as_trained:
        _say_untrained_prompt(checkpoints)
        return choose_sources(given[1:], parts, trust=trust)
    if checkpoints is None:
        raise ConfigError(
            f"name the tasks that {given[0]} shall attempt: an environment (agentfly envs list), a "
            "file of tasks, or a run's TOML file"
        )
    return _sources_of(checkpoints.run, files)


def _sources_of(run: RecordedRun, files: list[str]) -> ChosenSources:
    """Return a run's own sources; with a file, its source with the tasks of that file."""
    settings = validated(RunSettings, run.settings, (), str(run.path / "config.toml"))
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
        tables = (tables[0].model_copy(update={"tasks": files[0], "eval_tasks": None}),)
    bases = (None,) * len(tables)
    return ChosenSources(tables=tables, bases=bases, settings=settings, as_trained=True)


def _say_untrained_prompt(checkpoints: NamedCheckpoints | None) -> None:
    if checkpoints is not None and examples_of(checkpoints.run):
        said = (
            f"warning: {checkpoints.run.path} was trained with a worked example before every "
            "conversation, and this evaluation shows none. With a file of tasks alone, without "
            "--tools, --reward, --kind and --system, the model is evaluated as it was trained"
        )
        typer.secho(said, fg=typer.colors.YELLOW, err=True)


def _model(
    given: str,
    checkpoints: NamedCheckpoints | None,
    chosen: ChosenSources,
    *,
    server_model: str | None,
    api_key_env: str | None,
    trust_remote_code: bool,
    template_options: dict[str, Any],
) -> EvaluatedModelSettings:
    if _is_server(given):
        name = server_model or asyncio.run(served_model(given, api_key_env))
        return EvaluatedModelSettings(name=name, url=given, api_key_env=api_key_env)
    if server_model or api_key_env:
        raise ConfigError(f"--server-model and --api-key-env are for servers, and {given} is none")
    own = chosen.settings.model.template_options if chosen.settings else {}
    return EvaluatedModelSettings(
        name=list(checkpoints.folders.values())[-1] if checkpoints else given,
        run=str(checkpoints.run.path) if checkpoints else None,
        trust_remote_code=trust_remote_code,
        template_options=template_options or own,
    )


def _attempts(run: RunSettings | None, **given: Any) -> AttemptSettings:
    """Return how tasks are attempted: as the options say, else as the run's settings do."""
    chosen = {name: value for name, value in given.items() if value is not None}
    if run is None:
        return AttemptSettings(**chosen)
    own = {
        "num_chains": run.eval.num_chains,
        "temperature": run.eval.temperature,
        "time_limit_reward": run.eval.time_limit_reward,
        "max_tokens": run.rollout.max_tokens,
        "max_turns": run.rollout.max_turns,
        "context_length": run.rollout.context_length,
        "chain_seconds": run.rollout.chain_seconds,
    }
    return AttemptSettings(**(own | chosen))


def _prices(prompt: float | None, sampled: float | None) -> PriceSettings | None:
    if prompt is None and sampled is None:
        return None
    return PriceSettings(prompt=prompt or 0.0, sampled=sampled or 0.0)


def _checkpoints(found: NamedCheckpoints | None) -> tuple[EvaluatedCheckpoint, ...]:
    folders = found.folders if found else {}
    return tuple(EvaluatedCheckpoint(step=step, folder=path) for step, path in folders.items())


def _default_name(given: list[str]) -> str:
    """Return a name for the results.

    >>> _default_name(["runs/sums@best", "code", "tasks=sums"])
    'eval-sums-best-code-tasks-sums'
    """
    words = [Path(word).stem if Path(word).suffix else Path(word).name for word in given]
    return re.sub(r"[^\w.]+", "-", "-".join(["eval", *words])).strip("-")[:100]


def _say_overlap(sources: list[EvaluatedSource], run: RecordedRun | None) -> None:
    tasks = [task for source in sources for task in source.tasks]
    for overlap in find_overlap(tasks, run):
        typer.secho(f"warning: {overlap.sentence}", fg=typer.colors.YELLOW, err=True)


def _show(result: EvaluationResult, settings: EvaluationSettings, console: Console) -> None:
    if len(result.rows) > 1:
        show_curve(result.rows, console)
    for step, rows in result.rows.items() if len(result.rows) == 1 or settings.by else ():
        if len(result.rows) > 1:
            console.print(f"step {step}")
        show_evaluation(rows, console)
    counted, prices = result.usage, settings.prices
    if settings.model.url is not None:
        said = f"the server counted {counted.prompt_tokens} prompt tokens, "
        said += f"{counted.sampled_tokens} sampled"
        if prices and not counted.uncounted:
            total = prices.prompt * counted.prompt_tokens + prices.sampled * counted.sampled_tokens
            said += f", which cost {total / 1e6:.4g}"
        if counted.uncounted:
            said += f"; {counted.uncounted} answers had no count"
        typer.echo(said)
    typer.echo(f"seed {settings.seed}; all chains and numbers: {result.folder}")
