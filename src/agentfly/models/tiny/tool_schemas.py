"""The tools that generated conversations show, in OpenAI's form, described in varied words."""

from random import Random
from typing import Any

Schema = dict[str, Any]

_DESCRIPTIONS = {
    "calculator": (
        "Calculate an arithmetic expression.",
        "Compute an arithmetic expression.",
        "Work out arithmetic and return the number.",
        "Evaluate an arithmetic expression such as 2+3*4.",
        "A calculator for + - * / and brackets.",
        "Do a calculation.",
        "Calculate the value of an expression.",
    ),
    "finish": (
        "Give the final answer and end.",
        "End the conversation with an answer.",
        "Call this when you know the answer.",
        "Finish the task by handing in your final answer. Nothing can be done after this.",
    ),
    "answer": ("Give the final answer.", "Submit your answer and stop."),
    "search": (
        "Search the documents for some words.",
        "Find texts about a topic.",
        "Search the shop for products.",
    ),
    "lookup": ("Look up one entry by its key.", "Read what is known about a thing."),
    "act": ("Do an action in the world.", "Send a command to the game."),
    "weather": ("Tell the weather of a city.", "Get the temperature in a place."),
    "note": ("Write a note to remember.", "Save a short text."),
}

_PARAMETERS = {
    "calculator": ("expression", ("The expression to compute.", "For example 12*(3+4).")),
    "finish": ("answer", ("The final answer.", "Your answer as text.")),
    "answer": ("answer", ("The final answer.",)),
    "search": ("query", ("What to search for.", "A few words.")),
    "lookup": ("key", ("The name of the entry.",)),
    "act": ("command", ("What to do, in a few words.",)),
    "weather": ("city", ("The name of the city.",)),
    "note": ("text", ("What to write down.",)),
}


PRODUCT_CALCULATOR: Schema = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Calculate an arithmetic expression.",
        "parameters": {
            "properties": {
                "expression": {
                    "description": "For example (3 + 4) * 2 ** 5 / 7. Operators + - * / // % ** "
                    "and parentheses, the constants pi and e, functions such as sqrt, abs, round, "
                    "min, max, floor, ceil, log, exp, sin, cos, tan.",
                    "type": "string",
                }
            },
            "required": ["expression"],
            "type": "object",
        },
    },
}
"""The calculator as agents really show it; a test keeps it equal to the tool's own schema."""


def parameter_of(name: str) -> str:
    """Return the name of the one parameter that a tool takes."""
    return _PARAMETERS[name][0]


def describe(name: str, rng: Random) -> Schema:
    """Return a tool's schema, worded at random."""
    if name == "calculator" and rng.random() < 0.3:
        return PRODUCT_CALCULATOR
    parameter, hints = _PARAMETERS[name]
    schema: Schema = {"type": "string"}
    if rng.random() < 0.5:
        schema["description"] = rng.choice(hints)
    function = {
        "name": name,
        "description": rng.choice(_DESCRIPTIONS[name]),
        "parameters": {
            "type": "object",
            "properties": {parameter: schema},
            "required": [parameter],
        },
    }
    return {"type": "function", "function": function}


def toolbox(rng: Random, *needed: str) -> list[Schema]:
    """Return the needed tools among up to two others, in any order."""
    others = [name for name in _DESCRIPTIONS if name not in needed]
    names = [*needed, *rng.sample(others, rng.choice((0, 0, 1, 2)))]
    rng.shuffle(names)
    return [describe(name, rng) for name in names]
