"""Recorded chains as demonstrations: their own tokens, or their messages tokenized again.

A chain's tokens are kept as they were sampled if the model that learns has the same tokenizer: the
first prompt then reads as what was asked. Chains of another model are refused, unless they are to
be tokenized again from their messages (`retokenize`), as this model would have written them.
"""

import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentfly.agents.registry import find_kind
from agentfly.chat import TemplateRenderer
from agentfly.chat.imitation import imitate, require_readable
from agentfly.config.sft_settings import SftDataSettings
from agentfly.errors import ConfigError
from agentfly.observe import read_trajectories
from agentfly.training.supervised.best_of import Kept, keep_best
from agentfly.types import FinishReason, StopReason, TokenStream, Trajectory

GZIP = ".gz"
NOT_TAKEN = ("eval_", "advantages_", "trial.")
"""Beginnings of a run's files that hold no chains of steps: those of held-out chains, which are
never trained on, of tokens' advantages, and of the trial, in which turns were begun for the model.
"""

_log = logging.getLogger(__name__)


def holds_chains(path: Path) -> bool:
    """Return whether a path holds trajectories (a file or a run's folder), not chat rows."""
    if path.is_dir() or path.suffix == GZIP:
        return True
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline()
    try:
        record = json.loads(first)
    except ValueError:
        return False
    return isinstance(record, dict) and record.get("kind") == "trajectory"


def read_chains(path: Path, data: SftDataSettings, renderer: TemplateRenderer) -> Kept:
    """Read the chains that are worth imitating; a group lies in one file."""
    trajectories: list[Trajectory] = []
    left_out: Counter[str] = Counter()
    for file in _files(path):
        kept = keep_best(read_trajectories(file), data.keep_best, min_reward=data.min_reward)
        left_out += kept.left_out
        whole = [t for t in kept.trajectories if not data.retokenize or _is_whole(t)]
        if len(whole) < len(kept.trajectories):
            left_out["cut short or malformed"] += len(kept.trajectories) - len(whole)
        trajectories += _retokenize_all(whole, renderer, data.kind) if data.retokenize else whole
    if not data.retokenize:
        _require_own_tokens(trajectories, renderer, path)
    return Kept(trajectories=tuple(trajectories), left_out=left_out)


def _files(path: Path) -> list[Path]:
    """List files of trajectories, a compacted one by the name that it had before."""
    if not path.is_dir():
        return [path]
    folder = path / "trajectories" if (path / "trajectories").is_dir() else path
    found = {
        file.with_name(file.name.removesuffix(GZIP))
        for file in folder.iterdir()
        if file.name.endswith((".jsonl", f".jsonl{GZIP}")) and not file.name.startswith(NOT_TAKEN)
    }
    if not found:
        raise ConfigError(
            f"{path} holds no trajectories: expected .jsonl or .jsonl.gz files in it or in its "
            "folder `trajectories`"
        )
    # By length first, so that step_9 comes before step_10.
    return sorted(found, key=lambda file: (len(file.name), file.name))


def _require_own_tokens(
    trajectories: Sequence[Trajectory], renderer: TemplateRenderer, path: Path
) -> None:
    """Refuse tokens of another tokenizer; warn of those that another template has arranged."""
    unlike = 0
    for trajectory in trajectories:
        first = trajectory.turns[0]
        if first.completion is None or not _reads_as_asked(trajectory, renderer):
            raise ConfigError(
                f"{path}: the tokens of chain {trajectory.chain_id} are not those of this model's "
                "tokenizer, or there are none: another model sampled it. Set data.retokenize to "
                "true to write such chains again from their messages"
            )
        unlike += renderer.open(trajectory.messages, trajectory.tools) != first.context_ids
    if unlike:
        _log.warning(
            "%s: the prompts of %d of %d chains are not what this model's template makes of them "
            "(another template, kind of agent or call format); they are learned as they were "
            "sampled",
            path,
            unlike,
            len(trajectories),
        )


def _reads_as_asked(trajectory: Trajectory, renderer: TemplateRenderer) -> bool:
    prompt = renderer.decode(trajectory.turns[0].context_ids)
    asked = [message.content.strip() for message in trajectory.messages if message.role == "user"]
    return all(words in prompt for words in asked)


def _is_whole(trajectory: Trajectory) -> bool:
    """Return whether a chain's messages hold all that was sampled.

    A turn that was cut short never ended, and of a malformed call only its raw text is known.
    """
    turns = trajectory.turns
    cut = (t.completion and t.completion.finish_reason is FinishReason.LENGTH for t in turns)
    malformed = (call.problem for turn in turns for call in turn.message.tool_calls)
    limits = (StopReason.TOKEN_LIMIT, StopReason.CONTEXT_LIMIT)
    return trajectory.stop not in limits and not any(cut) and not any(malformed)


def _retokenize_all(
    trajectories: Sequence[Trajectory], renderer: TemplateRenderer, kind: str
) -> list[Trajectory]:
    """Write chains as an agent of this kind would; its format may depend on the tools it has."""
    format_for = getattr(find_kind(kind), "format", lambda tools: None)
    renderers: dict[tuple[str, ...], TemplateRenderer] = {}
    retokenized = []
    for trajectory in trajectories:
        names = tuple(tool.name for tool in trajectory.tools)
        if names not in renderers:
            call_format = format_for(trajectory.tools)
            renderers[names] = renderer.with_format(call_format) if call_format else renderer
        retokenized.append(_retokenize(trajectory, renderers[names]))
    return retokenized


def _retokenize(trajectory: Trajectory, renderer: TemplateRenderer) -> Trajectory:
    """Tokenize a chain's messages for this model; the answers to its actions are kept."""
    messages, tools = trajectory.conversation, trajectory.tools
    try:
        stream = imitate(renderer, messages, tools, opening=len(trajectory.messages))
        require_readable(renderer, stream)
    except ConfigError as error:
        raise ConfigError(f"chain {trajectory.chain_id} can't be written again: {error}") from error
    turns = zip(stream.turns, trajectory.turns, strict=True)
    same = tuple(replace(new, results=old.results, invalid=old.invalid) for new, old in turns)
    return replace(trajectory, streams=(TokenStream(turns=same),))
