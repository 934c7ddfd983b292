"""Names that tests take from the code under test, built-in ones included."""

import ast
import builtins

_BUILTINS = frozenset(dir(builtins))
_ERRORS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)
_MODULE = "solution"
"""Name of the module that holds the code under test."""


def free_names(source: str) -> set[str]:
    r"""Return the names that a program uses but does not define, without built-in ones.

    >>> free_names("import math\nfor n in (1, 2): assert f(n) == math.sqrt(n)")
    {'f'}
    """
    return _open_names(ast.parse(source)) - _BUILTINS


def judged_builtins(source: str, *, defined: frozenset[str] = frozenset()) -> set[str]:
    """Return the built-in names that a test can only mean as the code's own functions.

    They are those of a test that uses no other names: Python's own function would need no test. A
    function around another one is taken for a helper of the test, and so is a type beside a
    function. A name in `defined` is a variable of the tests, such as an import of the setup.

    >>> judged_builtins("assert round(sum(1.5, 2), 1) == 3.5")
    {'sum'}
    >>> judged_builtins("assert sum(f(3)) == 6")
    set()
    """
    tree = ast.parse(source)
    names = _open_names(tree)
    if names - _BUILTINS or names & defined:
        return set()
    called = {call.func.id for call in _calls(tree)} & names - _ERRORS
    around = {
        call.func.id
        for call in _calls(tree)
        for inner in _calls(*call.args, *call.keywords)
        if inner.func.id in called and inner.func.id != call.func.id
    }
    found = called - around
    functions = {name for name in found if not isinstance(getattr(builtins, name), type)}
    return functions or found


def reference(name: str) -> str:
    """Return an expression for one of the code's names that is never Python's own function.

    >>> reference("f"), reference("sum")
    ('f', "__import__('solution').sum")
    """
    return f"__import__({_MODULE!r}).{name}" if name in _BUILTINS else name


def with_references(expression: str, names: set[str]) -> str:
    """Return an expression with these names as references to the code's own."""
    if not names:
        return expression
    return ast.unparse(_References(names).visit(ast.parse(expression, mode="eval")))


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


def defined_names(source: str) -> frozenset[str]:
    """Return the names that a program defines or imports."""
    return frozenset(_names(ast.parse(source))[1])


def _open_names(tree: ast.AST) -> set[str]:
    """Return the names that a program uses but does not define."""
    used, made = _names(tree)
    return used - made


def _names(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names that a program uses, and those that it defines."""
    used, made = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name) | ast.arg(arg=name):
                made.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                made.add(name)
            case ast.ExceptHandler(name=str(name)):
                made.add(name)
            case ast.alias(name=name, asname=other):
                made.add(other or name.partition(".")[0])
    return used, made
