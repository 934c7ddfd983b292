"""Players of games of commands, in which a turn is one line such as `go to desk 1`.

Such a player is a generator of commands, and the game's options choose the form of its turns:

    in_tool_calls(gold, argument="command")       act(command="go to desk 1")
    in_text(gold, idle="look")                    go to desk 1
"""

from collections.abc import Callable, Generator, Iterable
from typing import Literal

from agentfly.environments.player import Play, Player, Say, Scene, call

Actions = Literal["tool", "text"]
"""Form of a turn: a call of the tool `act`, or the command as plain text."""
Commands = Generator[str, str, None]
"""Commands of a player; it receives the observations."""
CommandPlayer = Callable[[Scene], Commands]


def follow(path: Iterable[str]) -> Commands:
    """Give the commands of a path, whatever is observed."""
    for command in path:  # noqa: UP028 - a list receives no observations
        yield command


def in_tool_calls(commands: CommandPlayer, *, argument: str) -> Player:
    """Make a player that calls the tool `act`, and gives up after its last command."""

    def player(scene: Scene) -> Play:
        yield from _playing(commands(scene), lambda command: call("act", **{argument: command}))
        yield Say("I give up.")

    return player


def in_text(commands: CommandPlayer, *, idle: str) -> Player:
    """Make a player that says its commands, and after the last one an idle command without end.

    Any text is a command there, so that a game that is given up ends by its limit of turns.
    """

    def player(scene: Scene) -> Play:
        yield from _playing(commands(scene), Say)
        while True:
            yield Say(idle)

    return player


def _playing(commands: Commands, say: Callable[[str], Say]) -> Play:
    """Put each command into a turn, and return its observation to the player."""
    try:
        command = next(commands)
        while True:
            observation = yield say(command)
            command = commands.send(observation)
    except StopIteration:
        return
    finally:
        commands.close()
