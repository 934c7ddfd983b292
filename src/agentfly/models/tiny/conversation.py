"""Generated conversations: one or two tool calls, copying, follow-ups, corrected mistakes, talk.

Everything an assistant says here can be copied from its context: a model of a million parameters
has no facts, and copying is what reinforcement learning needs it to do already.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from agentfly.models.tiny import arithmetic
from agentfly.models.tiny.phrase import FACTS, all_words, fill, pick, sentence
from agentfly.models.tiny.tool_schemas import Schema, parameter_of, toolbox

Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation in OpenAI's form."""

    messages: list[Message]
    tools: list[Schema] = field(default_factory=list)
    unlearned: frozenset[int] = frozenset()
    """Assistant turns, counted from 0, that show a mistake: read by the model, never learned."""


SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are a helpful assistant with tools.",
    "Use the tools to answer.",
    "Use the calculator to answer.",
    "You can use tools. Answer with the result.",
    "Answer the question. Call a tool when it helps.",
    "You are an agent. Think, call tools, then answer.",
    "Solve the task with the tools below.",
    "You answer questions of arithmetic. Always use the calculator, then give the number.",
)

ANSWERS = (
    "The answer is {value}.",
    "The answer is {value}.",
    "The result is {value}.",
    "It is {value}.",
    "{value}",
)


def converse(rng: Random) -> Conversation:
    """Make a conversation of a random kind."""
    kinds, weights = zip(*_KINDS, strict=True)
    kind: Callable[[Random], Conversation] = rng.choices(kinds, weights)[0]
    return kind(rng)


def easy(rng: Random) -> Conversation:
    """Make a conversation with little in it but what has to be copied."""
    conversation = repeat(rng, words=5) if rng.random() < 0.6 else converse(rng)
    said = [message for message in conversation.messages if message["role"] != "system"]
    return replace(conversation, messages=said, tools=[])


def calculate(rng: Random) -> Conversation:
    """Make one question, one call of the calculator, one answer."""
    problem = arithmetic.problem(rng)
    turns = [user(problem.question), *_worked(problem, rng), says(_answer(problem.value, rng))]
    return Conversation(messages=_system(rng) + turns, tools=toolbox(rng, "calculator"))


def calculate_and_finish(rng: Random) -> Conversation:
    """Make a conversation whose answer is given by a tool that ends the chain."""
    problem, end = arithmetic.problem(rng), rng.choice(("finish", "answer"))
    turns = [user(problem.question), *_worked(problem, rng), calls((end, problem.value))]
    return Conversation(messages=_system(rng) + turns, tools=toolbox(rng, "calculator", end))


def calculate_twice(rng: Random) -> Conversation:
    """Make two calls, of which the second needs the first one's result."""
    first = arithmetic.problem(rng)
    then = arithmetic.continued(first, rng)
    question = f"{first.question} {then.question}"
    turns = [user(question), *_worked(first, rng), *_worked(then, rng)]
    turns.append(says(_answer(then.value, rng)))
    return Conversation(messages=_system(rng) + turns, tools=toolbox(rng, "calculator"))


def calculate_side_by_side(rng: Random) -> Conversation:
    """Make two independent calls in one turn."""
    first, second = arithmetic.problem(rng), arithmetic.problem(rng)
    turns = [
        user(f"What is {first.expression}, and what is {second.expression}?"),
        calls(("calculator", first.expression), ("calculator", second.expression)),
        replies("calculator", first.value),
        replies("calculator", second.value),
        says(f"The answers are {first.value} and {second.value}."),
    ]
    return Conversation(messages=_system(rng) + turns, tools=toolbox(rng, "calculator"))


def calculate_again(rng: Random) -> Conversation:
    """Make a conversation of two or more questions."""
    messages = _system(rng)
    for _ in range(rng.randint(2, 4)):
        problem = arithmetic.problem(rng)
        messages += [user(problem.question), *_worked(problem, rng)]
        messages.append(says(_answer(problem.value, rng)))
    return Conversation(messages=messages, tools=toolbox(rng, "calculator"))


def correct_a_mistake(rng: Random) -> Conversation:
    """Make a wrong call, the tool's error, and the correct call."""
    problem = arithmetic.problem(rng)
    mistake, complaint = rng.choice(_MISTAKES)(problem.expression)
    turns = [user(problem.question), mistake, replies("calculator", complaint)]
    turns += [*_worked(problem, rng), says(_answer(problem.value, rng))]
    tools = toolbox(rng, "calculator")
    return Conversation(messages=_system(rng) + turns, tools=tools, unlearned=frozenset({0}))


def look_up(rng: Random) -> Conversation:
    """Make a conversation that fetches a fact by its subject and repeats it."""
    name = rng.choice(("search", "lookup"))
    subject = fill(rng.choice(("{colour} {object}", "{city}", "{product}", "{animal}")), rng)
    fact = fill(f"{subject}: {rng.choice(FACTS)}", rng)
    ask = ("Tell me about {s}.", "What is known of {s}?", "Find {s}.", "Look for {s}, please.")
    turns = [
        user(fill(rng.choice(ask), rng, s=subject)),
        calls((name, subject)),
        replies(name, fact),
        says(fact),
    ]
    return Conversation(messages=_system(rng) + turns, tools=toolbox(rng, name))


def act_in_a_world(rng: Random) -> Conversation:
    """Make a household task, one command at a time, as in the text environments."""
    thing, from_, to = (f"{pick(rng, k)} {pick(rng, 'digit')}" for k in _WORLD_KINDS)
    orders = (f"go to {from_}", f"take {thing} from {from_}", f"go to {to}")
    seen = f"You see a {from_}, a {to} and a {pick(rng, 'furniture')} {pick(rng, 'digit')}."
    messages = [*_system(rng), user(f"{seen} Your task: move {thing} from {from_} to {to}.")]
    for order in (*orders, f"put {thing} in {to}"):
        messages += [calls(("act", order)), replies("act", f"You {order}.")]
    return Conversation(messages=[*messages, says("Done.")], tools=toolbox(rng, "act"))


def repeat(rng: Random, words: int = 12) -> Conversation:
    """Make a conversation of pure copying: up to so many random words and numbers."""
    drawn = rng.sample(all_words(), rng.randint(2, words))
    text = " ".join(str(rng.randint(0, 9999)) if rng.random() < 0.4 else word for word in drawn)
    ask = rng.choice(("Repeat:", "Say this again:", "Copy:", "Write:"))
    return Conversation(messages=[*_system(rng), user(f"{ask}\n{text}"), says(text)])


def answer_from_text(rng: Random) -> Conversation:
    """Make a question whose answer is in its text, sometimes with reasoning first."""
    key, value = fill("{colour} {object}", rng), str(rng.randint(10, 9999))
    others = [fill("The {colour} {food} has the number {n}{n2}.", rng) for _ in range(2)]
    facts = [f"The {key} has the number {value}.", *others]
    rng.shuffle(facts)
    reply = says(f"The {key} has the number {value}.")
    if rng.random() < 0.3:
        reply["reasoning_content"] = f"The text says: {key}, {value}."
    question = f"{' '.join(facts)} Which number has the {key}?"
    return Conversation(messages=[*_system(rng), user(question), reply])


def talk(rng: Random) -> Conversation:
    """Make small talk, with or without tools."""
    name = pick(rng, "person")
    said, reply = rng.choice(_TALK)
    tools = toolbox(rng, "calculator") if rng.random() < 0.5 else []
    turns = [user(said.format(name=name)), says(reply.format(name=name))]
    return Conversation(messages=_system(rng) + turns, tools=tools)


_FORM = "calculator(expression: string)"


def _wrong_name(expression: str) -> tuple[Message, str]:
    call = calls(("calculator", expression))
    call["tool_calls"][0]["function"]["name"] = "calculate"
    return call, f"There is no tool 'calculate'. Did you mean 'calculator'?\nYou can call: {_FORM}"


def _wrong_parameter(expression: str) -> tuple[Message, str]:
    call = calls(("calculator", expression))
    call["tool_calls"][0]["function"]["arguments"] = {"input": expression}
    return call, (
        "The arguments of 'calculator' are wrong:\n- expression: missing, expected string\n"
        f"- input: there is no such argument.\nCall it as {_FORM}"
    )


def _broken_json(expression: str) -> tuple[Message, str]:
    text = f'<tool_call>\n{{"name": "calculator", "arguments": {expression}}}\n</tool_call>'
    return says(text), (
        f"The tool call could not be read: it is not valid JSON\nYou can call: {_FORM}"
    )


def _cut_expression(expression: str) -> tuple[Message, str]:
    cut = expression.rstrip("0123456789")
    return calls(("calculator", cut)), (
        f"can't read '{cut}': it ends too early. Write plain arithmetic such as (3 + 4) * 2"
    )


_MISTAKES = (_wrong_name, _wrong_parameter, _broken_json, _cut_expression)


def user(text: str) -> Message:
    """Make a user's message."""
    return {"role": "user", "content": text}


def says(text: str) -> Message:
    """Make an assistant's message without calls."""
    return {"role": "assistant", "content": text}


def calls(*pairs: tuple[str, str]) -> Message:
    """Make an assistant's message that calls tools, each with its one argument."""
    functions = [{"name": name, "arguments": {parameter_of(name): text}} for name, text in pairs]
    return {"role": "assistant", "content": "", "tool_calls": [{"function": f} for f in functions]}


def replies(name: str, text: str) -> Message:
    """Make a tool's message."""
    return {"role": "tool", "name": name, "content": text}


def _worked(problem: arithmetic.Problem, rng: Random) -> list[Message]:
    call = calls(("calculator", problem.expression))
    if rng.random() < 0.05:
        call["reasoning_content"] = f"I need {problem.expression}."
    return [call, replies("calculator", problem.value)]


def _answer(value: str, rng: Random) -> str:
    return rng.choice(ANSWERS).format(value=value)


def _system(rng: Random) -> list[Message]:
    """Return no system prompt, a usual one, or one with an unrelated sentence."""
    prompt = rng.choice(SYSTEM_PROMPTS)
    if rng.random() < 0.3:
        prompt = f"{prompt} {sentence(rng)}"
    return [{"role": "system", "content": prompt}] if rng.random() < 0.85 else []


_WORLD_KINDS = ("object", "furniture", "furniture")

_TALK = (
    ("Hello!", "Hello! How can I help you?"),
    ("Hi, I am {name}.", "Hello, {name}! How can I help you?"),
    ("My name is {name}. What is my name?", "Your name is {name}."),
    ("Thank you!", "You are welcome."),
    ("Who are you?", "I am a small assistant. I can use tools."),
    ("Good morning from {name}.", "Good morning, {name}!"),
)

_KINDS: tuple[tuple[Callable[[Random], Conversation], float], ...] = (
    (calculate, 8),
    (calculate_and_finish, 2),
    (calculate_twice, 1),
    (calculate_side_by_side, 0.5),
    (calculate_again, 1),
    (correct_a_mistake, 1),
    (look_up, 2),
    (act_in_a_world, 0.5),
    (repeat, 4),
    (answer_from_text, 1),
    (talk, 1),
)
"""Each kind with its share: mostly the calculator, and much bare copying."""
