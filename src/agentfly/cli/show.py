"""`agentfly show`: what the model saw and said, chain by chain and token by token."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentfly.cli.command import cli_errors
from agentfly.errors import AgentFlyError, ConfigError
from agentfly.observe.chain_console import chain_table, show_chain, show_tokens
from agentfly.observe.chain_filter import ChainFilter, ChainRow, sort_rows
from agentfly.observe.chain_text import question
from agentfly.observe.recorded_run import ChainFile, RecordedRun, SavedChains, find_chains
from agentfly.observe.token_view import Decode, Mask
from agentfly.types import Trajectory


def show(  # noqa: PLR0913 - each is an option of the command
    run: Annotated[
        str,
        typer.Argument(
            help="Folder of a run, its name in the folder `runs`, or a file of saved chains."
        ),
    ],
    chain: Annotated[
        str | None,
        typer.Argument(help="A chain: its id, or its number in the table. Without it, the table."),
    ] = None,
    *,
    step: Annotated[
        int | None, typer.Option(help="The step; by default the last one that has chains.")
    ] = None,
    from_step: Annotated[
        int | None, typer.Option(help="The table of all steps from this one on.")
    ] = None,
    to_step: Annotated[
        int | None, typer.Option(help="The table of all steps up to this one.")
    ] = None,
    held_out: Annotated[
        bool,
        typer.Option("--held-out", help="The held-out chains of the evaluation after the step."),
    ] = False,
    trial: Annotated[
        bool, typer.Option("--trial", help="The chains that were tried before the first step.")
    ] = False,
    tokens: Annotated[
        bool,
        typer.Option("--tokens", help="Show each token with its mask and log-probability."),
    ] = False,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="With --tokens: run the run's own mask policy, Python code in the working "
            "directory or installed, to show which tokens are trained.",
        ),
    ] = False,
    min_reward: Annotated[
        float | None, typer.Option(help="Chains with this reward or more.")
    ] = None,
    max_reward: Annotated[
        float | None, typer.Option(help="Chains with this reward or less.")
    ] = None,
    stop: Annotated[
        str | None, typer.Option(help="Chains with this stop reason: answered, turn_limit, …")
    ] = None,
    tool: Annotated[str | None, typer.Option(help="Chains that called this tool.")] = None,
    text: Annotated[
        str | None, typer.Option(help="Chains with this text in prompt, answers, calls or results.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Chains of tasks with this text in their id or question.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="The chains of one group, by its id.")] = None,
    cause: Annotated[
        str | None, typer.Option(help="Chains that failed by this cause: EnvError, …")
    ] = None,
    unscored: Annotated[bool, typer.Option("--unscored", help="Chains without a reward.")] = False,
    failing: Annotated[
        bool, typer.Option("--failing", help="Chains with a call that did not succeed.")
    ] = False,
    weights_version: Annotated[
        int | None,
        typer.Option(help="Chains whose first token was sampled by the weights of this version."),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            help="Order: reward, turns, calls, tokens, stop, task; -reward: the highest first."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows in the table.")] = 50,
) -> None:
    """Show the chains of a run: a table of one step, or one chain with all its messages.

    One chain is shown turn by turn, with its prompt as it was rendered for the model, tools
    included, its calls and results, its reward by part, and where its time went. Control characters
    of chains are replaced: they can't reach the terminal.

    \b
        agentfly show sums
        agentfly show sums --max-reward 0 --tool calculator --sort -tokens
        agentfly show sums 3
        agentfly show sums 3 --tokens
        agentfly show sums --held-out --step 0
        agentfly show sums --from-step 5 --sort reward --limit 10
        agentfly show sums --trial          # does the model call its tools?
        agentfly show chains.jsonl          # what Agent.run(save_to=...) wrote
    """  # noqa: D301 - a real \\b keeps lines apart
    with cli_errors():
        found = find_chains(run)
        wanted = ChainFilter.read(
            min_reward=min_reward,
            max_reward=max_reward,
            stop=stop,
            tool=tool,
            text=text,
            task=task,
            group=group,
            cause=cause,
            unscored=unscored,
            failing=failing,
            weights_version=weights_version,
        )
        console = Console(soft_wrap=False)
        if from_step is not None or to_step is not None:
            if chain is not None or step is not None or trial:
                raise ConfigError(
                    "--from-step and --to-step show the table of several steps: leave out the "
                    "chain, --step and --trial"
                )
            files = found.chain_files_between(from_step, to_step, held_out=held_out)
            _show_steps(files, wanted, sort, console, limit)
            return
        file = found.trial_file if trial else found.chain_file(step, held_out=held_out)
        if chain is None:
            rows = _rows(file, wanted)
            _show_table(file, _sorted(rows, sort), console, limit)
        else:
            one = _find(found, chain, file, others=not trial and step is None)
            _show_one(found, one, console, tokens=tokens, trust=trust)


def _show_steps(
    files: list[ChainFile], wanted: ChainFilter, sort: str | None, console: Console, limit: int
) -> None:
    """Show one table of several steps, in which chains have the number of their step."""
    rows = (
        replace(row, number=file.step) for file in reversed(files) for row in _rows(file, wanted)
    )
    title = f"{files[0].title} to {files[-1].title}"
    table = chain_table(islice(chosen := _sorted(rows, sort), limit), numbered="step")
    _print_table(table, title, console, limit, more=next(chosen, None) is not None)


def _show_table(file: ChainFile, rows: Iterator[ChainRow], console: Console, limit: int) -> None:
    table = chain_table(islice(rows, limit))
    title = f"{file.title}, {file.path.name}"
    _print_table(table, title, console, limit, more=next(rows, None) is not None)


def _sorted(rows: Iterator[ChainRow], sort: str | None) -> Iterator[ChainRow]:
    return iter(sort_rows(rows, sort)) if sort else rows


def _print_table(table: Table, title: str, console: Console, limit: int, *, more: bool) -> None:
    table.title = title
    table.title_justify = "left"
    if not table.row_count:
        console.print(f"No chain of {title} matches.")
        return
    console.print(table)
    if more:
        console.print(
            f"There are more: raise --limit, such as to {10 * limit}, or use the filters."
        )


def _rows(file: ChainFile, wanted: ChainFilter) -> Iterator[ChainRow]:
    for number, chain in enumerate(file.read(), start=1):
        if wanted.matches(chain):
            yield ChainRow.of(number, chain, question=question(chain))


def _find(run: RecordedRun, chain: str, file: ChainFile, *, others: bool) -> Trajectory:
    """Return a chain by its number in a file, or by its id there or, with `others`, in any file."""
    if chain.isdecimal():
        found = next(islice(file.read(), int(chain) - 1, None), None) if int(chain) else None
    else:
        further = run.chain_files if others else ()
        files = (file, *(other for other in reversed(further) if other != file))
        found = next((one for each in files if (one := each.find(chain)) is not None), None)
    if found is None:
        where = file.title if not others or chain.isdecimal() else f"the run {run.name}"
        raise ConfigError(
            f"there is no chain {chain!r} in {where}: expected an id or a number that "
            f"`agentfly show {run.path}` lists"
        )
    return found


def _show_one(
    run: RecordedRun, chain: Trajectory, console: Console, *, tokens: bool, trust: bool
) -> None:
    has_ids = any(turn.completion is not None for turn in chain.turns)
    decode = _decoder(run) if has_ids else None
    if not tokens:
        show_chain(chain, console, decode)
        return
    if not has_ids:
        raise ConfigError(
            f"the chain {chain.chain_id!r} has no token ids: its model is a server that gives text "
            "alone. Leave --tokens out"
        )
    policy = str(run.settings.get("rollout", {}).get("mask", "all_sampled"))
    mask = _mask(policy, trust=trust)
    show_tokens(chain, console, decode or _ids_as_text, mask, policy=policy)


def _decoder(run: RecordedRun) -> Decode | None:
    """Return the decoder of the run's own tokenizer; None, with a note, if there is none here."""
    from agentfly.chat import load_tokenizer
    from agentfly.models import resolve_model

    if isinstance(run, SavedChains):
        typer.echo(f"{run.path} does not name its model: messages are shown, not tokens.", err=True)
        return None
    try:
        folder = run.tokenizer_folder or resolve_model(str(run.settings["model"]["name"]))
        return load_tokenizer(folder).tokenizer.decode
    except (AgentFlyError, LookupError, TypeError) as error:
        note = f"The tokenizer of the run can't be read, so tokens are not shown as text: {error}"
        typer.echo(note, err=True)
        return None


def _ids_as_text(ids: object) -> str:
    return " ".join(map(str, ids)) if isinstance(ids, list | tuple) else str(ids)


def _mask(policy: str, *, trust: bool) -> Mask | None:
    """Return a run's mask policy; None for one of its own, whose code is run only on demand."""
    from agentfly.chat import MASK_POLICIES, mask_policy

    if policy in MASK_POLICIES:
        return mask_policy(policy)
    if not trust:
        return None
    from agentfly.agents.registry import find_mask

    return mask_policy(find_mask(policy))
