"""Addresses, without Chromium: which are loaded, how they are completed, and the proxy."""

import asyncio
from ipaddress import IPv4Address
from typing import Any, cast

import pytest

from agentfly.environments.browser.actions import ActionProblem, PageActions
from agentfly.environments.browser.address import Access, AddressRules, complete_url, parse_rules
from agentfly.environments.browser.chromium import filter_proxy
from agentfly.environments.browser.chromium.filter_proxy import FilterProxy
from agentfly.environments.browser.chromium.tab import Tab
from agentfly.environments.browser.sites.own import (
    OwnSite,
)
from agentfly.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "access"),
    [
        ("http://a.test/x", Access.SERVE),
        ("https://shop.example/x", Access.FETCH),
        ("https://cdn.shop.example/x", Access.FETCH),
        ("http://localhost:3000/", Access.FETCH),
        ("http://localhost:3001/", Access.REFUSE),
        ("http://localhost/", Access.REFUSE),
        ("https://localhost:3000/", Access.REFUSE),
        ("https://shop.example:8443/", Access.REFUSE),
        ("https://shop.example.evil.test/", Access.REFUSE),
        ("https://notshop.example/", Access.REFUSE),
        ("http://a.test@evil.test/", Access.REFUSE),
        ("http://user@a.test/", Access.REFUSE),
        ("file:///etc/passwd", Access.REFUSE),
        ("javascript:alert(1)", Access.REFUSE),
        ("chrome://settings", Access.REFUSE),
        ("http://169.254.169.254/", Access.REFUSE),
        ("http://[::1/", Access.REFUSE),
        ("", Access.REFUSE),
    ],
)
def test_only_named_addresses_are_loaded(url: str, access: Access) -> None:
    allowed = parse_rules(["*.shop.example", "http://localhost:3000"])
    rules = AddressRules(served=frozenset({"a.test"}), allowed=allowed)
    assert rules.access(url) is access


@pytest.mark.parametrize(
    "rule",
    ["", "a b", "ftp://a.test", "a.test:x", "*", "*.", "http://", "a.test:0", "[::1", "me@a.test"],
)
def test_a_rule_that_names_no_host_is_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match="is no rule for addresses"):
        parse_rules([rule])


def test_addresses_are_completed_as_a_person_means_them() -> None:
    here = "http://a.test/b/c"
    given_urls = ["d", "/d", "?x=1", "b.test/d", "http://c.test", "about:blank", "b.test:80/x"]
    assert [complete_url(one, here) for one in given_urls] == [
        "http://a.test/b/d",
        "http://a.test/d",
        "http://a.test/b/c?x=1",
        "http://b.test/d",
        "http://c.test",
        "about:blank",
        "http://b.test:80/x",
    ]


async def test_an_address_that_can_not_be_read_is_said_to_the_model() -> None:
    site = OwnSite({"start": "http://a.test/", "instruction": "", "check": "1"}, ())
    actions = PageActions(cast("Tab", None), None, site)  # Nothing is opened.
    for url in ("//[", "//[::1/x", "//a\u2100b"):
        with pytest.raises(ActionProblem, match="This is no valid address: '//"):
            await actions.open(url)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a request with its first line."""
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head.split(b"\r\n")[0])
    writer.close()


async def test_the_proxy_connects_only_where_it_may() -> None:
    async with await asyncio.start_server(_echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        rules = AddressRules(allowed=parse_rules([f"127.0.0.1:{port}"]))
        async with FilterProxy(rules) as proxy:
            said = await _ask(proxy, f"GET http://127.0.0.1:{port}/a?b HTTP/1.1")
            assert said.endswith(b"GET /a?b HTTP/1.1")
            for refused in (
                f"GET http://127.0.0.1:{port + 1}/ HTTP/1.1",
                f"GET http://localhost:{port}/ HTTP/1.1",
                "CONNECT example.test:443 HTTP/1.1",
                "nonsense",
            ):
                assert b"403" in await _ask(proxy, refused)


async def test_only_a_host_that_is_named_itself_may_be_in_a_local_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def resolve_to_loopback(*_: object) -> list[IPv4Address]:
        return [IPv4Address("127.0.0.1")]

    monkeypatch.setattr(filter_proxy, "resolve_host", resolve_to_loopback)
    async with await asyncio.start_server(_echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        domain = f"*.shop.example:{port}"
        for allow, host, status in (
            ([domain], "shop.example", b"403"),
            ([domain], "cdn.shop.example", b"403"),
            ([domain, "shop.example"], "shop.example", b"403"),  # The rule names another port.
            ([domain, f"cdn.shop.example:{port}"], "cdn.shop.example", b"200"),
            ([f"shop.example:{port}"], "shop.example", b"200"),
        ):
            async with FilterProxy(AddressRules(allowed=parse_rules(allow))) as proxy:
                said = await _ask(proxy, f"GET http://{host}:{port}/ HTTP/1.1")
            assert said.startswith(b"HTTP/1.1 " + status), (allow, host)


@pytest.mark.parametrize("later", [["127.0.0.1"], ["10.0.0.7", "127.0.0.1"]])
async def test_a_name_that_was_public_can_not_point_into_the_local_network_later(
    monkeypatch: pytest.MonkeyPatch, later: list[str]
) -> None:
    connected: list[str] = []
    answers = [["93.184.216.34", "127.0.0.1"], later]

    async def resolve(*_: object) -> list[IPv4Address]:
        return [IPv4Address(one) for one in answers[min(len(connected), 1)]]

    async def connect(host: str, to: int) -> Any:
        if to == port:
            connected.append(host)
        return await open_connection("127.0.0.1", to)

    open_connection = asyncio.open_connection
    monkeypatch.setattr(asyncio, "open_connection", connect)
    monkeypatch.setattr(filter_proxy, "_public_hosts", set())
    monkeypatch.setattr(filter_proxy, "resolve_host", resolve)
    async with await asyncio.start_server(_echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"http://shop.example:{port}/"
        rules = AddressRules(allowed=parse_rules([url]))
        for status in (b"200", b"403"):  # The second chain has a proxy of its own.
            async with FilterProxy(rules) as proxy:
                said = await _ask(proxy, f"GET {url} HTTP/1.1")
            assert said.startswith(b"HTTP/1.1 " + status)
    assert connected == ["93.184.216.34"], "its private address is not used beside a public one"


@pytest.mark.parametrize("problem", [ConnectionRefusedError(), OSError("no IPv6 here")])
async def test_a_server_is_tried_at_all_of_its_addresses(
    monkeypatch: pytest.MonkeyPatch, problem: OSError
) -> None:
    connect = asyncio.open_connection

    async def connect_to_the_second(host: str, port: int) -> Any:
        if host == "127.0.0.2":
            raise problem
        return await connect(host, port)

    async def resolve_to_two(*_: object) -> list[IPv4Address]:
        return [IPv4Address("127.0.0.2"), IPv4Address("127.0.0.1")]

    monkeypatch.setattr(filter_proxy, "resolve_host", resolve_to_two)
    monkeypatch.setattr(asyncio, "open_connection", connect_to_the_second)
    async with await asyncio.start_server(_echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"http://shop.example:{port}/"
        async with FilterProxy(AddressRules(allowed=parse_rules([url]))) as proxy:
            assert (await _ask(proxy, f"GET {url} HTTP/1.1")).startswith(b"HTTP/1.1 200")
            assert proxy.refusal(url) is None


async def test_a_server_that_does_not_run_is_answered_by_nobody() -> None:
    async with await asyncio.start_server(_echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    url, other = f"http://127.0.0.1:{port}/", "http://127.0.0.1:9/"
    async with FilterProxy(AddressRules(allowed=parse_rules([url, other]))) as proxy:
        assert await _ask(proxy, f"GET {url} HTTP/1.1") == b""
        assert proxy.refusal(url) == (
            f"127.0.0.1:{port} refuses the connection: is the server running?"
        )
        assert proxy.refusal(other) is None


async def _ask(proxy: FilterProxy, line: str) -> bytes:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(proxy.address.rpartition(":")[2])
    )
    writer.write(f"{line}\r\nHost: x\r\n\r\n".encode())
    said = await reader.read()
    writer.close()
    return said
