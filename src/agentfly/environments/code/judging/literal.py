"""Plain values as text, parsed without running code, and compared with those of a task."""

import ast
import datetime
import math
import re
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from agentfly.environments.code.judging.writing import write_value

MAX_CHARACTERS = 100_000
"""Maximum length of an answer that is parsed."""
MAX_EXPONENT = 1_100_000
"""Maximum exponent of a Decimal: more than any has that was computed in Python's own context."""
MAX_BITS_BESIDE_DECIMAL = 1 << 14
"""Maximum size of an integer in a value with Decimals.

To compare the two takes quadratic time, and a set with equal hashes compares all pairs.
"""

_FLOATS = {"inf": math.inf, "nan": math.nan}
_WRAPPERS = ("array", "Counter", "dict", "int", "float", "str_")
"""Calls that may wrap a plain value: `Counter({'a': 1})`, `array([1, 2])`."""
_NUMPY_WRAPPER = re.compile(r"(u?int|float)\d+")
_DEFAULTDICT = re.compile(r"\bdefaultdict\((?:<(?:[^<>]|<[^<>]*>)*>|None), ")


class NamedContents(tuple[Any, ...]):
    """The values of a namedtuple, without the names."""


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and abs(value.adjusted()) > MAX_EXPONENT:
        raise ValueError("an exponent that makes calculations slow")
    return value


def _table(content: Any = ()) -> dict[Any, Any]:
    if not isinstance(content, dict) and any(type(pair) is not tuple for pair in content):
        raise TypeError("pairs are written as tuples; `dict` would list all of a range")
    return dict(content)


class _Maker(NamedTuple):
    """Makes a value of the standard library, of at most the size of its text."""

    make: Callable[..., Any]
    takes: tuple[type, ...] = ()
    """Types of arguments in the `repr` of such values. Any other, and be it a range for a list,
    may make a value that is far larger than its text."""


_MAKERS = {
    "Counter": _Maker(dict),
    "Decimal": _Maker(_decimal, (str,)),
    "Fraction": _Maker(Fraction, (int,)),
    "OrderedDict": _Maker(_table, (list, dict)),
    "bytearray": _Maker(bytearray, (bytes,)),
    "date": _Maker(datetime.date, (int,)),
    "datetime": _Maker(datetime.datetime, (int,)),
    "deque": _Maker(deque, (list, int)),
    "dict_items": _Maker(lambda pairs: _table(pairs).items(), (list,)),
    "dict_keys": _Maker(lambda keys: dict.fromkeys(keys).keys(), (list,)),
    "frozenset": _Maker(frozenset, (set,)),
    "namedtuple": _Maker(NamedContents, (tuple,)),
    "range": _Maker(range, (int,)),
    "time": _Maker(datetime.time, (int,)),
    "timedelta": _Maker(datetime.timedelta, (int,)),
}
"""By the name in the `repr`, or in the text by `write_result`; of a counter, an empty one."""


class NotPlainError(ValueError):
    """The text is not a plain value."""


def read_value(text: str) -> Any:
    """Parse the `repr` of numbers, texts, dates, and of built-in containers of them.

    Values of numpy and special dicts become plain ones. Long integers are read in hexadecimal
    digits, in linear time, and only short ones in decimal digits.

    >>> read_value("[1, (2.5, 'x'), {3}, np.int64(4), inf]")
    [1, (2.5, 'x'), {3}, 4, inf]
    >>> read_value("__import__('os').getcwd()")
    Traceback (most recent call last):
    agentfly.environments.code.judging.literal.NotPlainError: no plain value: __import__('os')...
    """
    if len(text) > MAX_CHARACTERS:
        raise NotPlainError(f"more than {MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(_DEFAULTDICT.sub("dict(", text), mode="eval")
        return ast.literal_eval(_Plain().visit(tree))
    except Exception as error:  # The code has written the text.
        raise NotPlainError(f"no plain value: {text[:80]}") from error


def same(said: object, expected: object) -> bool:
    """Compare an answer with a JSON value: tuples equal lists, and keys are texts.

    >>> same((1, {2: 0.1 + 0.2}), [1, {"2": 0.3}])
    True
    """
    try:
        return _equal(said, expected)
    except Exception:  # noqa: BLE001 - Decimal("sNaN") and others raise when they are compared
        return False


def _equal(said: object, expected: object) -> bool:
    match said, expected:
        case (list() | tuple(), list() | tuple()):
            return len(said) == len(expected) and all(map(_equal, said, expected))
        case (dict(), dict()):
            ours, theirs = _by_text(said), _by_text(expected)
            # Keys that are the same text, such as 1 and "1", are still two.
            is_alike = len(said) == len(expected) and ours.keys() == theirs.keys()
            return is_alike and all(_equal(ours[k], theirs[k]) for k in ours)
        case (int() | float(), int() | float()) if float in (type(said), type(expected)):
            return _close(said, expected)
    return said == expected


def _close(said: float, expected: float) -> bool:
    try:
        return math.isclose(said, expected, rel_tol=1e-9, abs_tol=1e-9)
    except OverflowError:  # An integer too large for a float.
        return False


def _by_text(table: dict[Any, Any]) -> dict[str, Any]:
    return {_key_text(key): value for key, value in table.items()}


def _key_text(key: Any) -> str:
    try:
        return str(key)
    except ValueError:  # An integer of too many digits.
        return write_value(key)


class _Plain(ast.NodeTransformer):
    """Replaces nodes that `literal_eval` does not support by plain ones."""

    def __init__(self) -> None:
        self._has_decimal = False
        self._has_long = False

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if node.value is Ellipsis:
            raise ValueError("numpy leaves out the middle of a long array")
        if type(node.value) is int and node.value.bit_length() > MAX_BITS_BESIDE_DECIMAL:
            self._has_long = True
            self._require_quick_comparisons()
        return node

    def _require_quick_comparisons(self) -> None:
        if self._has_long and self._has_decimal:
            raise ValueError("a long integer beside a Decimal makes comparisons slow")

    def visit_Set(self, node: ast.Set) -> ast.AST:
        """Read a set as `write_value` writes it: `{*(), 1}`, since `{}` is a dict."""
        match node.elts:
            case [ast.Starred(value=ast.Tuple(elts=[])), *items]:
                read: Any = {ast.literal_eval(self.visit(item)) for item in items}
                return ast.Constant(read)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_FLOATS[node.id]) if node.id in _FLOATS else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Constant(node.attr == "True_") if node.attr in ("True_", "False_") else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = str(getattr(node.func, "attr", getattr(node.func, "id", "")))
        if len(node.args) == 1 and (name in _WRAPPERS or _NUMPY_WRAPPER.fullmatch(name)):
            inner: ast.AST = self.visit(node.args[0])
            return inner
        if name not in _MAKERS:
            return node
        if name == "Decimal":
            self._has_decimal = True
            self._require_quick_comparisons()
        return ast.Constant(_made(_MAKERS[name], self.generic_visit(node)))


def _made(maker: _Maker, call: Any) -> Any:
    args = [ast.literal_eval(arg) for arg in call.args]
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    for given in (*args, *named.values()):
        if type(given) not in maker.takes:
            raise TypeError(f"no such value is written with {given!r:.80}")
    return maker.make(*args, **named)
