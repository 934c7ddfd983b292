"""A tool, a reward, a group reward and a call format."""

from dataclasses import replace

from agentfly import group_reward, reward, tool
from agentfly.chat.formats import get_format

SHOUTED = replace(get_format("hermes"), name="shouted")


@tool
def count_vowels(text: str) -> int:
    """Count the vowels of a text.

    Args:
        text: What to count in.
    """
    return sum(letter in "aeiou" for letter in text)


@reward
def vowel_share(final_response: str) -> float:
    """Share of the letters that are vowels."""
    return sum(letter in "aeiou" for letter in final_response) / (1 + len(final_response))


@group_reward
def most_vowels(final_responses: list[str]) -> list[float]:
    """Reward the chain with the most vowels."""
    counts = [sum(letter in "aeiou" for letter in text) for text in final_responses]
    return [float(count == max(counts)) for count in counts]
