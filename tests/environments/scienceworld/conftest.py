"""No test leaves a JVM or a gold path behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentfly.environments.scienceworld.simulator import jvm
from agentfly.environments.scienceworld.simulator.jvm_pool import jvm_pool


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTFLY_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def quick_jvms() -> Iterator[None]:
    """Do without the second compiler, which takes more time than it saves in a few seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jvm, "OPTIONS", (*jvm.OPTIONS, "-XX:TieredStopAtLevel=1"))
        yield


@pytest.fixture(scope="module", autouse=True)
def no_jvm_left() -> Iterator[None]:
    yield
    jvm_pool().close()
