"""An exception, an exit or a lazy object of the code passes no test that does not ask for it."""

import gc
import sys
import weakref

import pytest

from agentfly.environments.code.judging import (
    Call,
    Case,
    Check,
    Program,
    Verdict,
    examiner,
    judge,
    writing,
)
from agentfly.environments.code.judging.literal import MAX_CHARACTERS
from agentfly.errors import RewardError
from agentfly.sandbox import PythonSandbox, SandboxLimits
from agentfly.types import EnvSpec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

LIMITS = SandboxLimits(seconds=30.0, grace_seconds=0.2, output_chars=MAX_CHARACTERS)
PATIENT = EnvSpec(PythonSandbox, (("limits", LIMITS),))
QUICK_LIMITS = SandboxLimits(seconds=1.0, grace_seconds=0.2, output_chars=MAX_CHARACTERS)
QUICK = EnvSpec(PythonSandbox, (("limits", QUICK_LIMITS),))


async def verdict_on(code: str, *sources: str, setup: str = "") -> Verdict:
    checks = [Check(source=source) for source in sources]
    return await judge(code, checks, setup=setup, sandbox=PATIENT, total_seconds=600)


def passed(verdict: Verdict, sources: list[str]) -> list[str]:
    named = zip(sources, verdict.problems, strict=True)
    return [source for source, problem in named if problem is None]


SWALLOWING = [
    "assert all(map(f, [1, 2]))",
    "assert not any(map(f, [1, 2]))",
    "assert list(map(f, [1, 2])) == []",
    "assert [*map(f, [1, 2])] == []",
    "assert next(map(f, [1]), 5) == 5",
    "for y in map(f, [1]): assert y == 7",
    "assert max(map(f, [1]), default=3) == 3",
    "assert sum(map(f, [1])) == 0",
    "assert list(iter(lambda: f(1), None)) == []",
    "assert dict(zip([1], map(f, [1]))) == {}",
    "assert list(filter(f, [1])) == []",
    "assert ''.join(map(f, 'ab')) == ''",
    "assert 3 not in map(f, [1])",
    "a, *b = [0, *map(f, [1])]\nassert b == []",
    "import itertools\nassert list(itertools.chain(map(f, [1]))) == []",
    "import heapq\nassert list(heapq.merge(map(f, [1]))) == []",
    "class S:\n    def __getitem__(self, i): return f(i)\nassert list(S()) == []",
    "class P:\n    x = property(lambda self: f(1))\nassert not hasattr(P(), 'x')",
    "class P:\n    x = property(lambda self: f(1))\nassert getattr(P(), 'x', 9) == 9",
    "class L:\n    def __len__(self): return f(1)\n    def __iter__(self): return iter(())\n"
    "assert list(L()) == []",
    "import threading\nt = threading.Thread(target=f, args=(1,))\nt.start()\nt.join()",
    "class D:\n    def __del__(self): f(1)\nD()",
    "def g():\n    try: yield 1\n    finally: f(1)\nfor _ in g(): break",
    "def g():\n    try: return f(1)\n    finally: return 2\nassert g() == 2",
    "async def run():\n    async for _ in A(): pass\n"
    "class A:\n    def __aiter__(self): return self\n    async def __anext__(self): return f(1)\n"
    "import asyncio\nasyncio.run(run())",
    "assert f(1) is None",
    "assert not f(1)",
]
"""Tests that pass if Python, and not they themselves, swallows what the code raises."""


@pytest.mark.parametrize(
    "error",
    [
        "StopIteration",
        "StopAsyncIteration",
        "GeneratorExit",
        "KeyboardInterrupt",
        "SystemExit",
        "SystemExit(0)",
        "IndexError",
        "AttributeError",
        "TypeError",
        "type('StopIteration', (StopIteration,), {})",
        "type('Own', (StopIteration,), {})",
        "type('Own', (AttributeError,), {})",
        "UnicodeDecodeError('utf-8', b'x', 0, 1, '')",
        "type('Sly', (Exception,), {'__class__': property(lambda self: SystemExit)})",
    ],
)
async def test_an_exception_that_python_swallows_is_a_failure(error: str) -> None:
    code = f"def f(*args):\n    raise {error}"
    assert passed(await verdict_on(code, *SWALLOWING), SWALLOWING) == []


async def test_without_an_exception_such_a_test_may_pass() -> None:
    verdict = await verdict_on("def f(x): return x", *SWALLOWING[:1])
    assert verdict.problems == (None,)


EXPECTING = [
    "try:\n    f(1)\nexcept ValueError as error:\n    assert str(error) == 'too small'\n"
    "else:\n    raise AssertionError",
    "try:\n    f(1)\nexcept (TypeError, ValueError): pass\nelse: raise AssertionError",
    "try:\n    f(1)\nexcept: pass\nelse: raise AssertionError",
    "try:\n    f(1)\nexcept* ValueError: pass\nelse: raise AssertionError",
    "import contextlib\nwith contextlib.suppress(ValueError):\n    f(1)\n    raise AssertionError",
    "import unittest\nwith unittest.TestCase().assertRaises(ValueError):\n    f(1)",
    "import unittest\nunittest.TestCase().assertRaises(ValueError, f, 1)",
    "import unittest\nunittest.TestCase().assertRaises(ValueError, lambda: f(1))",
    "import unittest\n"
    "with unittest.TestCase().assertRaisesRegex(ValueError, 'small') as seen:\n    f(1)\n"
    "assert 'too' in str(seen.exception)",
    "import contextlib\n@contextlib.contextmanager\ndef raises():\n    try:\n        yield\n"
    "    except ValueError: return\n    raise AssertionError\nwith raises():\n    f(1)",
    "assert raised(lambda: f(1)) == 'ValueError'",
    "def g(n):\n    try: return f(n)\n    except ValueError: return 7\nassert [g(1)] == [7]",
    "try:\n    list(f(n) for n in [1])\nexcept ValueError: pass\nelse: raise AssertionError",
]
"""Tests that expect a ValueError of the code."""
RAISED = """
def raised(call):
    try: call()
    except Exception as error: return type(error).__name__
"""


async def test_an_exception_that_a_test_expects_is_no_failure() -> None:
    right = "def f(x):\n    raise ValueError('too small')"
    assert passed(await verdict_on(right, *EXPECTING, setup=RAISED), EXPECTING) == EXPECTING
    wrong = "def f(x): return 1"
    assert passed(await verdict_on(wrong, *EXPECTING, setup=RAISED), EXPECTING) == []


async def test_an_expected_stop_iteration_is_no_failure() -> None:
    source = "try:\n    f(1)\nexcept StopIteration: pass\nelse: raise AssertionError"
    assert (await verdict_on("def f(x): raise StopIteration", source)).share == 1.0


FORMS = {
    "a message of two lines": ("ValueError", "raise ValueError('first\\nsecond')"),
    "no message": ("ValueError", "raise ValueError"),
    "a class of its own": ("ValueError", "raise M('first')"),
    "its own of its own": ("ArithmeticError", "raise type('N', (ZeroDivisionError,), {})('first')"),
    "its own by a built-in name": ("TimeoutError", "raise type('TimeoutError', (M,), {})('first')"),
    "of the standard library": ("ValueError", "import json\n    json.loads('{')"),
    "of five arguments": ("UnicodeDecodeError", r"b'\xff'.decode()"),
    "of four arguments": ("UnicodeTranslateError", "raise UnicodeTranslateError('x', 0, 1, 'no')"),
    "of its own, of five arguments": (
        "UnicodeEncodeError",
        "raise type('U', (UnicodeEncodeError,), {'__str__': lambda _: 'said'})('a', 'é', 0, 1, '')",
    ),
    "a key": ("KeyError", "{}['x']"),
    "a key that is a number": ("KeyError", "{}[3]"),
    "a file": ("FileNotFoundError", "open('nothing')"),
    "a file, as its base": ("OSError", "open('nothing')"),
    "an end": ("StopIteration", "next(iter([]))"),
    "a value at the end": ("StopIteration", "raise StopIteration(3)"),
    "an object as argument": ("ValueError", "raise ValueError(M)"),
    "an assertion": ("AssertionError", "assert x == 2, 'two'"),
    "without words": ("KeyError", "raise type('K', (KeyError,), {'__str__': str.upper})"),
    "a group": ("Exception", "raise ExceptionGroup('several', [ValueError('one')])"),
    "syntax": ("SyntaxError", "eval('1 +')"),
    "too deep": ("RecursionError", "f(x)"),
    "a very long message": ("ValueError", "raise ValueError('x' * 200_000)"),
    "many classes": ("ValueError", "raise many(ValueError)('x')"),
}
"""Ways to raise what a test expects."""
FORMS_OF = """
import builtins
class M(ValueError): pass
def many(kind):
    for n in range(99): kind = builtins.type(f'Kind{n}', (kind,), {})
    return kind
str = type = repr = getattr = 0  # Names that right code may well use.
"""


@pytest.mark.parametrize(("kind", "statement"), FORMS.values(), ids=FORMS)
async def test_an_expected_exception_may_be_raised_in_any_form(kind: str, statement: str) -> None:
    code = f"{FORMS_OF}def f(x, type=builtins.type, str=builtins.str):\n    {statement}\n"
    expecting = f"try:\n    f(1)\nexcept {kind}: pass\nelse: raise AssertionError"
    other = expecting.replace(f"except {kind}", "except BufferError")
    swallowing = (
        "class L:\n  def __len__(self): return f(1)\n  def __iter__(self): return iter(())\n"
    )
    sources = [expecting, other, f"{swallowing}assert list(L()) == []"]
    assert passed(await verdict_on(code, *sources), sources) == [expecting]


async def test_an_exception_says_what_it_said() -> None:
    statements = {
        "raise ValueError('first\\nsecond', 2)": "error.args == ('first\\nsecond', 2)",
        "raise type('M', (ValueError,), {})('first\\nsecond')": "str(error) == 'first\\nsecond'",
        "{}['x']": "str(error) == repr('x') and error.args == ('x',)",
        "raise type('K', (KeyError,), {'__str__': lambda _: 'new'})": "str(error) == 'new'",
        "raise type('M', (ValueError,), {'__str__': lambda _: 'new'})": (
            "(type(error), error.args) == (ValueError, ('new',))"
        ),
        "open('nothing')": "error.errno == 2 and error.filename == 'nothing'",
        r"b'ab\xff'.decode()": "error.start == 2 and 'invalid start byte' in str(error)",
        "raise StopIteration(3)": "error.value == 3",
        "raise ValueError(object)": "(type(error), error.args) == (ValueError, (repr(object),))",
        "raise ExceptionGroup('many', [ValueError()])": "str(error) == 'many (1 sub-exception)'",
        "raise ValueError(5)": "type(error) is ValueError and error.args == (5,)",
    }
    body = "\n    ".join(f"if x == {n}: {statement}" for n, statement in enumerate(statements))
    sources = [
        f"try:\n    f({n})\nexcept Exception as error: assert {words}\nelse: raise AssertionError"
        for n, words in enumerate(statements.values())
    ]
    assert passed(await verdict_on(f"def f(x):\n    {body}", *sources), sources) == sources


ANY_ERROR = "try:\n    f(1)\nexcept Exception:\n    pass\nelse:\n    raise AssertionError"
NO_ERROR = {
    "leaving": "import os\ndef f(x): os._exit(0)",
    "killing itself": "import os\ndef f(x): os.kill(os.getpid(), 9)",
    "a system exit": "def f(x): raise SystemExit(1)",
    "a system exit without a code": "def f(x): raise SystemExit",
    "an exit of its own": "class E(SystemExit): pass\ndef f(x): raise E(3)",
    "an interrupt of its own": "class E(KeyboardInterrupt): pass\ndef f(x): raise E",
    "no error at all": "class E(BaseException): pass\ndef f(x): raise E",
    "a report that fails": (
        "class E(ValueError): pass\ndef f(x): raise E\n"
        "globals().setdefault('__reporter__', {})['note'] = exit"
    ),
    "a report that is none": (
        "def f(x): raise ValueError\n"
        "globals().setdefault('__reporter__', {})['take'] = lambda number: 'ValueError'"
    ),
    "an interrupt": "def f(x): raise KeyboardInterrupt",
    "an object": "def f(x): return object()",
    "a generator": "def f(x): yield 1",
    "a lazy map": "def f(x): return map(int, 'x')",
    "a coroutine": "async def f(x): return 1",
    "an answer that is too long": "def f(x): return 'x' * 200_000",
    "an answer that is too deep": "def f(x):\n  y = []\n  for _ in range(300): y = [y]\n  return y",
    "too much memory": "def f(x): return bytearray(4 << 30)",
    "no function": "g = 1",
    "a function of another name": "def ff(x): raise ValueError",
    "code that is none": "def f(x",
    "code that raises": "def f(x): raise ValueError\nraise ValueError",
    "code that leaves": "def f(x): raise ValueError\nraise SystemExit",
    "a closed channel": "import socket\ndef f(x): socket.socket(fileno=200).shutdown(2)",
    "a message of death": (
        "import os, struct\ndef f(x):\n    os.write(200, struct.pack('<I', 11) + b'{\"died\":{}}')"
    ),
}
"""Ways to give no answer: a test that expects some error must not take them for it."""


@pytest.mark.parametrize("code", NO_ERROR.values(), ids=NO_ERROR)
async def test_no_answer_is_not_an_expected_exception(code: str) -> None:
    broad = ANY_ERROR.replace("Exception", "BaseException")
    assert passed(await verdict_on(code, ANY_ERROR, broad), [ANY_ERROR, broad]) == []


async def test_a_limit_is_not_an_expected_exception() -> None:
    checks = [Check(source=ANY_ERROR)]
    verdict = await judge("def f(x):\n    while True: pass", checks, sandbox=QUICK)
    assert verdict.problems == ("TimeoutError: it took too long",)


@pytest.mark.parametrize("code", ["def f(x): raise SystemExit", "def f(x): exit(0)"])
async def test_an_exit_is_no_value(code: str) -> None:
    cases: list[Case] = [Call(expression="f(1)", accepted=(None,))]
    assert (await judge(code, cases)).problems == ("f(1): SystemExit: 0",)


async def test_an_exit_is_no_object_either() -> None:
    sources = ["assert f(0) == 0", "f(1)", "y = f(1)"]
    code = "def f(x):\n    if x: raise SystemExit\n    return x"
    assert passed(await verdict_on(code, *sources), sources) == sources[:1]


async def test_code_that_exits_while_it_is_loaded_fails() -> None:
    cases: list[Case] = [Call(expression="f(1)", accepted=(1,)), Check(source="assert f(1) == 1")]
    verdict = await judge("import sys\ndef f(x): return x\nsys.exit(0)", cases)
    assert verdict.problems == ("f(1): SystemExit: 0", "SystemExit: 0")


@pytest.mark.parametrize("leaving", ["exit()", "raise SystemExit(3)", "import sys\nsys.exit('no')"])
async def test_a_program_may_exit_when_it_is_done(leaving: str) -> None:
    verdict = await judge(f"print(1)\n{leaving}", [Program(stdin="", stdout="1")])
    assert verdict.problems == (None,)


SAYING = """
class E:
    def __repr__(self): return {!r}
def f(x): return E()
"""
FED_BACK = {
    "long": "def f(x): return 'x' * 99_980",
    "deep": SAYING.format("[" * 95 + "]" * 95),
    "very deep": SAYING.format("[" * 198 + "]" * 198),
    "an ellipsis": SAYING.format("..."),
    "an imaginary infinity": SAYING.format("1e999j"),
    "many digits": "def f(x): return 10 ** 4200",
    "surrogates": r"def f(x): return '\ud800' * 9",
    "a signaling number": "from decimal import Decimal\ndef f(x): return Decimal('sNaN')",
    "an array": "import numpy\ndef f(x): return numpy.zeros(9)",
}
REACHING = [
    "assert f(f(1)) == 1",
    "assert f([f(1), f(2), [f(3)]]) == 1",
    "assert f(x=f(1) * 2) == 1",
    "import numpy\nassert f(numpy.array([f(1)] * 2000)) == 1",
]


@pytest.mark.parametrize("code", FED_BACK.values(), ids=FED_BACK)
async def test_no_value_of_the_code_leaves_it_unscored(code: str) -> None:
    assert passed(await verdict_on(code, *REACHING), REACHING) == []


async def test_a_message_that_no_file_takes_is_made_harmless() -> None:
    verdict = await verdict_on(r"def f(x): raise ValueError('\ud800')", "assert f(1) == 1")
    assert str(next(filter(None, verdict.problems), None)).encode().startswith(b"ValueError: ")
    verdict = await verdict_on(r"def f(x): return '\ud800'", "assert f(1) == 1, f(1)")
    assert str(next(filter(None, verdict.problems), None)).encode().startswith(b"AssertionError: ")


async def test_a_value_that_a_test_can_not_send_is_the_tests_fault() -> None:
    for given in ("lambda: 1", "[object()]", "iter([1])", "{1: f}"):
        with pytest.raises(RewardError, match="something that is no plain value"):
            await verdict_on("def f(x): return 1", f"assert f(1) == 1\nf({given})")


async def test_a_setup_that_fails_is_the_tasks_fault() -> None:
    with pytest.raises(RewardError, match="setup fails"):
        await judge("def f(x): return 1", [Call(expression="f(1)", accepted=(1,))], setup="1 / 0")


async def test_threads_of_a_test_get_each_their_own_answer() -> None:
    source = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    assert list(pool.map(f, range(20))) == [n * n for n in range(20)]"
    )
    assert (await verdict_on("def f(x): return x * x", source)).problems == (None,)


def test_whatever_an_examiner_sends_can_be_read() -> None:
    assert writing.MAX_CHARACTERS + 1000 <= MAX_CHARACTERS


def test_what_a_test_has_caught_keeps_its_id() -> None:
    """A later exception of the code could have the same id, and would seem to be caught."""

    class OwnError(Exception): ...

    test = examiner._Test(None, {})
    error = OwnError()
    kept = weakref.ref(error)
    test.note_caught(error)
    del error
    gc.collect()
    assert kept() is not None
