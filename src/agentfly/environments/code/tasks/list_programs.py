"""Programming tasks about lists of numbers."""

from random import Random

from agentfly.environments.code.tasks.program_template import Arguments, ProgramTemplate


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
