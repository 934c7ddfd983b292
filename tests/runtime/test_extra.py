"""Packages of extras: what is missing is told with the way to get it."""

import pytest

from agentfly.errors import ConfigError
from agentfly.runtime.extra import import_extra, missing_packages


def test_a_missing_package_is_reported_with_its_extra() -> None:
    with pytest.raises(
        ConfigError, match=r"Reading needs the package nowhere: pip install 'agentfly\[parquet\]'"
    ):
        import_extra("nowhere.parquet", extra="parquet", purpose="Reading")
    assert missing_packages(("json",), extra="x", purpose="X") is None
    told = missing_packages(("json", "nowhere"), extra="x", purpose="X")
    assert told == "X needs the package nowhere: pip install 'agentfly[x]'"
