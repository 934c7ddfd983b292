import sys
from pathlib import Path

import pytest

from agentfly.config import PluginKind
from agentfly.errors import ConfigError

TOOLS: PluginKind[object] = PluginKind(
    what="tool",
    group="agentfly.test_tools",
    builtin={"calculator": "agentfly.tools:calculator"},
    fits=callable,
    way_out="decorate it with @tool",
)


def install(folder: Path, package: str, entries: dict[str, str], code: str) -> None:
    """Put a package on the path as an installer would: its module and its metadata."""
    (folder / f"{package}.py").write_text(code)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[agentfly.test_tools]", *lines, ""]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_an_entry_point_is_found_and_listed_with_its_package(site: Path) -> None:
    install(site, "plug_one", {"double": "plug_one:double"}, "def double(x): return 2 * x")
    assert TOOLS.find("double")(4) == 8  # type: ignore[operator]
    assert TOOLS.names() == ["calculator", "double"]
    assert TOOLS.packages() == {"double": "plug_one"}


def test_nothing_of_a_package_is_imported_before_it_is_asked_for(site: Path) -> None:
    install(site, "plug_lazy", {"lazy": "plug_lazy:f"}, "def f(): ...")
    TOOLS.names()
    TOOLS.find("calculator")
    assert "plug_lazy" not in sys.modules


def test_no_package_replaces_what_is_built_in(site: Path) -> None:
    install(site, "plug_thief", {"calculator": "plug_thief:f"}, "def f(): ...")
    assert TOOLS.names() == ["calculator"]
    assert getattr(TOOLS.find("calculator"), "__module__", "") != "plug_thief"


def test_an_unknown_name_suggests_what_packages_bring(site: Path) -> None:
    install(site, "plug_two", {"double": "plug_two:double"}, "def double(x): ...")
    with pytest.raises(ConfigError, match=r"unknown tool 'duoble'\. Did you mean 'double'\?"):
        TOOLS.find("duoble")


def test_two_packages_with_one_name_are_refused(site: Path) -> None:
    install(site, "plug_left", {"twice": "plug_left:f"}, "def f(): return 'left'")
    install(site, "plug_right", {"twice": "plug_right:f"}, "def f(): return 'right'")
    with pytest.raises(ConfigError, match=r"several packages bring a tool 'twice': .*plug_left"):
        TOOLS.find("twice")
    assert TOOLS.find("plug_right:f")() == "right"  # type: ignore[operator]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("f = 3", "broken is no tool, but of type int: decorate it with @tool"),
        (
            "raise OSError('no disk')",
            "loading the tool 'broken' of plug_.* raised OSError: no disk",
        ),
        ("", "loading the tool 'broken' of plug_.* raised AttributeError"),
    ],
)
def test_a_broken_package_is_named(
    site: Path, code: str, said: str, request: pytest.FixtureRequest
) -> None:
    package = f"plug_broken_{abs(hash(request.node.name))}"
    install(site, package, {"broken": f"{package}:f"}, code)
    with pytest.raises(ConfigError, match=said):
        TOOLS.find("broken")
