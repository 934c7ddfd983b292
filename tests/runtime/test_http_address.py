"""Tokens and host names of our servers."""

import subprocess
import sys

import pytest
from tests.patience import PATIENCE

from agentfly.errors import ConfigError
from agentfly.runtime.http.address import Listen, split_token, with_token

CHOSEN = "0123456789abcdef"


def test_every_server_has_a_token_of_its_own_that_nobody_can_guess() -> None:
    tokens = {Listen().access().token for _ in range(50)}
    assert len(tokens) == 50
    assert min(map(len, tokens)) >= 43  # 256 bits


@pytest.mark.parametrize(
    "token", ["", "short", "fifteen letters", "x" * 15, "x" * 20 + "\n", "ü" * 20]
)
def test_a_weak_or_unsendable_token_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="at least 16 visible ASCII characters") as refused:
        Listen(token=token)
    assert not token or token not in str(refused.value)


def test_neither_settings_nor_checks_show_the_token() -> None:
    listen = Listen(token=CHOSEN)
    assert CHOSEN not in repr(listen) + repr(listen.access())


@pytest.mark.parametrize(
    "sent", ["", "0123456789abcde", f"{CHOSEN}0", CHOSEN.upper(), "\udcff", "é"]
)
def test_only_the_whole_token_opens(sent: str) -> None:
    access = Listen(token=CHOSEN).access()
    assert access.allows_token(CHOSEN)
    assert not access.allows_token(sent)


@pytest.mark.parametrize(
    ("listen", "allowed", "refused"),
    [
        (
            Listen(),
            ["127.0.0.1", "127.0.0.1:8700", "localhost:1", "LocalHost.", "[::1]:8700"],
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.7", ""],
        ),
        (
            Listen(host="10.0.0.7", allowed_hosts=("envs.example.org",)),
            ["10.0.0.7:8700", "envs.example.org", "ENVS.example.org:443", "localhost"],
            ["example.org", "x.envs.example.org", "10.0.0.8", "envs.example.org@evil.example"],
        ),
        (
            Listen(host="0.0.0.0"),
            ["10.0.0.7:8700", "[fe80::1]:80", "127.0.0.1", "localhost"],
            ["evil.example", "10.0.0.7.evil.example", "0x7f.1", "127.1", "[::1", "::1]", "a b"],
        ),
    ],
)
def test_only_names_that_the_server_was_given_are_allowed(
    listen: Listen, allowed: list[str], refused: list[str]
) -> None:
    access = listen.access()
    assert [host for host in allowed if not access.allows_host(host)] == []
    assert [host for host in refused if access.allows_host(host)] == []


@pytest.mark.parametrize("name", ["http://envs.example.org", "a/b", "", "a b"])
def test_what_is_no_host_name_is_reported(name: str) -> None:
    with pytest.raises(ConfigError, match="no host name"):
        Listen(allowed_hosts=(name,))


def test_a_port_that_is_none_is_reported() -> None:
    with pytest.raises(ConfigError, match="from 0 to 65535, got 70000"):
        Listen(port=70000)


@pytest.mark.parametrize("token", ["plain-token_0123456", "a&b=c#d?e/f%20+ghij"])
@pytest.mark.parametrize("url", ["http://h:1", "https://h/a/b", "http://[::1]:8700"])
def test_a_token_goes_into_an_address_and_out_again(url: str, token: str) -> None:
    assert split_token(with_token(url, token)) == (url, token)


def test_without_the_packages_of_servers_the_way_to_them_is_reported() -> None:
    code = """
import asyncio, importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "uvicorn" else found(name, *rest)
from agentfly.environments.search import Bm25, Passage, retrieval_server
from agentfly.environments import find_definition
from agentfly.resources import environment_server
from agentfly.runtime.http.address import Listen
from agentfly.types import EnvSpec

async def serve():
    async with environment_server(EnvSpec(dict)):
        pass

def search():
    with retrieval_server(Bm25.in_memory([Passage(id="a", title="", text="b")])):
        pass

def shop():
    webshop = find_definition("webshop")
    with webshop.make(webshop.options(level="easy")).pages(Listen()):
        pass

for start in (lambda: asyncio.run(serve()), search, shop):
    try:
        start()
    except ValueError as error:
        print(error)
"""
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout
    assert out.splitlines() == [
        f"{what} needs the package uvicorn: pip install 'agentfly[server]'"
        for what in ("an environment server", "a retrieval server", "the shop as a site")
    ]
