from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from agentfly import Context, ToolError, ToolResult, tool


@tool
def add(a: int, b: int = 1) -> int:
    """Add two integers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@dataclass
class Place:
    city: str
    country: str | None = None


@tool(timeout=5.0, max_length=2000)
async def weather(
    place: Place,
    unit: Literal["celsius", "fahrenheit"] = "celsius",
    days: Annotated[int, Field(ge=1, le=7)] = 1,
) -> str:
    """Forecast the weather.

    Args:
        place: Where.
        unit: Of the temperature.
        days: How many days ahead.
    """
    if place.city == "Atlantis":
        raise ToolError("Atlantis is under water: ask for a city on land.")
    return f"Sunny in {place.city} for {days} days, 21 degrees {unit}."


@tool
def submit(answer: str, context: Context) -> ToolResult:
    """Hand in the final answer.

    Args:
        answer: What to hand in.
    """
    context.metadata["submitted"] = answer
    return ToolResult(observation="Received.", ends_chain=True)


class Library:
    """One object that all chains read: its bound method says so, with shared=True."""

    def __init__(self, books: dict[str, str]) -> None:
        self.books = books

    @tool(shared=True)
    def open_book(self, title: str) -> str:
        """Open a book.

        Args:
            title: Its title.
        """
        return self.books[title]


open_book = Library({"Emma": "Emma Woodhouse, handsome, clever, and rich…"}).open_book

assert add(2, 3) == 5
assert set(weather.spec.parameters["properties"]) == {"place", "unit", "days"}
assert "context" not in submit.spec.parameters["properties"]
assert open_book.spec.name == "open_book"
