"""The facade: agents, tasks and settings become better weights."""

import asyncio
from collections.abc import Sequence

from agentfly.agents.mistakes import lacking
from agentfly.agents.named import find_mask
from agentfly.algorithms import Algorithm, make_algorithm
from agentfly.chat import MaskPolicy
from agentfly.config import RunSettings
from agentfly.config.problem import refuse_if_any
from agentfly.observe import RunProgress
from agentfly.training.opening import opened
from agentfly.training.result import TrainResult
from agentfly.training.source import Source, read_sources, warn_of_unheard


class Trainer:
    """Trains the model that its settings name, by letting agents attempt tasks.

    Args:
        sources: Tasks, each with the agent that attempts them. Its own sampling and limits hold.
        settings: Everything else.
        algorithm: One of your own; by default the one that the settings name.
        mask: Which sampled tokens are trained, as a function over turns; by default the policy
            that the settings name.
        resume: Go on from the last checkpoint of the run of this name.
        progress: Where the run shows how far it is; by default the terminal.

    >>> agent = Agent("tiny", tools=[calculator], reward=correct)              # doctest: +SKIP
    >>> settings = RunSettings(name="demo", model=ModelSettings(name="tiny"))  # doctest: +SKIP
    >>> Trainer(Source(agent=agent, tasks=rows), settings).run()               # doctest: +SKIP
    """

    def __init__(
        self,
        sources: Source | Sequence[Source],
        settings: RunSettings,
        *,
        algorithm: Algorithm | None = None,
        mask: MaskPolicy | None = None,
        resume: bool = False,
        progress: RunProgress | None = None,
    ) -> None:
        named = settings.algorithm
        refuse_if_any([*lacking(settings.model, settings.track)], None)
        self.settings = settings
        self.curriculum = read_sources(sources)
        warn_of_unheard(self.curriculum, settings)
        self.algorithm = algorithm or make_algorithm(named.name, named.options)
        self.mask = mask or find_mask(settings.rollout.mask)
        self.resume = resume
        self.progress = progress or RunProgress()
        refuse_if_any([*self.algorithm.problems(settings.rollout.num_chains)], None)

    def run(self) -> TrainResult:
        """Train to the end; Ctrl-C leaves a checkpoint to resume from."""
        return asyncio.run(self.run_async())

    async def run_async(self) -> TrainResult:
        """Train to the end, from code that is async itself."""
        opening = opened(
            self.settings,
            self.curriculum,
            algorithm=self.algorithm,
            mask=self.mask,
            progress=self.progress,
            resume=self.resume,
        )
        async with opening as loop:
            return await loop.run()
