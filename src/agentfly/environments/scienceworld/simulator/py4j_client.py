r"""One connection to a JVM, in the line protocol of py4j.

    A\n<token>\n                        →  !yv              authentication
    i\n<class>\ne\n                     →  !yro0            a new object, o0
    c\no0\nstep\nslook around\ne\n      →  !ysThis room…    a call and its text
    m\nd\no0\ne\n                      →  !yv              release of an object

py4j's own client has no deadline per call, retries by itself and logs through the root logger. Here
a call returns an answer, or raises `RemoteError` if the simulator raised, or `ConnectionLostError`,
after which the state of the JVM is unknown and it has to be ended.
"""

import re
import socket
from collections.abc import Sequence

HOST = "127.0.0.1"
CONNECT_SECONDS = 30.0

Argument = str | int | bool
Value = str | int | float | bool | None


class Reference(str):
    """Name of an object in the JVM, such as `o3`."""

    __slots__ = ()


class ConnectionLostError(Exception):
    """The JVM is gone, or did not answer in time."""


class RemoteError(Exception):
    """The simulator raised."""


class Connection:
    """A connection for one call at a time."""

    def __init__(self, port: int, token: str) -> None:
        try:
            self._socket = socket.create_connection((HOST, port), timeout=CONNECT_SECONDS)
        except OSError as error:
            raise ConnectionLostError(f"no connection: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        try:
            self._exchange([f"A\n{token}\n"], CONNECT_SECONDS)
        except BaseException:
            self.close()
            raise

    def make(self, name: str, *, seconds: float) -> Reference:
        """Make an object of a class in the JVM."""
        (made,) = self._exchange([f"i\n{name}\ne\n"], seconds)
        assert isinstance(made, Reference), "a class makes objects"
        return made

    def call(self, target: str, method: str, *arguments: Argument, seconds: float) -> Value:
        """Call one method of an object, or of a class such as `z:java.lang.String`."""
        (answer,) = self._exchange([_call(target, method, arguments)], seconds)
        return answer

    def call_all(
        self, target: str, methods: Sequence[Sequence[str]], *, seconds: float
    ) -> list[Value]:
        """Call several methods one after another, in a single message."""
        calls = [_call(target, method, arguments) for method, *arguments in methods]
        return self._exchange(calls, seconds)

    def forget(self, reference: Reference, *, seconds: float) -> None:
        """Let the JVM free an object."""
        self._exchange([f"m\nd\n{reference}\ne\n"], seconds)

    def close(self) -> None:
        """Close the connection."""
        self._answers.close()
        self._socket.close()

    def _exchange(self, commands: Sequence[str], seconds: float) -> list[Value]:
        try:
            self._socket.settimeout(seconds)
            # A lone surrogate, which a model can write as an escape, has no encoding.
            self._socket.sendall("".join(commands).encode(errors="replace"))
            lines = [self._answers.readline() for _ in commands]
        except TimeoutError as error:
            raise ConnectionLostError(f"no answer within {seconds:g} s") from error
        except (OSError, ValueError) as error:  # ValueError: closed by another thread
            raise ConnectionLostError(f"the connection broke: {error}") from error
        if not all(line.endswith(b"\n") for line in lines):
            raise ConnectionLostError("the connection was closed")
        return [self._answer(line.decode().removesuffix("\n"), seconds) for line in lines]

    def _answer(self, line: str, seconds: float) -> Value:
        """Parse an answer; the text of an exception has to be fetched from the JVM."""
        if line.startswith(_RAISED):
            raised = Reference(line.removeprefix(_RAISED))
            text = self.call(raised, "toString", seconds=seconds)
            self.forget(raised, seconds=seconds)
            raise RemoteError(str(text))
        return _read(line)


def _call(target: str, method: str, arguments: Sequence[Argument]) -> str:
    return "\n".join(("c", target, method, *map(_write, arguments), "e\n"))


def _write(argument: Argument) -> str:
    if isinstance(argument, bool):
        return f"b{argument}".lower()
    if isinstance(argument, int):
        return f"i{argument}"
    if isinstance(argument, Reference):
        return f"r{argument}"
    escaped = argument.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
    return f"s{escaped}"


def _read(line: str) -> Value:
    r"""Parse an answer.

    >>> _read("!yi3"), _read("!ybtrue"), _read("!ylo7"), _read(r"!ystwo\nlines")
    (3, True, 'o7', 'two\nlines')
    """
    status, kind, text = line[1:2], line[2:3], line[3:]
    if status != "y":
        raise RemoteError(_unescaped(text).partition("\n")[0] or "for no reason that it gave")
    match kind:
        case "s":
            return _unescaped(text)
        case "i" | "L":
            return int(text)
        case "d":
            return float(text)
        case "b":
            return text == "true"
        case "v" | "n":
            return None
        case _:
            return Reference(text)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)


_ESCAPES = {"n": "\n", "r": "\r"}
_RAISED = "!xr"
