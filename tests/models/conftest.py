from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of models."""
    monkeypatch.setenv("AGENTFLY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"
