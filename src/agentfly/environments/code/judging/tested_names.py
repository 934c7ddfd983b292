"""Names that tests take from the code under test, built-in ones included."""

import ast
import builtins
from collections.abc import Iterable, Iterator

_BUILTINS = frozenset(dir(builtins))
_ERRORS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*_DEFINITIONS, *_COMPREHENSIONS, ast.Lambda)
"""Parts of a program with variables of their own."""
_MODULE = "solution"
"""Name of the module that holds the code under test."""


class TestedNames:
    """Names of the code under test, as far as a task's setup and tests tell."""

    def __init__(
        self, *, code: str, setup: str, sources: Iterable[str], entry_point: str | None
    ) -> None:
        self._written = written = _written_names(code)
        meant = frozenset([entry_point] if entry_point else [])
        programs = "\n".join([setup, *sources])
        self._meant = meant
        self._own_of_checks = own_names(programs, meant, written=written)
        # A call is evaluated beside the code, which may fill an outline of the setup.
        filled = meant | _outlines(setup) & written
        self._own_of_calls = own_names(setup, filled, written=written)
        self.forwarded = frozenset(free_names(programs)) | meant
        """Names whose calls test programs forward to the code, in all of them."""

    def of_check(self, source: str) -> set[str]:
        """Return the names by which a test program means the code, or values it got from it."""
        return self._of(source, self._own_of_checks)

    def of_call(self, expression: str) -> set[str]:
        """Return the names by which an expression means the code."""
        return self._of(expression, self._own_of_calls)

    def _of(self, source: str, own: frozenset[str]) -> set[str]:
        if "*" in own:
            own |= _open_names(ast.parse(source)) - _BUILTINS - self._written - self._meant
        return names_of_code(source, own=own, meant=self._meant)

    def builtins_of_check(self, source: str) -> set[str]:
        """Return the built-in names that are the code's in one test program only."""
        found = (self.of_check(source) & _BUILTINS) - self._meant
        return found & self._written if _is_preparation(source) else found


def free_names(source: str) -> set[str]:
    r"""Return the names that a program uses but does not define, without built-in ones.

    >>> free_names("import math\nfor n in (1, 2): assert f(n) == math.sqrt(n)")
    {'f'}
    """
    return _open_names(ast.parse(source)) - _BUILTINS


def own_names(
    program: str, meant: frozenset[str] = frozenset(), *, written: frozenset[str] = frozenset()
) -> frozenset[str]:
    r"""Return the names that setup and tests define without using the code.

    `meant` are the code's names though the setup defines them. After `from m import *`, a name
    that is nowhere defined is the code's only if the code has `written` it.

    >>> sorted(own_names("import math\nx = [2]\ny = f(x)\nz = y"))
    ['math', 'x']
    """
    tree = ast.parse(program)
    free = _open_names(tree) - _BUILTINS
    of_code = set(meant) | (free & written if "*" in _bound_names(tree) else free)
    own = set[str]()
    for statement in tree.body:
        (of_code if _used_names(statement) & of_code else own).update(_bound_names(statement))
    return frozenset(own - of_code)


def names_of_code(
    source: str, *, own: frozenset[str] = frozenset(), meant: frozenset[str] = frozenset()
) -> set[str]:
    """Return the names by which a test means the code.

    Beside other names that are not the tests' `own`, built-in names are Python's. A test without
    any can only mean functions of the code that are named like built-in ones: Python's own need
    no test.

    >>> names_of_code("assert sum(f(3)) == 6"), names_of_code("assert sum(10, 15) == 6")
    ({'f'}, {'sum'})
    """
    tree = ast.parse(source)
    names = _open_names(tree) - own
    return names - _BUILTINS | names & meant or _judged_builtins(tree, names)


def _judged_builtins(tree: ast.AST, names: set[str]) -> set[str]:
    """Return those built-in names that are the code's.

    A function around another one is taken for a helper of the test, and so is a type beside a
    function: in `round(sum(1.5, 2), 1)`, only `sum` is the code's.
    """
    called = {call.func.id for call in _calls(tree)} & names - _ERRORS
    around = {
        call.func.id
        for call in _calls(tree)
        for inner in _calls(*call.args, *call.keywords)
        if inner.func.id in called and inner.func.id != call.func.id
    }
    found = called - around or names - _ERRORS
    functions = {name for name in found if not isinstance(getattr(builtins, name), type)}
    return functions or found


def reference(name: str) -> str:
    """Return an expression for one of the code's names that is never Python's own function.

    >>> reference("f"), reference("sum")
    ('f', "__import__('solution').sum")
    """
    return f"__import__({_MODULE!r}).{name}" if name in _BUILTINS else name


def with_references(expression: str, names: set[str]) -> str:
    """Return an expression in which those names that are built-in ones are the code's own."""
    if not names & _BUILTINS:
        return expression
    return ast.unparse(_References(names & _BUILTINS).visit(ast.parse(expression, mode="eval")))


def is_missing(problem: str, name: str) -> bool:
    """Return whether an exception says that the code does not define a name."""
    missing = (
        f"NameError: name {name!r} is not defined",
        f"AttributeError: module {_MODULE!r} has no attribute {name!r}",
    )
    return problem.startswith(missing)


class _References(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._names:
            return node
        return ast.parse(reference(node.id), mode="eval").body


class _NamedCall(ast.Call):
    func: ast.Name


def _calls(*trees: ast.AST) -> list[_NamedCall]:
    """Return the calls of plain names."""
    nodes = (node for tree in trees for node in ast.walk(tree))
    return [
        node  # type: ignore[misc]
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]


def _written_names(code: str) -> frozenset[str]:
    """Return the names that the code defines; none if it is not Python."""
    try:
        return frozenset(_bound_names(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def _outlines(setup: str) -> frozenset[str]:
    """Return the functions and classes that a setup defines."""
    return frozenset(node.name for node in ast.parse(setup).body if isinstance(node, _DEFINITIONS))


def _is_preparation(source: str) -> bool:
    """Return whether a test program only sets names for later ones."""
    kinds = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, *_DEFINITIONS)
    return all(isinstance(statement, kinds) for statement in ast.parse(source).body)


def _open_names(tree: ast.Module) -> set[str]:
    """Return the names that a program uses but does not define."""
    used = {name for statement in tree.body for name in _used_names(statement)}
    return used - _bound_names(tree)


def _used_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement reads, without variables of functions within it."""
    nodes = list(ast.walk(statement))
    read = {node.id for node in nodes if isinstance(node, ast.Name) and _is_read(node)}
    return read - (_made_names(nodes) - _bound_names(statement))


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _bound_names(tree: ast.AST) -> set[str]:
    """Return the names that a program defines at its top level; `*` for all of a module."""
    return _made_names(_outer_nodes(tree))


def _outer_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a program, without those in functions, classes and comprehensions."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _made_names(nodes: Iterable[ast.AST]) -> set[str]:
    made = set[str]()
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                made.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                made.add(name)
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                made.add(name)
            case ast.alias(name=name, asname=other):
                made.add(other or name.partition(".")[0])
    return made
