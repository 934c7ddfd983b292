"""Import paths `module:name`: users' own parts, named in settings or on the command line."""

import importlib
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from agentfly.errors import ConfigError, boundary
from agentfly.runtime.names import suggestion


def is_import_path(name: str) -> bool:
    """Return whether a text has the form `package.module:name`, or `module:Class.method`.

    >>> is_import_path("my.tools:search"), is_import_path("calculator"), is_import_path("C:/a.csv")
    (True, False, False)
    """
    module, colon, attribute = name.partition(":")
    return bool(colon) and all(map(str.isidentifier, (*_parts(module), *_parts(attribute))))


def import_named(
    path: str, what: str, *, base: Path | None = None, fits: Callable[[Any], bool] = callable
) -> Any:
    """Import and return the object that `module:name` names.

    The module is looked up in the folder `base`, then in the working directory, then among the
    installed packages.

    >>> import_named("math:sqrt", "function")(9.0)
    3.0
    >>> import_named("math:sqroot", "function")
    Traceback (most recent call last):
    agentfly.errors.ConfigError: math has no function 'sqroot'. Did you mean 'sqrt'? …

    Args:
        path: The import path.
        what: Noun for error messages, such as "tool".
        base: Folder of the settings file that names it.
        fits: Returns whether an object is of the right kind, to suggest names that are.
    """
    if not is_import_path(path):
        raise ConfigError(
            f"{path!r} is no import path: write module:name, as in my_module:my_{what.split()[-1]} "
            "for a name in my_module.py"
        )
    module_name, _, attribute = path.partition(":")
    module = _import(module_name, _folders(base))
    found: Any = module
    owner = module_name
    for name in _parts(attribute):
        if not hasattr(found, name):
            public = [other for other in getattr(found, "__dict__", ()) if other[:1] != "_"]
            fitting = [other for other in public if _is_own(found, other, fits)]
            known = fitting or public
            others = (
                suggestion(name, known)
                if known
                else "It defines nothing that could be meant: write it there, or name another place"
            )
            raise ConfigError(f"{owner} has no {what} {name!r}. {others}")
        owner = f"{owner}{':' if found is module else '.'}{name}"
        found = getattr(found, name)
    return found


def _is_own(owner: Any, name: str, fits: Callable[[Any], bool]) -> bool:
    """Return whether a name is of the right kind and was not imported from another module."""
    value = getattr(owner, name)
    # A decorated function is an object of ours that keeps it: the function's module counts.
    written = getattr(value, "function", value)
    return fits(value) and getattr(written, "__module__", None) in (None, *_modules(owner))


def _modules(owner: Any) -> tuple[object, ...]:
    return (getattr(owner, "__name__", None), getattr(owner, "__module__", None))


def folder_with(path: str, base: Path | None) -> Path | None:
    """Return the folder of the module of `module:name`; None if it is not a user's own file.

    Nothing is imported.

    >>> folder_with("math:sqrt", None) is None
    True
    """
    importlib.invalidate_caches()
    top = _parts(path.partition(":")[0])[0]
    return next((folder for folder in _folders(base) if _holds(folder, top)), None)


def _folders(base: Path | None) -> list[Path]:
    """Return the folders in which users' own modules are looked up."""
    return list(dict.fromkeys(folder.resolve() for folder in (base, Path()) if folder))


def _holds(folder: Path, module: str) -> bool:
    return PathFinder.find_spec(module, [str(folder)]) is not None


def _import(name: str, folders: list[Path]) -> ModuleType:
    importlib.invalidate_caches()
    _refuse_namesake(name, folders)
    # Never removed from sys.path, like a script's folder: the module may import others later. A
    # settings folder without the module is left out: its other files would shadow installed
    # packages. The working directory is the user's own.
    wanted = [f for f in folders if f == Path().resolve() or _holds(f, _parts(name)[0])]
    sys.path[:0] = [str(folder) for folder in wanted if str(folder) not in sys.path]
    try:
        with boundary(ConfigError, f"importing {name}"):
            return importlib.import_module(name)
    except SystemExit as error:
        raise ConfigError(
            f'importing {name} ended the program: put what it runs under if __name__ == "__main__":'
        ) from error
    except ConfigError as error:
        if _is_absent(name, error.__cause__):
            raise ConfigError(_not_found(name, folders)) from error
        raise


def _is_absent(name: str, cause: BaseException | None) -> bool:
    """Return whether the module itself is missing, not one that it imports."""
    if not isinstance(cause, ModuleNotFoundError) or cause.name is None:
        return False
    return name == cause.name or name.startswith(f"{cause.name}.")


def _not_found(name: str, folders: Iterable[Path]) -> str:
    package = "/".join(_parts(name)[:-1])
    found = [file for folder in folders for file in (folder / package).glob("*.py")]
    names = [".".join([*_parts(name)[:-1], file.stem]) for file in found]
    known = [other for other in names if not other.endswith("__")]
    places = " or ".join(dict.fromkeys(map(str, folders)))
    others = (
        suggestion(name, known)
        if known
        else f"Its file would be {name.replace('.', '/')}.py, and no .py file is in that place: "
        "check the name, and the folder that you are in"
    )
    return f"there is no module {name!r} in {places}, nor is it installed. {others}"


def _refuse_namesake(name: str, folders: list[Path]) -> None:
    """Refuse a module if another one of the same name was imported before.

    Python would silently return that other one.
    """
    top = _parts(name)[0]
    loaded = getattr(sys.modules.get(top), "__file__", None)
    meant = PathFinder.find_spec(top, [str(folder) for folder in folders])
    if loaded and meant and meant.origin and not Path(meant.origin).samefile(loaded):
        raise ConfigError(
            f"{meant.origin} can't be imported, because {loaded} was imported as {top!r} before. "
            "Rename one of them"
        )


def _parts(module: str) -> list[str]:
    return module.split(".")
