"""Which addresses may be fetched: none of the network that a model runs in."""

import ipaddress

import pytest
from tests.engines.http_standin import Received, Reply, standing_in
from tests.environments.search.page_standins import read, site

from agentfly.environments.search.web import address
from agentfly.errors import ToolError
from agentfly.runtime.public_address import Address, is_public


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/cats",
        "http://localhost:{port}/cats",
        "http://[::1]:{port}/cats",
        "http://[::ffff:127.0.0.1]:{port}/cats",
        "http://2130706433:{port}/cats",
        "http://0x7f.1:{port}/cats",
        "http://0.0.0.0:{port}/cats",
        "http://169.254.169.254/latest/meta-data",
        "http://10.1.2.3/",
        "http://100.64.0.1/",
        "http://[fd00::1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
    ],
)
async def test_private_and_loopback_addresses_are_refused(url: str) -> None:
    async with standing_in(site) as server:
        with pytest.raises(ToolError, match=r"not on the public web|there is no host"):
            await read(url.format(port=server.port), allow_private=False)
        assert server.received == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "cats",
        "ftp://x/",
        "file:///etc/passwd",
        "http://",
        "http://u:p@x/",
        "http://x:99999/",
        "http://[::1/",
        "javascript:alert(1)",
        "https://" + "x" * 5000,
        "http://h/\x01",
        "http://h/a\nb",
        "http://h/\ud83d",
        "http://h\ud83d/",
        "http://\u2024\u2024/",
        "http://h\uff0fx/",
    ],
)
async def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(ToolError, match="not an address that can be opened"):
        await read(url)


async def test_a_host_of_other_letters_is_asked_by_its_ascii_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def resolve_host(host: str, port: int) -> list[Address]:
        asked.append(host)
        return [ipaddress.ip_address("127.0.0.1")]

    monkeypatch.setattr(address, "resolve_host", resolve_host)
    async with standing_in(site) as server:
        for host in ("bücher.example", "ｃats.example"):
            page = await read(f"http://{host}:{server.port}/cats?q=ä")
            assert page.title == "Cats"
        hosts = ["xn--bcher-kva.example", "cats.example"]
        assert asked == hosts
        sent = [received.headers["host"] for received in server.received]
        assert sent == [f"{host}:{server.port}" for host in hosts]


async def test_each_redirect_is_looked_at_and_the_address_is_kept_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that leads to the public web, whose page leads to a name that does not."""
    addresses = {"start.example": "127.0.0.1", "inside.example": "10.0.0.1"}
    asked: list[str] = []

    async def resolve_host(host: str, port: int) -> list[Address]:
        asked.append(host)
        return [ipaddress.ip_address(addresses[host])]

    async def redirect(received: Received, reply: Reply) -> None:
        await reply.body(b"", 302, {"Location": "http://inside.example/admin"})

    monkeypatch.setattr(address, "resolve_host", resolve_host)
    monkeypatch.setattr(address, "is_public", lambda one: str(one) == "127.0.0.1")
    async with standing_in(redirect) as server:
        with pytest.raises(ToolError, match=r"'inside\.example' is not on the public web"):
            await read(f"http://start.example:{server.port}/", allow_private=False)
        assert asked == ["start.example", "inside.example"]  # once each
        # The request went to the address that was looked at, under the name that was asked for.
        assert server.received[0].headers["host"] == f"start.example:{server.port}"


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("1.1.1.1", True),
        ("2606:4700::1111", True),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("fe80::1", False),
        ("::ffff:8.8.8.8", True),
        ("::ffff:192.168.0.1", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b::808:808", True),
        ("64:ff9b:1::7f00:1", False),
        ("::ffff:0:7f00:1", False),
        ("::ffff:0:10.1.2.3", False),
        ("::ffff:0:8.8.8.8", True),
        ("::127.0.0.1", False),
        ("::8.8.8.8", False),
        ("fec0::1", False),
    ],
)
def test_which_addresses_are_public(text: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(text)) is public
