import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentfly.config import import_named
from agentfly.errors import ConfigError


@pytest.fixture(autouse=True)
def _forget_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_settings_folder_comes_first_then_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, base = tmp_path / "here", tmp_path / "base"
    write(here, "conf_one.py", "def f(): return 'here'")
    write(base, "conf_one.py", "def f(): return 'base'")
    write(here, "conf_two.py", "def f(): return 'here'")
    monkeypatch.chdir(here)
    assert import_named("conf_one:f", "function", base=base)() == "base"
    assert import_named("conf_two:f", "function", base=base)() == "here"
    assert import_named("conf_two:f", "function")() == "here"


def test_a_module_imports_its_neighbors_even_later(tmp_path: Path) -> None:
    write(tmp_path, "conf_later.py", "def f():\n    from conf_neighbor import x\n    return x")
    write(tmp_path, "conf_neighbor.py", "x = 3")
    write(tmp_path, "conf_package/inner.py", "def f(): return 'deep'")
    assert import_named("conf_later:f", "function", base=tmp_path)() == 3
    assert import_named("conf_package.inner:f", "function", base=tmp_path)() == "deep"


def test_another_module_of_the_same_name_is_never_taken_instead(tmp_path: Path) -> None:
    write(tmp_path / "a", "conf_same.py", "def f(): return 'a'")
    second = write(tmp_path / "b", "conf_same.py", "def f(): return 'b'")
    assert import_named("conf_same:f", "function", base=tmp_path / "a")() == "a"
    with pytest.raises(ConfigError, match=f"{second} can't be imported, because .*a/conf_same.py"):
        import_named("conf_same:f", "function", base=tmp_path / "b")
    assert import_named("conf_same:f", "function", base=tmp_path / "a")() == "a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def search(): ...\ndef _own(): ...\nx = 1", r"conf_bad has no tool 'serach'\. Did you m"),
        ("1 / 0", r"importing conf_bad raised ZeroDivisionError: division by zero"),
        ("import conf_absent", r"importing conf_bad raised ModuleNotFoundError: No module named '"),
        ("import conf_bad.x", r"importing conf_bad raised ModuleNotFoundError: .*'conf_bad\.x'"),
        ("def f(:", r"importing conf_bad raised SyntaxError: .*conf_bad\.py, line 1"),
        ("raise SystemExit(3)", r"importing conf_bad ended the program: put what it runs under if"),
    ],
)
def test_a_module_that_can_not_be_used_says_why(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, "conf_bad.py", text)
    with pytest.raises(ConfigError, match=said):
        import_named("conf_bad:serach", "tool", base=tmp_path)


def test_only_what_fits_is_suggested(tmp_path: Path) -> None:
    write(tmp_path, "conf_many.py", "import os\ndef search(): ...\nlimit = 3\n_hidden = 4")
    with pytest.raises(ConfigError, match=r"Known: search\.$"):
        import_named("conf_many:x", "tool", base=tmp_path)
    with pytest.raises(ConfigError, match=r"Known: limit, os, search\.$"):
        import_named("conf_many:x", "tool", base=tmp_path, fits=lambda _: False)


def test_a_module_that_is_not_there_suggests_its_neighbors(tmp_path: Path) -> None:
    write(tmp_path, "conf_tools.py", "")
    write(tmp_path, "conf_package/__init__.py", "")
    write(tmp_path, "conf_package/shop.py", "")
    with pytest.raises(
        ConfigError, match=rf"no module 'conf_tolos' in {tmp_path} or .*, nor is it"
    ):
        import_named("conf_tolos:f", "tool", base=tmp_path)
    with pytest.raises(ConfigError, match=r"Did you mean 'conf_tools'\?"):
        import_named("conf_tolos:f", "tool", base=tmp_path)
    with pytest.raises(ConfigError, match=r"Did you mean 'conf_package\.shop'\? Known: conf_packa"):
        import_named("conf_package.shp:f", "tool", base=tmp_path)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "conf_sole:f",
            r"conf_sole has no tool 'f'\. It defines nothing that could be meant: write",
        ),
        (
            "conf_full:limit.f",
            r"conf_full:limit has no tool 'f'\. It defines nothing that could be",
        ),
        ("conf_full:Box.Lid.f", r"conf_full:Box\.Lid has no tool 'f'\. Known: lift\.$"),
        ("conf_lost.shop:f", r"Its file would be conf_lost/shop\.py, and no \.py file is in that"),
    ],
)
def test_where_nothing_can_be_suggested_nothing_is(path: str, said: str, tmp_path: Path) -> None:
    write(tmp_path, "conf_sole.py", "")
    box = "class Box:\n    class Lid:\n        def lift(self): ..."
    write(tmp_path, "conf_full.py", f"limit = 3\n{box}")
    with pytest.raises(ConfigError, match=said):
        import_named(path, "tool", base=tmp_path)


@pytest.mark.parametrize("path", ["a.py:f", "./a:f", "a:", ":f", "a:f.g", "a/b:f", "a:f:g"])
def test_what_is_no_import_path_is_recognized(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no import path: write module:name|no module 'a"):
        import_named(path, "tool", base=tmp_path)
