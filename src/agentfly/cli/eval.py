"""`agentfly eval`: how well a model does on tasks, with intervals."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentfly.cli.command import (
    TEMPLATE_OPTION,
    EngineName,
    EngineUrl,
    TemplateOptions,
    TrustRemoteCode,
    cli_errors,
    read_options,
    resumable,
    warn,
)
from agentfly.cli.eval_compare import compare_evaluations
from agentfly.cli.eval_settings import (
    attempt_settings,
    checkpoint_settings,
    default_name,
    is_server,
    model_settings,
    price_settings,
)
from agentfly.cli.eval_sources import ChosenSources, Parts, sources_for
from agentfly.cli.trust import Trust
from agentfly.config import EngineSettings
from agentfly.config.evaluation_settings import EvaluationSettings, PriceSettings
from agentfly.config.validation_errors import refuse_if_any
from agentfly.engines.factory import engine_problems
from agentfly.engines.openai.chat import Usage
from agentfly.errors import ConfigError
from agentfly.evaluation import EvaluatedSource, EvaluationResult, evaluate
from agentfly.evaluation.checkpoint_names import find_checkpoints, run_of_model
from agentfly.evaluation.overlap import find_overlap
from agentfly.evaluation.run_sources import with_examples_of
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
        float | None,
        typer.Option(min=0, help="Sampling temperature; 0 is greedy. By default the run's, or 1."),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Sample from the most likely tokens of this total probability."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum sampled tokens per turn.")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Maximum turns per chain.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of all sampling; by default the run's, or 0.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Only the first tasks of each source.")
    ] = None,
    training_tasks: Annotated[
        bool,
        typer.Option(
            "--training-tasks", help="Use the training tasks instead of the held-out ones."
        ),
    ] = False,
    by: Annotated[
        list[str] | None,
        typer.Option(help="A field of the tasks: a row for each value. Can be repeated."),
    ] = None,
    concurrent: Annotated[int, typer.Option(min=1, help="Maximum number of chains at once.")] = 64,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="Get the same results each time, bit for bit; about half as fast.",
        ),
    ] = False,
    prompt_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a million prompt tokens.")
    ] = None,
    sampled_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a million sampled tokens.")
    ] = None,
    engine: EngineName = "local",
    url: EngineUrl = None,
    server_model: Annotated[
        str | None, typer.Option(help="The chat server's name for the model.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the chat server's key.")
    ] = None,
    template_option: TemplateOptions = None,
    trust_remote_code: TrustRemoteCode = False,
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
    """Evaluate a model on tasks: reward, share of solved chains, pass@k and pass^k.

    Every number has its 95% interval, over tasks. The results are a folder like that of a run:
    `agentfly show`, `agentfly runs` and `agentfly report` open it. An evaluation that was killed
    continues with the same command and --resume. Tasks that the model's run was trained on are
    counted and named.

    \b
        agentfly eval tiny sums.jsonl --tools calculator --reward numeric_match -n 4
        agentfly eval smollm2-135m-instruct code tasks=math --by level
        agentfly eval http://localhost:8000/v1 webshop alfworld --temperature 0
        agentfly eval runs/sums@best                 # on the run's own held-out tasks
        agentfly eval runs/sums@all                  # a curve over its checkpoints
        agentfly eval --compare runs/eval-tiny-sums runs/eval-sums-best
        agentfly eval --compare sums@0 sums@40       # evaluations of one run
    """  # noqa: D301 - a real \\b keeps lines apart
    given = list(words or ())
    with cli_errors():
        if compare is not None:
            _compare(given, compare)
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
        checkpoints = None if is_server(given[0]) else find_checkpoints(given[0])
        chosen = sources_for(given, parts, checkpoints, trust=trust)
        settings = EvaluationSettings(
            name=name or default_name(given),
            folder=folder,
            seed=chosen.seed if seed is None else seed,
            deterministic=deterministic,
            tasks="training" if training_tasks else "held-out",
            count=count,
            by=tuple(by or ()),
            model=model_settings(
                given[0],
                checkpoints,
                chosen,
                server_model=server_model,
                api_key_env=api_key_env,
                trust_remote_code=trust_remote_code,
                template_options=read_options(template_option, TEMPLATE_OPTION),
            ),
            engine=EngineSettings(name=engine, urls=(url,) if url else ()),
            attempts=attempt_settings(
                chosen.settings,
                num_chains=num_chains,
                temperature=temperature,
                top_p=top_p,
                max_tokens=max_tokens,
                max_turns=max_turns,
                max_concurrent=concurrent,
            ),
            prices=price_settings(prompt_price, sampled_price),
            checkpoint=checkpoint_settings(checkpoints),
            source=chosen.tables,
        )
        run = checkpoints.run if checkpoints else run_of_model(given[0])
        _evaluate(settings, chosen, run, resume=resume)


def _compare(given: list[str], compared: tuple[str, str]) -> None:
    if given:
        raise ConfigError("--compare runs nothing: leave out the model and the sources")
    compare_evaluations(*compared, console=Console())


def _evaluate(
    settings: EvaluationSettings, chosen: ChosenSources, run: RecordedRun | None, *, resume: bool
) -> None:
    """Attempt all tasks, and print the numbers; `run` is that of the model, if it has one."""
    problems = engine_problems(settings.engine, deterministic=settings.deterministic)
    refuse_if_any([*problems], None)
    sources = chosen.read(settings.tasks, settings.count)
    if run is not None and chosen.as_trained:
        sources = with_examples_of(run, sources)
    _warn_overlap(sources, run)
    words_again = [word for word in sys.argv[1:] if word != "--resume"]
    with resumable(shlex.join(["agentfly", *words_again]), settings.folder / settings.name):
        result = evaluate(settings, sources, resume=resume)
    _show(result, settings, Console())


def _warn_overlap(sources: list[EvaluatedSource], run: RecordedRun | None) -> None:
    tasks = [task for source in sources for task in source.tasks]
    for overlap in find_overlap(tasks, run):
        warn(overlap.sentence)


def _show(result: EvaluationResult, settings: EvaluationSettings, console: Console) -> None:
    if len(result.rows) > 1:
        show_curve(result.rows, console)
    for step, rows in result.rows.items() if len(result.rows) == 1 or settings.by else ():
        if len(result.rows) > 1:
            console.print(f"step {step}")
        show_evaluation(rows, console)
    if settings.model.url is not None:
        typer.echo(_usage_text(result.usage, settings.prices))
    typer.echo(f"seed {settings.seed}; all chains and numbers: {result.folder}")


def _usage_text(usage: Usage, prices: PriceSettings | None) -> str:
    text = f"the server counted {usage.prompt_tokens} prompt tokens, {usage.sampled_tokens} sampled"
    if usage.uncounted:
        return f"{text}; {usage.uncounted} answers had no count"
    if prices is None:
        return text
    return f"{text}, which cost {prices.cost(usage.prompt_tokens, usage.sampled_tokens):.4g}"
