"""Names that tests take from the code under test, built-in ones included.

The terms, by a task whose entry point is `f` and whose code defines `f` and `g`:

    import math                         # The setup.
    def f(x): ...
    data = [2, 3]                       # The tests.
    total = f(data)
    assert g(total) == math.prod(data)

- assigned names: all that a program assigns, imports or defines: `math`, `f`, `x`, `data`, `total`
- top-level names: those assigned outside of functions, so all of these but `x`
- undefined names: read by a program, and not among its top-level names: `g`
- entry points: names that the task gives to the code, even if the setup outlines them: `f`
- defined by the code: the top-level names of the code: `f`, `g`
- defined by the tests: top-level names of setup and tests, without values got from the code:
  `math`, `data`
"""

import ast
import builtins
from collections.abc import Iterable, Iterator

UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors of `ast.parse` for a text that is no Python, or too deeply nested."""
_BUILTINS = frozenset(dir(builtins))
_ERRORS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)
_VALUE_TYPES = frozenset(
    {"bool", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "range", "set"}
    | {"str", "tuple"}
)
"""Built-in types by which tests build arguments and compare results."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*_DEFINITIONS, *_COMPREHENSIONS, ast.Lambda)
"""Parts of a program with variables of their own."""
_MODULE = "solution"
"""Name of the module that holds the code under test."""


class TestedNames:
    """Names of the code under test that a task's setup and tests use."""

    def __init__(
        self, *, code: str, setup: str, sources: Iterable[str], entry_point: str | None
    ) -> None:
        self._defined_by_code = _names_defined_by_code(code)
        self._entry_points = frozenset([entry_point] if entry_point else [])
        programs = "\n".join([setup, *sources])
        self._defined_by_tests = names_defined_by_tests(
            programs, self._entry_points, defined_by_code=self._defined_by_code
        )
        # A call is evaluated beside the code, which may fill an outline of the setup.
        filled = self._entry_points | _outlines(setup) & self._defined_by_code
        self._defined_by_setup = names_defined_by_tests(
            setup, filled, defined_by_code=self._defined_by_code
        )
        undefined = _undefined_names(ast.parse(programs)) - _BUILTINS
        self.forwarded = self._entry_points | undefined
        """Names whose calls test programs forward to the code, in all of them."""

    def of_check(self, source: str) -> set[str]:
        """Return the names of the code in a test program, and of values that it got from it."""
        return self._of(source, self._defined_by_tests)

    def of_call(self, expression: str) -> set[str]:
        """Return the names of the code in an expression."""
        return self._of(expression, self._defined_by_setup)

    def _of(self, source: str, defined_by_tests: frozenset[str]) -> set[str]:
        if "*" in defined_by_tests:
            undefined = _undefined_names(ast.parse(source)) - _BUILTINS
            defined_by_tests |= undefined - self._defined_by_code - self._entry_points
        return names_of_code(
            source, defined_by_tests=defined_by_tests, entry_points=self._entry_points
        )

    def builtins_of_check(self, source: str) -> set[str]:
        """Return the built-in names that are the code's in one test program only."""
        found = (self.of_check(source) & _BUILTINS) - self._entry_points
        return found & self._defined_by_code if _is_preparation(source) else found


def names_defined_by_tests(
    program: str,
    entry_points: frozenset[str] = frozenset(),
    *,
    defined_by_code: frozenset[str] = frozenset(),
) -> frozenset[str]:
    r"""Return the names that setup and tests define without using the code.

    After `from m import *`, an undefined name is the code's only if the code defines it.

    >>> sorted(names_defined_by_tests("import math\nx = [2]\ny = f(x)\nz = y"))
    ['math', 'x']
    """
    tree = ast.parse(program)
    undefined = _undefined_names(tree) - _BUILTINS
    imports_all = "*" in _top_level_names(tree)
    of_code = entry_points | (undefined & defined_by_code if imports_all else undefined)
    of_tests = set[str]()
    for statement in tree.body:
        names = _top_level_names(statement)
        if _used_names(statement) & of_code:
            of_code |= names
        else:
            of_tests |= names
    return frozenset(of_tests - of_code)


def names_of_code(
    source: str,
    *,
    defined_by_tests: frozenset[str] = frozenset(),
    entry_points: frozenset[str] = frozenset(),
) -> set[str]:
    """Return the names of the code in a test.

    Beside other names that the tests don't define, built-in names are Python's. In a test without
    any, they can only be functions of the code that are named like built-in ones: Python's own
    need no test.

    >>> names_of_code("assert sum(f(3)) == 6"), names_of_code("assert sum(10, 15) == 6")
    ({'f'}, {'sum'})
    """
    tree = ast.parse(source)
    names = _undefined_names(tree) - defined_by_tests
    return names - _BUILTINS | names & entry_points or _judged_builtins(tree, names)


def _judged_builtins(tree: ast.AST, names: set[str]) -> set[str]:
    """Return those built-in names that are the code's.

    A function around another one is taken for a helper of the test, and so is a type beside a
    function: in `round(sum(1.5, 2), 1)` and in `sum(list(range(5)))`, only `sum` is the code's.
    """
    called = {call.func.id for call in _calls(tree)} & names - _ERRORS
    around = {
        call.func.id
        for call in _calls(tree)
        for inner in _calls(*call.args, *call.keywords)
        if inner.func.id in called and inner.func.id != call.func.id
        if inner.func.id not in _VALUE_TYPES or call.func.id in _VALUE_TYPES
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


def _names_defined_by_code(code: str) -> frozenset[str]:
    """Return the names that the code defines; none if it is not Python."""
    try:
        return frozenset(_top_level_names(ast.parse(code)))
    except UNPARSABLE:
        return frozenset()


def _outlines(setup: str) -> frozenset[str]:
    """Return the functions and classes that a setup defines."""
    return frozenset(node.name for node in ast.parse(setup).body if isinstance(node, _DEFINITIONS))


def _is_preparation(source: str) -> bool:
    """Return whether a test program only sets names for later ones."""
    kinds = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, *_DEFINITIONS)
    return all(isinstance(statement, kinds) for statement in ast.parse(source).body)


def _undefined_names(tree: ast.Module) -> set[str]:
    r"""Return the names that a program uses but does not define, built-in ones included.

    >>> source = "import math\nfor n in (1, 2): assert f(n) == abs(math.sqrt(n))"
    >>> sorted(_undefined_names(ast.parse(source)))
    ['abs', 'f']
    >>> source = "match f():\n    case [a, *b] | {'a': a, **b}: assert a in b"
    >>> sorted(_undefined_names(ast.parse(source)))
    ['f']
    """
    used = {name for statement in tree.body for name in _used_names(statement)}
    return used - _top_level_names(tree)


def _used_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement reads, without variables of functions within it."""
    nodes = list(ast.walk(statement))
    read = {node.id for node in nodes if isinstance(node, ast.Name) and _is_read(node)}
    return read - (_assigned_names(nodes) - _top_level_names(statement))


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _top_level_names(tree: ast.AST) -> set[str]:
    """Return the names assigned at a program's top level; `*` for all of a module."""
    return _assigned_names(_outer_nodes(tree))


def _outer_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a program, without those in functions, classes and comprehensions."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _assigned_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that nodes assign, import or define."""
    assigned = set[str]()
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                assigned.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                assigned.add(name)
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                assigned.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                assigned.add(name)
            case ast.MatchMapping(rest=str(name)):
                assigned.add(name)
            case ast.alias(name=name, asname=other):
                assigned.add(other or name.partition(".")[0])
    return assigned
