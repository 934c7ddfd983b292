"""Hostile requests to an environment server, the same for the same seed."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

VERBS = [
    "PUT",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
    "PoSt",
    "X" * 300,
    "\x00",
    "",
]
METHODS = [
    "reset",
    "step",
    "run",
    "shell",
    "read_file",
    "write_file",
    "list_files",
    "healthy",
    "add",
]
PRIVATE = [
    *("close", "_box", "_level", "_secret", "__class__", "__init__", "__dict__", "__reduce__"),
    *("limits", "folder", "total", "mro", "step.__globals__", "%5f_class__", "..", "%00", "a/b"),
]
TYPES = [
    *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""),
    *("application/json; charset=utf-16", "application/jsonp", "APPLICATION/JSON", "*/*"),
]
NUMBERS: list[Any] = [0, -1, 1, 2, 3, 7, 10**40, 1.5, "1", None, True, [], {}]


@dataclass(frozen=True)
class Attack:
    """One thing to send."""

    sent: bytes
    hangs_up: bool = False
    """Whether the client leaves in the middle, so that it need not be answered."""
    session: str | None = None
    """Where it was sent to, if that was right."""


class Fuzzer:
    """Makes attacks, most of them with the token, so that they come far, and learns from answers.

    Args:
        seed: Of everything.
        token: Of the server.
        secret: The path of a file that no answer may show.
    """

    def __init__(self, seed: int, token: str, secret: str) -> None:
        self._random = Random(seed)
        self._token = token
        self._secret = secret
        self._sessions: dict[str, int] = {}
        """The paths of sessions, and the number of the next call in each."""
        self._aim: str | None = None

    def learn(self, attack: Attack, status: int, answer: Any) -> None:
        """Take from an answer what helps the next attack to come further."""
        if status == 201:
            self._sessions[f"/sessions/{answer['session']}"] = 1
        if attack.session not in self._sessions:
            return
        if status == 404 and "NoSession" in str(answer):
            del self._sessions[attack.session]
        elif status in (200, 422):
            self._sessions[attack.session] += 1
        elif status == 409 and (expected := re.search(r"next call is (\d+)", str(answer))):
            self._sessions[attack.session] = int(expected[1])

    def attack(self) -> Attack:
        """Make the next one."""
        self._aim = None
        if self._random.random() < 0.06:
            return Attack(self._random.randbytes(self._random.randrange(1, 4000)) + b"\r\n\r\n")
        verb, path, body = self._any(
            self._opening, *[self._calling] * 5, self._reading, self._lost
        )()
        head = [f"{verb} {path} HTTP/{self._any('1.1', '1.1', '1.1', '1.1', '1.0', '3.7')}"]
        head += [*self._host(), *self._authorization(), *self._length(body), *self._others()]
        sent = "\r\n".join([*head, "", ""]).encode("latin-1", errors="replace") + body
        if self._random.random() < 0.05:
            return Attack(sent[: self._random.randrange(1, len(sent))], hangs_up=True)
        if self._random.random() < 0.05:
            sent += sent  # Pipelined.
        return Attack(sent, session=self._aim)

    def _any(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _session(self) -> str:
        live = self._random.choice([*self._sessions] or ["/sessions/none"])
        if self._random.random() < 0.8:
            self._aim = live
            return live
        return str(self._any(live.swapcase(), live[:-1], "/sessions/x", f"{live}%20"))

    def _opening(self) -> tuple[str, str, bytes]:
        return (
            "POST",
            "/sessions",
            self._json(self._any(self._options, self._options, self._rubbish)()),
        )

    def _calling(self) -> tuple[str, str, bytes]:
        name = self._any(*METHODS, *METHODS, *["step", "add", "run"] * 5, *PRIVATE)
        path = f"{self._session()}/{name}"
        body = self._any(*[self._call] * 7, self._rubbish)()
        return "POST", path, self._json(body)

    def _reading(self) -> tuple[str, str, bytes]:
        if self._random.random() < 0.1:
            return "DELETE", self._session(), b""
        verb = self._any("GET", "GET", "DELETE", *VERBS)
        return verb, f"{self._session()}/{self._any(*PRIVATE, *METHODS)}", b""

    def _lost(self) -> tuple[str, str, bytes]:
        path = self._any(
            *("/", "//", "*", "/sessions/", "/..", "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc"),
            *(self._secret, f"file://{self._secret}", f"/..{self._secret}", "/\\..\\..", "/?x=1"),
            *(
                "http://evil.example/",
                "evil.example:443",
                "/" + "a" * 20_000,
                "/%",
                "/%zz",
                "/\xff",
            ),
            f"/?token={self._token}&token=x",
        )
        return self._any("GET", "POST", *VERBS), path, self._json(self._rubbish())

    def _options(self) -> Any:
        one = self._any(
            {"isolation": "unsafe"},
            {"isolation": "unsafe", "unsafe": True},
            {"isolation": self._any("warm", "bubblewrap", "docker", None, 3, ["unsafe"])},
            {"unsafe": self._any(True, 1, "yes")},
            {"readable": [self._secret.rpartition("/")[0], "/"]},
            {"preload": ["os", "antigravity"]},
            {"limits": {"memory_mb": 10**9, "seconds": 10**9}},
            {"limits": {"SandboxLimits": {"seconds": 10**9}}},
            {"folder": self._any(self._secret, "/", "../..", 1)},
            {"size": self._any(1, 2, 3, "1", True, 1.0, -1, [1], {"size": 1}, None)},
            {self._any("__class__", "self", "", "\x00", "\ud800", "factory"): self._rubbish()},
            *[{}] * 12,
        )
        return {"options": one} | self._any({}, {}, {"spec": "x"}, {"factory": "os.system"})

    def _call(self) -> Any:
        right = self._sessions.get(self._aim or "", 1)
        number = right if self._random.random() < 0.8 else self._any(*NUMBERS, right - 1, right + 1)
        wrong = [[self._task(), 7], [], [1, 2, 3], [5], "x"]
        twisted = [{"self": 1}, {"action": self._code()}, {"task": self._task()}, []]
        return {
            "number": number,
            "args": [self._code()] if self._random.random() < 0.7 else self._any(*wrong),
            "kwargs": {} if self._random.random() < 0.8 else self._any(*twisted),
        }

    def _code(self) -> Any:
        """Write what tries to read the secret, or to end whatever runs it."""
        return self._any(
            f"print(open({self._secret!r}).read())",
            f"import os; os.system('cat {self._secret}')",
            f"import pathlib; pathlib.Path({self._secret!r}).read_text()",
            "import os; os._exit(1)",
            "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
            "raise SystemExit('bye')",
            "print('\\ud800' * 10); print('x' * 10**6)",
            "import socket; socket.create_connection(('127.0.0.1', 22), 1)",
            self._secret,
            "go",
            5,
        )

    def _task(self) -> Any:
        return self._any(
            {"id": "t", "fields": {"file": self._secret, "line": 1, "goal": "."}},
            {"id": "t", "messages": [{"role": "user", "content": self._secret}]},
            {"id": "t", "messages": [{"role": "devil"}]},
            {"id": ""},
            {"id": "t", "fields": self._rubbish()},
            self._secret,
        )

    def _rubbish(self) -> Any:
        deep: Any = 1
        for _ in range(self._random.randrange(150)):
            deep = [deep]
        return self._any(deep, None, [], "x", 1e308, {"a": {"b": [1, "\ud800"]}}, "\x00" * 50, -0.0)

    def _json(self, value: Any) -> bytes:
        text = json.dumps(value).encode()
        twisted: list[Callable[[], bytes]] = [
            lambda: text[: self._random.randrange(len(text) + 1)],
            lambda: text.replace(b"1", b"NaN").replace(b"7", b"1e999"),
            lambda: b"[" * 100_000,
            lambda: b'{"a":' * 20_000,
            lambda: self._random.randbytes(self._random.randrange(300)),
            lambda: text.decode().encode("utf-16"),
            lambda: b"\xef\xbb\xbf" + text,
            lambda: text + text,
            lambda: b"9" * 5000,
            lambda: b'{"options": {"size": 1, "size": {"isolation": "unsafe"}}}',
            lambda: b" " * 300_000 + text,
            lambda: b'"' + b"x" * 9_000_000 + b'"',
        ]
        if self._random.random() < 0.8:
            return text
        # What is larger than a body may be is sent now and then only.
        return self._any(*twisted[:-1])() if self._random.random() < 0.97 else twisted[-1]()

    def _host(self) -> list[str]:
        if self._random.random() < 0.92:
            return ["Host: 127.0.0.1"]
        return list(
            self._any(
                *([], ["Host: evil.example"], ["Host: localhost", "Host: evil.example"], ["Host:"]),
                *(["Host: 127.0.0.1@evil.example"], ["Host: 2130706433"], ["Host: \xff"]),
                ["Host: evil.example", "X-Forwarded-Host: localhost", "Forwarded: host=localhost"],
            )
        )

    def _authorization(self) -> list[str]:
        if self._random.random() < 0.92:
            return [f"Authorization: Bearer {self._token}"]
        return list(
            self._any(
                *(
                    [],
                    ["Authorization:"],
                    ["Authorization: Bearer"],
                    ["Authorization: Bearer \xff"],
                ),
                *(["Authorization: Basic x"], [f"Authorization: Bearer {self._token[:-1]}"]),
                *([f"Authorization: Bearer {self._token}x"], [f"Cookie: agentfly_0={self._token}"]),
                ["Authorization: Bearer " + "x" * 10_000],
            )
        )

    def _length(self, body: bytes) -> list[str]:
        honest = [f"Content-Length: {len(body)}", "Content-Type: application/json"]
        if self._random.random() < 0.92:
            return honest
        return list(
            self._any(
                *([], ["Content-Length: -1"], ["Content-Length: 1", "Content-Length: 9"]),
                *(["Content-Length: 99999999999"], ["Content-Length: 0x10"], honest[:1]),
                *([*honest, "Transfer-Encoding: chunked"], ["Transfer-Encoding: chunked"]),
                *(["Transfer-Encoding: gzip, chunked"], ["Content-Length: \xb2"]),
                [honest[0], f"Content-Type: {self._any(*TYPES)}"],
            )
        )

    def _others(self) -> list[str]:
        if self._random.random() < 0.9:
            return []
        return list(
            self._any(
                *(["Expect: 100-continue"], ["Upgrade: websocket", "Connection: Upgrade"]),
                *(["X-Forwarded-For: 10.0.0.1"], ["Range: bytes=0-10"], ["X: y"] * 3000),
                *(["X: " + "y" * 70_000], ["Bad header"], ["X : y"], [" folded"], ["\x00: x"]),
                *(["Connection: close"], ["Origin: http://evil.example"], ["Accept: \xff"]),
                *(["X-HTTP-Method-Override: DELETE"], ["Upgrade: h2c", "HTTP2-Settings: AAMAAABk"]),
            )
        )
