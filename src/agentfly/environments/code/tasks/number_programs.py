"""Programming tasks about whole numbers."""

from random import Random

from agentfly.environments.code.tasks.program_template import Arguments, ProgramTemplate


def _number(rng: Random) -> Arguments:
    return (rng.randint(1, 400),)


def _any_number(rng: Random) -> Arguments:
    return (rng.randint(-200, 200),)


def _large_number(rng: Random) -> Arguments:
    return (rng.randint(10, 99_999),)


NUMBER_PROGRAMS = (
    ProgramTemplate(
        name="multiples_sum",
        parameters="n",
        returns="the sum of all multiples of $k from 1 to `n`",
        body="return sum(range($k, n + 1, $k))",
        level=1,
        arguments=_number,
        choices={"k": range(2, 16)},
        edges=((0,),),
    ),
    ProgramTemplate(
        name="clamp",
        parameters="n",
        returns="`n`, but $low if it is smaller than that and $high if it is larger than that",
        body="return max($low, min($high, n))",
        level=1,
        arguments=_any_number,
        choices={"low": (-90, -50, -20, 0, 5), "high": (20, 60, 100)},
    ),
    ProgramTemplate(
        name="linear",
        parameters="n",
        returns="$a times `n`, plus $b",
        body="return $a * n + $b",
        level=1,
        arguments=_any_number,
        choices={"a": range(2, 10), "b": range(1, 6)},
        edges=((0,),),
    ),
    ProgramTemplate(
        name="count_multiples",
        parameters="low, high",
        returns="how many multiples of $k there are from `low` to `high`, both included",
        body="return sum(n % $k == 0 for n in range(low, high + 1))",
        level=2,
        arguments=lambda rng: (rng.randint(1, 50), rng.randint(51, 300)),
        choices={"k": range(2, 16)},
        edges=((1, 1),),
    ),
    ProgramTemplate(
        name="digit_power_sum",
        parameters="n",
        returns="the sum of the digits of `n`, each raised to the power $k",
        body="return sum(int(digit) ** $k for digit in str(n))",
        level=2,
        arguments=_large_number,
        choices={"k": range(2, 9)},
        edges=((0,),),
    ),
    ProgramTemplate(
        name="in_base",
        parameters="n",
        returns="`n` written in base $k, as a text without leading zeros",
        body="""\
digits = ""
while n:
    n, digit = divmod(n, $k)
    digits = str(digit) + digits
return digits or "0\"""",
        level=3,
        arguments=_large_number,
        choices={"k": range(2, 10)},
        edges=((0,),),
        held_out=True,
    ),
    ProgramTemplate(
        name="steps_to_one",
        parameters="n",
        returns="how often `n` must be divided by $k, rounding down, until it is at most 1",
        body="""\
steps = 0
while n > 1:
    n //= $k
    steps += 1
return steps""",
        level=3,
        arguments=_large_number,
        choices={"k": range(2, 12)},
        edges=((1,),),
    ),
    ProgramTemplate(
        name="sequence",
        parameters="n",
        returns="term `n`, counted from 0, of the sequence that begins with $a, $b and in which "
        "each later term is the sum of the two before it",
        body="""\
a, b = $a, $b
for _ in range(n):
    a, b = b, a + b
return a""",
        level=3,
        arguments=lambda rng: (rng.randint(2, 40),),
        choices={"a": range(1, 6), "b": range(1, 6)},
        edges=((0,), (1,)),
    ),
)
