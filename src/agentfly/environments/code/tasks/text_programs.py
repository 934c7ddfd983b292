"""Programming tasks about texts."""

from random import Random

from agentfly.environments.code.tasks.program_template import Arguments, ProgramTemplate

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
