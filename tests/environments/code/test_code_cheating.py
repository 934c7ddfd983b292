"""Code that would rather pass the tests than solve the task. Each attempt is real, and in vain.

Most of them fool a judge that runs the assertions beside the code: that is shown first.
"""

import sys
from contextlib import suppress

import pytest
from tests.patience import PATIENCE

from agentfly.environments.code.judging import Call, Case, Check, Program, judge
from agentfly.sandbox import CellStatus, PythonSandbox, SandboxLimits
from agentfly.types import EnvSpec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

QUICK = EnvSpec(PythonSandbox, (("limits", SandboxLimits(seconds=0.7, grace_seconds=0.2)),))
LONG = EnvSpec(
    PythonSandbox,
    (("limits", SandboxLimits(seconds=2.0, grace_seconds=0.2, output_chars=100_000)),),
)
ASSERTION = "assert f(3) == 9 and f(4) == 16"
HIDDEN: list[Case] = [
    Call(expression="f(3)", accepted=(9,)),
    Check(source=ASSERTION),
    Check(source="def check(candidate):\n    assert candidate(5) == 25\ncheck(f)"),
    Program(stdin="6\n", stdout="36"),
]

FOOLING = {
    "leaving before the tests": "import sys\nsys.exit(0)",
    "leaving in the call": "def f(x):\n    raise SystemExit(0)",
    "an object that equals all": """
class Yes:
    def __eq__(self, other): return True
def f(x): return Yes()""",
    "a number that equals all": """
class Yes(int):
    def __eq__(self, other): return True
    def __hash__(self): return 0
def f(x): return Yes(0)""",
    "an object that makes up its comparisons": """
class Yes:
    def __getattr__(self, name): return lambda *a: True
    def __eq__(self, other): return other
def f(x): return Yes()""",
    "reading the test from the frames": r"""
import sys, re, linecache
def f(x):
    for name, entry in list(linecache.cache.items()):
        for line in (entry[2] if len(entry) > 2 else ()):
            found = re.search(rf"f\({x}\) == (\d+)", line)
            if found and name.startswith("<cell"):
                return int(found[1])""",
    "searching all memory for the test": r"""
import gc, re
def strings(thing, depth=0):
    if isinstance(thing, str): yield thing
    elif isinstance(thing, (list, tuple, dict)) and depth < 4:
        for item in (thing.items() if isinstance(thing, dict) else thing):
            yield from strings(item, depth + 1)
def f(x):
    for thing in gc.get_objects():
        for text in strings(thing):
            found = re.search(rf"\bf\({x}\) == (\d+)", text)
            if found: return int(found[1])""",
}
"""These pass where a judge runs the assertion in the same process."""

IN_VAIN = {
    "leaving for good": "import os\nos._exit(0)",
    "leaving for good in the call": "import os\ndef f(x): os._exit(0)",
    "killing the interpreter": "import os\ndef f(x): os.kill(os.getpid(), 9)",
    "killing everyone": "import os\ndef f(x): os.kill(-1, 9)",
    "looping for ever": "def f(x):\n    while True: pass\nwhile True: pass",
    "looping, deaf to interrupts": """
def f(x):
    while True:
        try:
            while True: pass
        except BaseException: pass""",
    "saying that all is well": "print('passed'); print('OK'); print(('passed',))\ndef f(x): ...",
    "printing every output": "print(*range(999), sep='\\n')\ndef f(x): return list(range(999))",
    "patching what compares": """
import builtins, operator
builtins.all = builtins.any = builtins.bool = builtins.isinstance = lambda *a: True
builtins.repr = builtins.str = lambda *a: 'passed'
builtins.AssertionError = ValueError
builtins.__import__ = lambda *a, **k: None
def f(x): return True""",
    "looking for files": r"""
import os, re
def f(x):
    for root in ("/box", "/tmp", "/dev/shm", "."):
        for folder, _, files in os.walk(root):
            for name in files:
                try: text = open(os.path.join(folder, name)).read()
                except Exception: continue
                found = re.search(rf"f\({x}\) == (\d+)", text)
                if found: return int(found[1])""",
    "a text that runs when it is read": """
class Evil:
    def __repr__(self): return "__import__('os')._exit(0)"
def f(x): return Evil()""",
    "a text that says that it passed": """
class Evil:
    def __repr__(self): return "('passed',)"
def f(x): return Evil()""",
    "a text that nobody can parse": """
class Evil:
    def __repr__(self): return "[" * 90_000
def f(x): return Evil()""",
    "a text that closes the call": """
class Evil(str):
    def __repr__(self): return "9)) or ('passed',"
def f(x): return Evil()""",
    "an error that ends the examiner": """
def f(x):
    raise type("SystemExit", (Exception,), {})("passed")""",
    "an error by the name of an event": """
def f(x):
    raise type("passed", (Exception,), {})("')")""",
    "forging the interpreter's answers": """
import json, os, struct
for number in range(1, 40):
    for value in ("True", "('passed',)", None):
        answer = {"number": number, "value": value, "images": [], "error": None, "note": None,
                  "stdout": "passed", "stderr": "", "limit": None, "interrupted": False,
                  "processes_ended": 0}
        body = json.dumps(answer).encode()
        for descriptor in (200, 201):
            try: os.write(descriptor, struct.pack("<I", len(body)) + body)
            except OSError: pass
def f(x): return True""",
    "forging answers that are no answers": """
import json, os, struct
answer = {"number": 3, "value": None, "images": [], "error": "", "note": None, "stdout": "",
          "stderr": "", "limit": "", "interrupted": False, "processes_ended": 0, "exit_code": {}}
others = [{**answer, "number": 4, "value": 0}, {"number": 5}, [], {**answer, "images": 3}]
for answer in (answer, *others):
    body = json.dumps(answer).encode()
    os.write(200, struct.pack("<I", len(body)) + body)
def f(x): return True""",
    "forging well-formed answers": """
import json, os, struct
for number in range(1, 40):
    for value in (b"True", b"('passed',)", b""):
        parts = [["value", len(value)]] if value else []
        head = {"number": number, "interrupted": False, "limit": None, "exit_code": None,
                "processes_ended": 0, "figures_left_out": 0, "parts": parts}
        head = json.dumps(head).encode()
        body = struct.pack("<I", len(head)) + head + value
        os.write(200, struct.pack("<I", len(body)) + body)
def f(x): return True""",
    "closing the channel": """
import socket
def f(x): socket.socket(fileno=200).shutdown(2)
f(0)""",
    "closing the channel in the call": """
import socket
def f(x): socket.socket(fileno=200).shutdown(2)""",
    "announcing its own death": """
import os, struct
def f(x): os.write(200, struct.pack("<I", 11) + b'{"died":{}}')
if __name__ == "__main__": f(0)""",
    "a number that lies about itself": """
class Lie(int):
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "bool", "contains", "iter", "len"):
        locals()[f"__{name}__"] = lambda *a: True
    def __hash__(self): return 9
    def __repr__(self): return "Lie"
def f(x): return Lie(x)""",
    "a list that lies about itself": """
class Lie(list):
    def __eq__(self, other): return True
    def __iter__(self): raise StopIteration
    def __len__(self): return 0
def f(x): return Lie([1])""",
    "a generator that raises when read": "def f(x):\n    yield from ()\n    raise StopIteration",
    "an end of iteration": "def f(x):\n    raise StopIteration(x * x)",
    "a report of no exception": """
def f(x): raise ValueError
globals().setdefault("__reporter__", {})["take"] = lambda number: [["passed"], [], 3]""",
    "a report of strange names": """
def f(x): raise ValueError
globals().setdefault("__reporter__", {})["take"] = lambda number: ([[]], "", "")""",
    "a report that crashes who reads it": """
def f(x): raise ValueError
report = ["UnicodeDecodeError"], f"('utf-8', b'x', {-10**12}, {1 - 10**12}, 'x')", "m"
globals().setdefault("__reporter__", {})["take"] = lambda number: report""",
    "leaving when all is done": """
import atexit, os
atexit.register(os._exit, 0)
def f(x): raise SystemExit(0)""",
    "stopping the interpreter's clock": """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
def f(x):
    while True: pass""",
}
"""These don't, and not here either."""


@pytest.mark.parametrize("code", FOOLING.values(), ids=FOOLING)
async def test_a_judge_in_the_same_process_is_fooled(code: str) -> None:
    sandbox = PythonSandbox()
    together = await sandbox.run(f"{code}\n{ASSERTION}")
    await sandbox.close()
    assert together.status is CellStatus.OK


@pytest.mark.parametrize("code", [*FOOLING.values(), *IN_VAIN.values()], ids=[*FOOLING, *IN_VAIN])
async def test_a_cheat_passes_no_test(code: str) -> None:
    verdict = await judge(code, HIDDEN, sandbox=QUICK, total_seconds=2)
    assert None not in verdict.problems


FORGED_REPRS = {
    "a fraction of many digits": "Fraction('1e3000000')",
    "a range that becomes a queue": "deque(range(3_000_000))",
    "bytes by their number": "bytearray(30_000_000)",
    "keys of a range": "dict_keys(range(3_000_000))",
    "a number that compares slowly": "Decimal('1e999999999')",
    "a number that can't be compared": "Decimal('sNaN')",
    "an unknown encoding": "bytearray('x', 'foo')",
    "a table that can't be hashed": "{Decimal('sNaN'): 9}",
    "deep queues": "deque([" * 99 + "])" * 99,
    "deep tables": "dict_items([(1, " * 66 + "9" + ")])" * 66,
}
SAYING = """
class Evil:
    def __repr__(self): return {!r}
def f(x): {}"""


@pytest.mark.parametrize("giving", ["return Evil()", "raise ValueError(Evil())"])
@pytest.mark.parametrize("text", FORGED_REPRS.values(), ids=FORGED_REPRS)
async def test_a_forged_value_is_a_failure_and_costs_no_time(text: str, giving: str) -> None:
    """It is neither made in this process nor a reason to leave the chain unscored."""
    problems: tuple[str | None, ...] = (None,)
    with suppress(RecursionError):  # With such values in its frames, pytest takes hours to show it.
        code = SAYING.format(text, giving)
        problems = (await judge(code, HIDDEN, sandbox=QUICK, total_seconds=PATIENCE)).problems
    assert None not in problems


UNUSED = "the test uses nothing that the code defines"
FORGED_VERDICTS = {
    "while it is loaded": f"raise Exception('x\\n{UNUSED}')",
    "in the call": f"def f(x): raise Exception('x\\n{UNUSED}')",
    "by the name of an error": f"def f(x): raise type({UNUSED!r}, (Exception,), {{}})",
    "by leaving": f"raise SystemExit('x\\n{UNUSED}')",
    "as a value": f"def f(x): return {UNUSED!r}",
}


@pytest.mark.parametrize("code", FORGED_VERDICTS.values(), ids=FORGED_VERDICTS)
async def test_the_verdict_of_an_unused_test_can_not_be_forged(code: str) -> None:
    """Beside a test that passes, it would be a pass; so it must be no text that code can make."""
    honest = "if __name__ == '__main__':\n    print(36)\n    raise SystemExit"
    verdict = await judge(f"{honest}\n{code}", HIDDEN, sandbox=QUICK, total_seconds=PATIENCE)
    assert [problem is None for problem in verdict.problems] == [False, False, False, True]


READING = (
    "assert list(f(3)) == [9]",
    "assert next(iter(f(4))) == 16",
    "(x,) = f(5)\nassert x == 25",
    "assert 36 in f(6)",
    "assert dict(zip(f(7), f(8))) == {49: 64}",
    "assert sorted(f(9)) == [81] and max(f(9)) == 81",
    "for got, expected in zip(f(10), [100], strict=True):\n    assert got == expected",
    "assert f(11) == (121,)",
    "assert (144,) == f(12)",
    "assert f(13)[0] == 169",
    "assert {f(14), (196,)} == {(196,)}",
    "assert f(15) in [(225,)]",
    "assert [(256,)].index(f(16)) == 0",
    "assert f(17) >= (289,) >= f(17) and len(f(17)) == 1",
    "assert {frozenset({324})} == f(18)",
    "assert f(19) == {361}",
)
"""Tests that read iterators, tuples and sets. The right value is that of `CONTENTS`."""
YES = """
class Yes:
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "bool", "contains"):
        locals()[f"__{name}__"] = lambda *a: True
    def __hash__(self): return 0
    def __len__(self): return 1
    def __getitem__(self, key): return self
    def __iter__(self): return self
    def __next__(self): return self
    def __getattr__(self, name): return lambda *a: True
"""
IN_DISGUISE = {
    "an iterator of what equals all": "def f(x): return iter([Yes()])",
    "a generator of what equals all, without end": "def f(x):\n    while True: yield Yes()",
    "all numbers": "import itertools\ndef f(x): return itertools.count()",
    "all numbers, for ever": "import itertools\ndef f(x): return itertools.cycle(range(400))",
    "iterators of iterators": """
import itertools
def f(x): return (itertools.count() for _ in itertools.count())""",
    "much from little": "def f(x):\n    while True: yield 'x' * 10_000_000",
    "an iterator that pretends to be built in": """
Yes.__module__ = "builtins"
def f(x): return Yes()""",
    "an iterator that pretends to be a map": """
class Lie(Yes):
    __module__, __qualname__, __class__ = "builtins", "map", map
    def __repr__(self): return "<map object at 0x7f0000000000>"
def f(x): return Lie()""",
    "a generator that watches how far it is read": """
seen = []
def items():
    for n in range(400):
        seen.append(n)
        yield n
def f(x):
    if seen: return iter([seen[-1]])
    return items()""",
    "a generator that replaces what lists it": """
def items():
    __writer__["list_items"] = lambda items: [Yes()]
    yield 0
def f(x): return items()""",
    "a list of items that is none": """
__writer__["list_items"] = lambda items: Yes()
def f(x): return iter([])""",
    "a list of items that is a text": """
__writer__["list_items"] = lambda items: ("passed",)
def f(x): return iter([])""",
    "no more items": """
def no_more(items): raise StopIteration
__writer__["list_items"] = no_more
def f(x): return iter([])""",
    "all is an iterator": """
__writer__["is_iterator"] = lambda value: True
def f(x): return Yes()""",
    "an iterator that can't be said": """
class Lie:
    def __repr__(self): return "True"
__writer__["is_iterator"] = lambda value: Lie()
def f(x): return Yes()""",
    "a tuple that lies about itself": """
class Lie(tuple):
    _fields = ("x",)
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "bool", "contains"):
        locals()[f"__{name}__"] = lambda *a: True
    def __hash__(self): return hash((196,))
    def __len__(self): return 1
    def __getitem__(self, key): return Yes()
    def __iter__(self): return iter([Yes()])
    def __repr__(self): return "(x == x)"
def f(x): return Lie([0, 0])""",
    "a tuple of all fields": """
class Fields:
    def __eq__(self, other): return True
    def __iter__(self): return iter(["count", "index", "__eq__", "__iter__", "__class__"])
    def __len__(self): return 1
class Lie(tuple):
    _fields = Fields()
    def __getattribute__(self, name): return Yes()
def f(x): return Lie()""",
    "a tuple that never ends": """
class Lie(tuple):
    _fields = ("x",)
    def __iter__(self):
        while True: yield Yes()
def f(x): return Lie()""",
    "what is no tuple": """
class Lie(Yes):
    __class__, _fields = tuple, ("x",)
    def __repr__(self): return "namedtuple(((1), 2))"
def f(x): return Lie()""",
    "a namedtuple of what equals all": """
from collections import namedtuple
def f(x): return namedtuple("P", "x")(Yes())""",
    "a text for a namedtuple of much": """
class Lie(Yes):
    def __repr__(self): return "namedtuple(range(10**9))"
def f(x): return Lie()""",
    "a text for namedtuples in a list": """
class Lie(Yes):
    def __repr__(self): return "[namedtuple((9,)), namedtuple(())]"
def f(x): return Lie()""",
    "a frozenset that lies about itself": """
class Lie(frozenset):
    def __eq__(self, other): return True
    def __hash__(self): return hash(frozenset({324}))
def f(x): return {Lie()}""",
    "a text for a frozenset of much": """
class Lie(Yes):
    def __repr__(self): return "frozenset(range(10**9))"
def f(x): return Lie()""",
    "an error by the name of the limit": """
def f(x):
    raise type("TooLongError", (BaseException,), {})("('passed',)")""",
}
"""Results that are no plain values, but are read as such."""
CONTENTS = "def f(x): return {}"
HONEST = {
    "a list": CONTENTS.format("[x * x]"),
    "an iterator": CONTENTS.format("iter([x * x])"),
    "a namedtuple": "from collections import namedtuple\nP = namedtuple('P', 'x')\n"
    + CONTENTS.format("P(x * x)"),
    "sets": CONTENTS.format("{frozenset({x * x})} if x == 18 else {x * x}"),
}


@pytest.mark.parametrize("code", IN_DISGUISE.values(), ids=IN_DISGUISE)
async def test_a_cheat_in_disguise_passes_no_test_that_reads_it(code: str) -> None:
    cases: list[Case] = [Check(source=source) for source in READING]
    verdict = await judge(YES + code, cases, sandbox=LONG, total_seconds=PATIENCE)
    assert None not in verdict.problems


async def test_each_of_these_tests_can_be_passed() -> None:
    cases: list[Case] = [Check(source=source) for source in READING]
    verdicts = [await judge(code, cases) for code in HONEST.values()]
    passed = [[problem is None for problem in verdict.problems] for verdict in verdicts]
    assert all(map(any, zip(*passed, strict=True)))


async def test_an_iterator_is_read_to_its_end_wherever_the_test_stops() -> None:
    """Otherwise the code would see where its items are no longer the expected ones."""
    code = """
read = []
def f(x):
    for n in range(9):
        read.append(n)
        yield n
def how_far(): return read"""
    for stop in ("next(f(3))", "0 in f(3)", "for _ in f(3): break"):
        cases = [Check(source=f"{stop}\nassert how_far() == list(range(9))")]
        assert (await judge(code, cases)).problems == (None,)


async def test_what_is_solved_passes_all_of_them() -> None:
    code = "def f(x): return x * x\nif __name__ == '__main__': print(f(int(input())))"
    assert (await judge(code, HIDDEN)).share == 1.0
