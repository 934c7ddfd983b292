"""`agentfly sft`: train by imitation, with the settings of a TOML file."""

from pathlib import Path
from typing import Annotated

import typer

from agentfly.agents.preflight import check_sft_settings
from agentfly.cli.command import (
    DryRun,
    Overrides,
    Resume,
    cli_errors,
    command_line,
    require_train_extra,
    resumable,
)
from agentfly.cli.trust import Trust, require_trust
from agentfly.config import to_toml
from agentfly.config.sft_settings import SftSettings, load_sft_settings
from agentfly.config.validation_errors import refuse_if_any
from agentfly.errors import AgentFlyError
from agentfly.observe.run_folder import require_new, require_run


def sft(
    file: Annotated[Path, typer.Argument(help="The settings of a warm start: a TOML file.")],
    overrides: Overrides = None,
    *,
    dry_run: DryRun = False,
    resume: Resume = False,
    trust: Trust = False,
) -> None:
    """Fine-tune a model on conversations (SFT), as a warm start before training by reward.

    \b
        name = "warm"
        model.name = "smollm2-135m-instruct"
        \\[data]
        files = ["chats.jsonl", "runs/teacher"]
        keep_best = 1               # of each group of chains
        min_reward = 1.0

    Files hold chat rows ({"messages": \\[...], "tools": \\[...]}) or trajectories, as `Agent.run`
    saves them; a folder is that of a run. The model goes to runs/NAME/model.

    \b
        agentfly sft warm.toml --dry-run
        agentfly sft warm.toml train.epochs=3
        agentfly sft warm.toml --resume
        agentfly train sums.toml model.name=runs/warm/model
    """  # noqa: D301 - a real \\b keeps lines apart, and brackets would be taken for markup
    with cli_errors():
        settings = load_sft_settings(file, overrides or ())
        folder = settings.folder / settings.name
        if resume and not dry_run:
            require_run(folder)
        require_trust(settings, file, overrides=overrides or (), trust=trust)
        with require_train_extra():
            refuse_if_any([*check_sft_settings(settings, base=file.parent)], str(file))
        if dry_run:
            typer.echo(to_toml(settings), nl=False)
            typer.secho(f"\ndry run of {settings.name}:", bold=True, err=True)
            _print_verdict(settings, file.parent, resume=resume)
            return
        if not resume:
            require_new(folder)
        with require_train_extra():
            from agentfly.training.supervised.sft import sft as run
        command = command_line("sft", file, overrides or (), trust=trust)
        with resumable(command, folder):
            run(settings, resume=resume, base=file.parent)


def _print_verdict(settings: SftSettings, base: Path, *, resume: bool) -> None:
    """Print the number of conversations on stderr, and whether a run could begin; else exit 2."""
    with require_train_extra():
        from agentfly.training.supervised.sft import rehearse_sft
    try:
        typer.echo(rehearse_sft(settings, resume=resume, base=base), err=True)
    except AgentFlyError as error:
        typer.secho(f"problem: {error}", fg=typer.colors.RED, err=True)
        text = "VERDICT: not ready, see the problem above"
        typer.secho(text, fg=typer.colors.RED, bold=True, err=True)
        raise typer.Exit(2) from error
    text = "VERDICT: ready, nothing is in the way of this run"
    typer.secho(text, fg=typer.colors.GREEN, bold=True, err=True)
