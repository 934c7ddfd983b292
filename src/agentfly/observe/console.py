"""Live output of chains on a console.

    sum/0/0 │ user       What is 2+2?
    sum/0/1 │ user       What is 2+2?
    sum/0/0 │ assistant  I will use the calculator.
    sum/0/0 │ call       calculator({"expression": "2+2"})
    sum/0/0 │ tool       4
    sum/0/0 │ reward     1.0

Chains run concurrently, so each line begins with the name of its chain.
"""

from rich.console import Console
from rich.text import Text

from agentfly.types import (
    ChainStarted,
    EnvObserved,
    Event,
    Observed,
    Rewarded,
    Stopped,
    TokenSampled,
    ToolCalled,
    TurnRead,
)
from agentfly.types.short_text import printable

STYLES = {
    "system": "dim",
    "user": "cyan",
    "assistant": "green",
    "call": "yellow",
    "tool": "magenta",
    "env": "magenta",
    "reward": "bold blue",
    "stop": "bold",
    "failure": "bold red",
}


class ConsolePrinter:
    """Prints events as they arrive; pass it to a run as `on_event`.

    A chain that runs alone shows each token as it is sampled, if the engine streams them; several
    chains show whole lines.

        await agent.run(rows, on_event=ConsolePrinter())
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live: set[str] = set()
        self._unfinished: dict[str, str] = {}
        """Text of a streamed turn that is not printed yet, by chain."""
        self._in_line = False
        """True if the last output was a token, with its line still open."""

    def __call__(self, event: Event) -> None:
        """Print one event."""
        match event:
            case ChainStarted(messages=messages):
                self._live.add(event.chain_id)
                for message in messages:
                    self._print(event, message.role, message.content)
            case TokenSampled():
                self._stream(event)
            case TurnRead(message=message):
                self._print_rest(event, otherwise=message.content)
            case ToolCalled(call=call):
                self._print(event, "call", f"{call.name}({call.arguments})")
            case Observed(result=result):
                self._print(event, "tool", result.observation)
            case EnvObserved(observation=observation):
                self._print(event, "env", observation)
            case Rewarded(score=score):
                self._print(event, "reward", str(score.value))
            case Stopped():
                self._stop(event)

    def _stream(self, event: TokenSampled) -> None:
        *whole, rest = (self._unfinished.get(event.chain_id, "") + event.text).split("\n")
        alone = len(self._live) <= 1
        for line in whole:
            self._print(event, "assistant", line, continued=self._in_line and alone)
        if alone and rest:
            self._type(event, rest)
            rest = ""
        self._unfinished[event.chain_id] = rest

    def _print_rest(self, event: Event, *, otherwise: str = "") -> None:
        rest = self._unfinished.pop(event.chain_id, otherwise)
        if rest:
            self._print(event, "assistant", rest)

    def _stop(self, event: Stopped) -> None:
        self._print_rest(event)
        self._live.discard(event.chain_id)
        if event.error is None:
            self._print(event, "stop", event.stop)
        else:
            self._print(event, "failure", f"{event.stop}: {event.error}")

    def _print(self, event: Event, role: str, text: str, *, continued: bool = False) -> None:
        if self._in_line and not continued:
            self._console.print()
        self._in_line = False
        for position, line in enumerate(text.split("\n")):
            prefix = "" if continued and position == 0 else _prefix(event, role)
            self._console.print(_styled(prefix, role, line), soft_wrap=True)

    def _type(self, event: TokenSampled, text: str) -> None:
        prefix = "" if self._in_line else _prefix(event, "assistant")
        self._console.print(_styled(prefix, "assistant", text), end="", soft_wrap=True)
        self._in_line = True


def _prefix(event: Event, role: str) -> str:
    return f"{event.chain_id} │ {role:<10} "


def _styled(prefix: str, role: str, text: str) -> Text:
    return Text.assemble((prefix, "dim"), (printable(text), STYLES[role]))
