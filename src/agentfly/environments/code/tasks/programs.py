"""Generated programming tasks: functions over numbers, texts and lists, with hidden tests.

Level 1 is one expression, level 2 needs some thought, level 3 a loop with state. Some values of
every template are held out, and some templates completely.
"""

from collections.abc import Sequence
from random import Random

from agentfly.environments.code.tasks.program_template import Arguments, ProgramTemplate, Row


def _numbers(rng: Random) -> Arguments:
    return ([rng.randint(-20, 40) for _ in range(rng.randint(3, 10))],)


def _small_numbers(rng: Random) -> Arguments:
    return ([rng.randint(0, 9) for _ in range(rng.randint(4, 12))],)


LIST_PROGRAMS = (
    ProgramTemplate(
        name="above",
        parameters="numbers",
        returns="the list of those `numbers` that are larger than $k, in order",
        body="return [n for n in numbers if n > $k]",
        level=1,
        arguments=_numbers,
        choices={"k": range(-5, 20)},
        edges=(([],),),
    ),
    ProgramTemplate(
        name="largest",
        parameters="numbers",
        returns="the $k largest of the `numbers`, the largest first; fewer if there are fewer",
        body="return sorted(numbers, reverse=True)[:$k]",
        level=1,
        arguments=_numbers,
        choices={"k": range(2, 8)},
        edges=(([],),),
    ),
    ProgramTemplate(
        name="scaled",
        parameters="numbers",
        returns="the list of the `numbers`, each multiplied by $k",
        body="return [$k * n for n in numbers]",
        level=1,
        arguments=_numbers,
        choices={"k": range(2, 12)},
        edges=(([],),),
    ),
    ProgramTemplate(
        name="rotate",
        parameters="numbers",
        returns="the list `numbers` after its first item was moved to the end $k times",
        body="""\
if not numbers:
    return []
k = $k % len(numbers)
return numbers[k:] + numbers[:k]""",
        level=2,
        arguments=_numbers,
        choices={"k": range(1, 9)},
        edges=(([],), ([7],)),
    ),
    ProgramTemplate(
        name="chunks",
        parameters="numbers",
        returns="the list `numbers` cut into lists of $k items each, the last one maybe shorter",
        body="return [numbers[i:i + $k] for i in range(0, len(numbers), $k)]",
        level=2,
        arguments=_numbers,
        choices={"k": range(2, 7)},
        edges=(([],),),
    ),
    ProgramTemplate(
        name="between",
        parameters="numbers",
        returns="the list `numbers` with the number $k put between every two neighbours",
        body="return [x for n in numbers for x in ($k, n)][1:]",
        level=2,
        arguments=_numbers,
        choices={"k": range(10)},
        edges=(([],), ([7],)),
    ),
    ProgramTemplate(
        name="window_sums",
        parameters="numbers",
        returns="the list of the sums of every $k neighbours in `numbers`, from the left",
        body="return [sum(numbers[i:i + $k]) for i in range(len(numbers) - $k + 1)]",
        level=3,
        arguments=_numbers,
        choices={"k": range(2, 7)},
        edges=(([],),),
    ),
    ProgramTemplate(
        name="running_total",
        parameters="numbers",
        returns="the list of the running totals of `numbers`, where a total above $k begins again "
        "at 0 before the next number is added",
        body="""\
totals, total = [], 0
for n in numbers:
    if total > $k:
        total = 0
    total += n
    totals.append(total)
return totals""",
        level=3,
        arguments=_small_numbers,
        choices={"k": range(8, 24)},
        edges=(([],),),
    ),
    ProgramTemplate(
        name="pairs",
        parameters="numbers",
        returns="how many pairs of places in `numbers` hold two numbers whose sum is $k",
        body="""\
count = 0
for i in range(len(numbers)):
    for j in range(i):
        count += numbers[i] + numbers[j] == $k
return count""",
        level=3,
        arguments=_small_numbers,
        choices={"k": range(5, 14)},
        edges=(([],),),
        held_out=True,
    ),
    ProgramTemplate(
        name="first_of_each",
        parameters="numbers",
        returns="the list of those `numbers` whose remainder after division by $k no earlier one "
        "has",
        body="""\
seen, kept = set(), []
for n in numbers:
    if n % $k not in seen:
        seen.add(n % $k)
        kept.append(n)
return kept""",
        level=3,
        arguments=_numbers,
        choices={"k": range(2, 10)},
        edges=(([],),),
    ),
)


_WORDS = (
    *("apple", "river", "cloud", "stone", "light", "table", "garden", "window", "yellow"),
    *("paper", "music", "ocean", "forest", "silver", "morning", "bridge", "candle", "doctor"),
    *("engine", "father", "guitar", "hammer", "island", "jacket", "kitten", "ladder"),
)


def _word(rng: Random) -> Arguments:
    return (rng.choice(_WORDS) + rng.choice(_WORDS),)


def _sentence(rng: Random) -> Arguments:
    words = rng.sample(_WORDS, rng.randint(2, 6))
    return (" ".join(word.capitalize() if rng.random() < 0.3 else word for word in words),)


TEXT_PROGRAMS = (
    ProgramTemplate(
        name="every_nth",
        parameters="text",
        returns="every character number $k of `text`, beginning with the first one",
        body="return text[::$k]",
        level=1,
        arguments=_word,
        choices={"k": range(2, 8)},
        edges=(("",),),
    ),
    ProgramTemplate(
        name="stretch",
        parameters="text",
        returns="`text` with each character written $k times in a row",
        body='return "".join(character * $k for character in text)',
        level=1,
        arguments=_word,
        choices={"k": range(2, 8)},
        edges=(("",),),
    ),
    ProgramTemplate(
        name="count_letter",
        parameters="text",
        returns="how often the letter '$c' occurs in `text`, as a small or a capital letter",
        body="return text.lower().count('$c')",
        level=1,
        arguments=_sentence,
        choices={"c": "aeilnorst"},
        edges=(("",),),
    ),
    ProgramTemplate(
        name="replace_vowels",
        parameters="text",
        returns="`text` with every small vowel (a, e, i, o, u) replaced by '$c'",
        body="return \"\".join('$c' if letter in 'aeiou' else letter for letter in text)",
        level=2,
        arguments=_sentence,
        choices={"c": "*#-_+.xz"},
        edges=(("",),),
    ),
    ProgramTemplate(
        name="long_words",
        parameters="text",
        returns="the list of the words of `text` with more than $k letters, in order",
        body="return [word for word in text.split() if len(word) > $k]",
        level=2,
        arguments=_sentence,
        choices={"k": range(3, 7)},
        edges=(("",),),
    ),
    ProgramTemplate(
        name="shift_letters",
        parameters="text",
        returns="`text` with each small letter moved $k places on in the alphabet, from z on to a, "
        "and all else as it is",
        body="""\
shifted = ""
for letter in text:
    if "a" <= letter <= "z":
        letter = chr((ord(letter) - 97 + $k) % 26 + 97)
    shifted += letter
return shifted""",
        level=3,
        arguments=_sentence,
        choices={"k": range(1, 26)},
        edges=(("",),),
    ),
    ProgramTemplate(
        name="turn_words",
        parameters="text",
        returns="`text` with each word of more than $k letters written backwards",
        body='return " ".join(word[::-1] if len(word) > $k else word for word in text.split())',
        level=2,
        arguments=_sentence,
        choices={"k": range(3, 7)},
        edges=(("",),),
        held_out=True,
    ),
    ProgramTemplate(
        name="longest_run",
        parameters="text",
        returns="the length of the longest part of `text` without the letter '$c'",
        body='return max(len(part) for part in text.split("$c"))',
        level=3,
        arguments=_sentence,
        choices={"c": "aeilnorst"},
        edges=(("",),),
    ),
)


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


TEMPLATES = (*NUMBER_PROGRAMS, *TEXT_PROGRAMS, *LIST_PROGRAMS)


def program_rows(*, levels: Sequence[int], count: int, held_out: bool, seed: int = 0) -> list[Row]:
    """Return at most `count` tasks, shuffled, each with `tests` and a `solution`."""
    rows = [
        row
        for template in TEMPLATES
        if template.level in levels
        for row in template.rows(held_out=held_out)
    ]
    Random(f"programs {seed}").shuffle(rows)
    return rows[:count]
