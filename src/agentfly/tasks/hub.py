"""A dataset of a Hugging Face hub, by its name."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from agentfly.errors import ConfigError, boundary

HUB = "hub:"
"""What the name of such a dataset begins with."""

_NAME = re.compile(
    r"hub:(?P<dataset>[^:\[\]]+)"
    r"(?::(?P<configuration>[^:\[\]]+)(?=:))?"
    r"(?::(?P<split>[^:\[\]]+(?:\[[^\[\]]*\])?))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubDataset:
    """One split of a dataset; called, it gives the rows, which are fetched once and then cached."""

    dataset: str
    """`organisation/name`, or a folder that the package `datasets` can read."""
    configuration: str | None = None
    split: str = "train"
    """May be a slice, as in `train[:100]`."""

    @classmethod
    def named(cls, name: str) -> Self:
        """Read a name as settings have it.

        >>> HubDataset.named("hub:openai/gsm8k:main:train[:100]")
        HubDataset(dataset='openai/gsm8k', configuration='main', split='train[:100]')
        >>> HubDataset.named("hub:rajpurkar/squad").split
        'train'
        """
        found = _NAME.fullmatch(name)
        if found is None:
            raise ConfigError(
                f"{name!r} names no dataset: write hub:organisation/name, and after that :split "
                "or :configuration:split if needed, as in hub:openai/gsm8k:main:train"
            )
        return cls(**{part: text for part, text in found.groupdict().items() if text})

    @property
    def __name__(self) -> str:
        """What to call it in messages."""
        return self.dataset

    def __call__(self) -> Iterable[Mapping[str, Any]]:
        """Fetch the rows, or take them from the cache."""
        try:
            import datasets
        except ImportError as error:
            raise ConfigError(
                f"the dataset {self.dataset!r} needs the package `datasets`, which is not "
                "installed: pip install 'agentfly[hub]', or save the rows as JSON lines"
            ) from error
        try:
            with boundary(ConfigError, f"loading the dataset {self.dataset!r}"):
                return list(
                    datasets.load_dataset(self.dataset, self.configuration, split=self.split)
                )
        except ConfigError as error:
            if isinstance(error.__cause__, ConnectionError):
                raise ConfigError(
                    f"the dataset {self.dataset!r} is not in the cache, and the hub can't be "
                    f"reached: {error.__cause__}. Connect, or save the rows as JSON lines"
                ) from error
            raise
