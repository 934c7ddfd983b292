"""Results that are more than plain values: iterators, namedtuples, sets of sets, own classes."""

import sys

import pytest

from agentfly.environments.code.judging import Call, Check, judge
from agentfly.environments.code.judging.writing import MAX_CHARACTERS, is_iterator, list_items
from agentfly.errors import RewardError
from agentfly.sandbox import PythonSandbox, SandboxLimits
from agentfly.types import EnvSpec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

LIMITS = SandboxLimits(seconds=1.0, grace_seconds=0.2, output_chars=100_000)
QUICK = EnvSpec(PythonSandbox, (("limits", LIMITS),))
ITERATORS = """
import itertools
def doubled(x): return map(lambda n: 2 * n, x)
def paired(x): return zip(x, doubled(x))
def even(x): return filter(lambda n: n % 2 == 0, x)
def numbered(x): return enumerate(x)
def turned(x): return reversed(x)
def pairs(x): return itertools.combinations(x, 2)
def each(x): return iter(x)
def below(n):
    if n < 0: raise ValueError("negative")
    yield from range(n)
def endless(): return itertools.count()
def slow():
    while True:
        time.sleep(60)
        yield 0
def nested(): return ((k for k in itertools.count()) for _ in itertools.count())
def huge():
    while True: yield "x" * 1_000_000
def running_sum():
    total = 0
    while True: total += yield total
def first(numbers, n): return [next(numbers) for _ in range(n)]
class Node: pass
def nodes(): yield Node()
"""


async def problems(code: str, *sources: str) -> dict[str, str | None]:
    cases = [Check(source=source) for source in sources]
    verdict = await judge(code, cases, setup="import time", sandbox=QUICK)
    return dict(zip(sources, verdict.problems, strict=True))


async def test_an_iterator_yields_plain_values() -> None:
    right = [
        "assert list(doubled([1, 2])) == [2, 4] and tuple(below(3)) == (0, 1, 2)",
        "assert dict(paired([1, 2])) == {1: 2, 2: 4}",
        "assert set(even([1, 2, 2])) == {2} and 2 in even([1, 2]) and 1 not in even([1, 2])",
        "assert list(numbered('ab')) == [(0, 'a'), (1, 'b')]",
        "assert ''.join(turned('ab')) == 'ba' and list(turned([1, 2])) == [2, 1]",
        "assert sorted(pairs([1, 2, 3])) == [(1, 2), (1, 3), (2, 3)]",
        *(f"assert sorted(each({x})) == [1, 2]" for x in ("[1, 2]", "(1, 2)", "{1, 2}")),
        "assert list(each({1: 2})) == [1] and list(each({1: 2}.items())) == [(1, 2)]",
        "a, b = paired([1, 2])\nassert (a, b) == ((1, 2), (2, 4))",
        "assert [x + y for x, y in zip(below(2), below(2))] == [0, 2]",
        "numbers = below(3)\nassert next(numbers) == 0 and list(numbers) == [1, 2]",
        "assert next(numbers, None) is None and iter(numbers) is numbers",
        "assert list(below(0)) == [] and not any(below(0)) and all(below(0))",
        "assert list(below(9_999)) == list(range(9_999))",
    ]
    wrong = [
        "assert list(doubled([1, 2])) == [1, 2]",
        "assert doubled([1, 2]) == [2, 4]",
        "assert below(1)",
        "assert len(below(1)) == 1",
        "assert str(below(1))",
        "assert below(1) in [0]",
        "assert below(1).data is None",
    ]
    found = await problems(ITERATORS, *right, *wrong)
    assert [source for source, problem in found.items() if problem is None] == right
    assert "no plain value: <generator object below" in str(found["assert below(1)"])


async def test_an_iterator_that_goes_back_to_the_code_has_not_been_read() -> None:
    right = [
        "assert first(endless(), 3) == [0, 1, 2]",
        "numbers = below(9)\nassert first(numbers, 2) == [0, 1] and first(numbers, 1) == [2]",
        "total = running_sum()\ntotal.send(None)\nassert total.send(3) == 3",
        "assert list(doubled(below(3))) == [0, 2, 4] and list(doubled([*below(2)])) == [0, 2]",
    ]
    assert await problems(ITERATORS, *right) == dict.fromkeys(right)


async def test_an_iterator_that_was_read_does_not_go_back_to_the_code() -> None:
    wrong = [
        "numbers = below(2)\nassert next(numbers) == 0\nassert first(numbers, 0) == []",
        "numbers = below(3)\nassert next(numbers) == 0\nassert numbers.send(None) == 1",
    ]
    found = await problems(ITERATORS, *wrong)
    assert all("begun to read" in str(problem) for problem in found.values()), found


@pytest.mark.parametrize("call", ["endless()", "nested()", "huge()"])
@pytest.mark.parametrize("use", ["list({})", "next({})", "5 in {}", "max({})"])
async def test_an_endless_iterator_fails_at_once(call: str, use: str) -> None:
    test = f"try: assert {use.format(call)}\nexcept BaseException: pass"
    (problem,) = (await problems(ITERATORS, test)).values()
    expected = "an iterator without end, or of over 90,000 characters"
    assert problem == f"TooLongError: {expected}"


async def test_an_iterator_that_takes_too_long_or_yields_objects_fails() -> None:
    found = await problems(ITERATORS, "list(slow())", "list(nodes())", "assert list(below(1))")
    assert list(found.values())[::2] == ["TimeoutError: it took too long", None]
    assert "no plain value" in str(found["list(nodes())"])


async def test_what_an_iterator_raises_can_be_expected_where_it_is_read() -> None:
    form = "try:\n    {}\nexcept ValueError as error:\n    assert str(error) == 'negative'\n"
    form += "else:\n    assert False, 'not raised'"
    read, unread = form.format("list(below(-1))"), form.format("below(-1)")
    helper = "import unittest\nunittest.TestCase().assertRaises(ValueError, list, below(-1))"
    hidden = "assert not any(0 for _ in below(-1))"
    found = await problems(ITERATORS, read, unread, helper, hidden)
    assert list(found.values()) == [
        None,
        "AssertionError: not raised",
        None,
        "ValueError: negative",
    ]


def test_only_built_in_kinds_are_iterators() -> None:
    class Own:
        def __iter__(self) -> "Own":
            return self

        def __next__(self) -> int:
            return 1

    assert all(map(is_iterator, [map(abs, ()), iter(""), (x for x in ""), reversed([1])]))
    assert not any(map(is_iterator, [Own(), [1], "x", {}, range(3), Own, map, print]))
    assert len(list_items(iter(["x" * 85_000, "y"]))) == 2
    assert len(list_items("" for _ in range(MAX_CHARACTERS // 4))) == MAX_CHARACTERS // 4


NAMED = """
from collections import namedtuple
from typing import NamedTuple
P = namedtuple("P", "x y")
class Run(NamedTuple):
    value: str
    count: int
    def twice(self): return 2 * self.count
def point(x): return P(x, x + 1)
def across(p, q): return P(q.x - p.x, q.y - p.y)
def total(points): return sum(p.x for p in points)
def run(): return Run("a", 3)
def holding(x): return P(object(), x)
"""


async def test_a_namedtuple_is_compared_as_a_tuple() -> None:
    right = [
        "assert point(1) == (1, 2) and (1, 2) == point(1) and point(1) < point(2)",
        "x, y = point(1)\nassert [x, y] == list(point(1)) == [1, 2]",
        "assert point(1)[0] == 1 and len(point(1)) == 2 and 2 in point(1)",
        "assert sorted([P(2, 1), P(1, 1)]) == [(1, 1), (2, 1)] and {P(1, 2): 3}[1, 2] == 3",
        "assert isinstance(point(1), tuple) and str(point(1)) == '(1, 2)'",
    ]
    wrong = ["assert point(1) == (1, 3)", "assert point(1) == [1, 2]"]
    found = await problems(NAMED, *right, *wrong)
    assert [source for source, problem in found.items() if problem is None] == right


async def test_a_namedtuple_keeps_its_names_and_goes_back_to_the_code() -> None:
    right = [
        "p = point(1)\nassert (p.x, p.y) == (1, 2) and p._asdict() == {'x': 1, 'y': 2}",
        "assert across(P(1, 2), q=P(3, 5)) == (2, 3) and across(point(1), p) == (0, 0)",
        "assert total([P(1, 2), point(3)]) == 4 and p._replace(x=5) == (5, 2)",
        "assert run() == ('a', 3) and run().count == 3 and run().twice() == 6",
        "assert run().index('a') == 0 and p.count(2) == 1",
        "try: p.x = 3\nexcept AttributeError: pass\nelse: assert False",
    ]
    assert await problems(NAMED, *right) == dict.fromkeys(right)


async def test_a_namedtuple_that_holds_an_object_stays_with_the_code() -> None:
    found = await problems(NAMED, "assert holding(2).y == 2", "assert holding(2) == (0, 2)")
    first, second = found.values()
    assert first is None
    assert "no plain value" in str(second)


async def test_sets_of_frozensets_are_sent_both_ways() -> None:
    code = (
        "def f(x): return {frozenset(x), frozenset()}\n"
        "def has(sets, x): return frozenset(x) in sets\n"
        "def table(x): return {frozenset(x): [frozenset(x)]}"
    )
    right = [
        "assert f([1]) == {frozenset({1}), frozenset()} and f([1]) != {frozenset({2})}",
        "assert has({frozenset({1})}, [1]) and has(f([1]), []) and not has(f([1]), [2])",
        "assert table([1]) == {frozenset({1}): [{1}]}",
        "(key,) = table([1])\nassert isinstance(key, frozenset) and isinstance(f([1]), set)",
    ]
    assert await problems(code, *right) == dict.fromkeys(right)


async def test_a_match_has_the_methods_of_a_match() -> None:
    code = "import re\ndef f(s): return re.match(r'(\\d+)x', s)"
    right = [
        "m = f('12x')\nassert m.group(1) == '12' and m.span() == (0, 3) and m.groups() == ('12',)",
        "assert m is not None and f('x') is None and m.end() == 3",
    ]
    found = await problems(code, *right, "assert f('12x')")
    assert [source for source, problem in found.items() if problem is None] == right


async def test_objects_in_lists_and_complex_numbers_are_sent() -> None:
    code = (
        "import cmath\n"
        "class Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\n"
        "def span(pairs, extra): return max(p.b - p.a for p in [*pairs, *extra.values()])\n"
        "def polar(z): return cmath.polar(z)\n"
        "def roots(z): return [cmath.sqrt(z), z.conjugate()]"
    )
    right = [
        "assert span([Pair(5, 24), Pair(15, 25)], {'x': Pair(0, 30)}) == 30",
        "import cmath\nassert polar(1j) == cmath.polar(1j) and polar(complex(2)) == (2.0, 0.0)",
        "assert roots(-4 + 0j) == [2j, -4] and roots(complex(3, -4))[1] == 3 + 4j",
    ]
    assert await problems(code, *right) == dict.fromkeys(right)


async def test_the_forms_that_can_not_be_judged_are_those_of_the_documentation() -> None:
    code = f"{NAMED}\nimport re\n" + (
        "def sort(x): x.sort()\n"
        "def points(): return [P(1, 2)]\n"
        "def rows(x): return [iter(x)]\n"
        "def endless():\n    while True: yield 0\n"
        "def values(x): return x.values()\n"
        "def matched(s): return re.match('a', s)\n"
        "def mapped(x): return map(abs, x)"
    )
    failing = [
        "x = [2, 1]\nsort(x)\nassert x == [1, 2]",
        "assert points() == [(1, 2)]",
        "assert [list(row) for row in rows([1])] == [[1]]",
        "assert next(endless()) == 0",
        "assert list(values({1: 2})) == [2]",
        "assert matched('a')",
        "assert isinstance(mapped([1]), map)",
    ]
    assert None not in (await problems(code, *failing)).values()
    for given in ("lambda: 1", "iter([1])", "Own()"):
        test = Check(source=f"class Own: pass\nassert total({given}) == 1")
        with pytest.raises(RewardError, match="the test can't be judged: it gives the code"):
            await judge(code, [test])


async def test_a_tree_is_built_by_the_test() -> None:
    code = (
        "class Node:\n"
        "    def __init__(self, data): self.data, self.left, self.right = data, None, None\n"
        "def height(node): return 1 + max(height(node.left), height(node.right)) if node else 0"
    )
    source = "root = Node(1)\nroot.left = Node(2)\nassert height(root) == 2 and root.left.data == 2"
    assert await problems(code, source) == {source: None}


async def test_calls_are_compared_with_namedtuples_and_sets_of_sets() -> None:
    code = f"{NAMED}\ndef f(x): return {{frozenset(x)}}\ndef g(x): return iter(x)"
    cases = [
        Call(expression="point(1)", accepted=([1, 2],)),
        Call(expression="point(1)", accepted=([1, 3],)),
        Call(expression="f([1])", accepted=({frozenset({1})},)),
        Call(expression="list(g([1]))", accepted=([1],)),
        Call(expression="g([1])", accepted=([1],)),
    ]
    found = (await judge(code, cases)).problems
    assert [problem is None for problem in found] == [True, False, True, True, False]
    assert found[1] == "point(1) gave (1, 2)"


async def test_what_a_stand_in_holds_is_no_part_of_its_object() -> None:
    code = "from collections import namedtuple\nP = namedtuple('P', 'x')\n"
    code += "class Node: pass\ndef node(): return Node()\ndef point(): return P(1)"
    empty = [
        "assert node().__dict__",
        "assert point().__dict__",
        "assert vars(node()) != vars(node())",
    ]
    assert None not in (await problems(code, *empty)).values()
