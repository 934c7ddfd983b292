"""A retriever behind HTTP, in the form that Search-R1's server speaks."""

import asyncio
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from tests.engines.http_standin import Received, Reply, standing_in

from agentfly.environments.search import Bm25, Passage, RemoteRetriever, retrieval_server
from agentfly.environments.search.backend import ServerSpec, backend_spec
from agentfly.environments.search.environment import SearchEnvironment
from agentfly.errors import EnvError
from agentfly.resources import http_protocol
from agentfly.runtime.http.address import split_token
from agentfly.runtime.http_client import Endpoint
from agentfly.runtime.http_retry import Retry
from agentfly.types import EnvSpec

PASSAGES = [
    Passage(id="7", title="Cats", text="Cats purr.\nThey nap."),
    Passage(id="8", title='A "dog"', text="Dogs bark."),
    Passage(id="9", title="", text="Nameless barks."),
]
BM25 = Bm25.in_memory(PASSAGES)
FAST = Retry(attempts=3, first_wait=0.001, longest_wait=0.01)


def post(url: str, path: str, body: bytes) -> tuple[int, object]:
    bare, token = split_token(url)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(bare + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_a_served_retriever_answers_as_itself() -> None:
    with retrieval_server(BM25) as url, closing(RemoteRetriever(url)) as remote:
        for query in ("bark", "purring cats", "nothing known", "", "x" * 2**20):
            found = remote.search(query, 2)
            assert [h.passage.id for h in found] == [h.passage.id for h in BM25.search(query, 2)]
        hit = remote.search("purr", 1)[0]
        assert hit.passage == PASSAGES[0]
        assert hit.score == pytest.approx(BM25.search("purr", 1)[0].score)
        assert {hit.passage.title for hit in remote.search("bark", 3)} == {'A "dog"', ""}


def test_the_wire_is_search_r1s() -> None:
    with retrieval_server(BM25) as url:
        asked = {"queries": ["purr", "bark"], "topk": 1, "return_scores": True}
        status, answer = post(url, "/retrieve", json.dumps(asked).encode())
        score = BM25.search("purr", 1)[0].score
        assert status == 200
        assert isinstance(answer, dict)
        first, second = answer["result"]
        document = {"id": "7", "contents": '"Cats"\nCats purr.\nThey nap.'}
        assert first == [{"document": document, "score": pytest.approx(score)}]
        assert len(second) == 1
        _, bare = post(url, "/retrieve", json.dumps({"queries": ["purr"]}).encode())
        assert bare == {"result": [[document]]}
        # The published server takes null for its default.
        status, answer = post(url, "/retrieve", b'{"queries": ["barks cats"], "topk": null}')
        assert isinstance(answer, dict)
        assert (status, len(answer["result"][0])) == (200, 3)


def test_a_client_that_can_only_be_given_an_address_finds_the_token_in_it() -> None:
    with retrieval_server(BM25) as url:
        bare, token = split_token(url)
        request = urllib.request.Request(
            f"{bare}/retrieve?token={token}",
            b'{"queries": ["purr"]}',
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.status == 200
        with (
            closing(RemoteRetriever(bare)) as stranger,
            pytest.raises(EnvError, match=r"401: .*needs its token"),
        ):
            stranger.search("purr", 1)
        with closing(RemoteRetriever(f"{bare}/retrieve?token={token}")) as friend:
            assert friend.search("purr", 1)


BARE = "http://localhost:8001"
ADDRESS = f"{BARE}/?token=s3cret"


def test_the_token_is_shown_nowhere() -> None:
    for place in (backend_spec(ADDRESS), ServerSpec(ADDRESS), ServerSpec(BARE, "s3cret")):
        assert place == ServerSpec(BARE, "s3cret")
        assert "s3cret" not in repr(place)
        assert "s3cret" not in EnvSpec(SearchEnvironment, (("place", place),)).name
        assert "s3cret" not in str(http_protocol.plain_option(place))


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/retrieve", b"{", 400),
        ("/retrieve", b"", 400),
        ("/retrieve", b'{"queries": "purr"}', 400),
        ("/retrieve", b'{"queries": ["a"], "topk": 0}', 400),
        ("/retrieve", b'{"queries": ["a"], "topk": 99999}', 400),
        ("/retrieve", b'{"queries": ["a"], "topk": "many"}', 400),
        ("/retrieve", b'{"queries": ["a"], "topk": NaN}', 400),
        ("/retrieve", b'{"queries": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400),
        ("/retrieve", b'{"queries": ["' + b"a" * 2**20 + b'"]}', 413),
        ("/other", b"{}", 404),
    ],
)
def test_a_bad_request_is_answered_with_what_is_wrong(path: str, body: bytes, status: int) -> None:
    with retrieval_server(BM25) as url:
        got, answer = post(url, path, body)
        assert got == status
        assert isinstance(answer, dict)
        assert answer["error"]["message"]
        assert post(url, "/retrieve", b'{"queries": ["purr"]}')[0] == 200  # and it goes on


@contextmanager
def connected() -> Iterator[tuple[http.client.HTTPConnection, dict[str, str]]]:
    """One connection to a server, which is kept, and the headers to send."""
    with retrieval_server(BM25) as url:
        bare, token = split_token(url)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection = http.client.HTTPConnection(bare.removeprefix("http://"), timeout=10)
        with closing(connection):
            yield connection, headers


def test_a_connection_goes_on_after_a_request_for_something_else() -> None:
    with connected() as (kept, headers):
        for path, status in (("/other", 404), ("/retrieve", 200), ("/other", 404)):
            kept.request("POST", path, b'{"queries": ["purr"]}', headers)
            response = kept.getresponse()
            assert (response.status, bool(response.read())) == (status, True)
            assert kept.sock is not None  # which is still the first


@pytest.mark.parametrize("length", ["abc", "-5", "9" * 5000])
def test_a_length_that_is_none_is_reported(length: str) -> None:
    with connected() as (asked, headers):
        asked.putrequest("POST", "/retrieve")
        for name, value in headers.items():
            asked.putheader(name, value)
        asked.putheader("Content-Length", length)
        asked.endheaders()
        response = asked.getresponse()
        assert response.status == 400
        assert "Content-Length" in json.loads(response.read())["error"]["message"]


async def test_many_threads_ask_at_once() -> None:
    with retrieval_server(BM25) as url, closing(RemoteRetriever(url)) as remote:
        async with asyncio.TaskGroup() as tasks:
            asked = [
                tasks.create_task(asyncio.to_thread(remote.search, query, 1))
                for query in ["purr", "bark"] * 50
            ]
        found = [task.result()[0].passage.id for task in asked]
        assert found == [BM25.search(q, 1)[0].passage.id for q in ("purr", "bark")] * 50


GOOD = {"result": [[{"document": {"id": 3, "contents": '"T"\ntext'}, "score": 2}]]}


async def search(url: str, seconds: float = 20.0) -> list[str]:
    with closing(RemoteRetriever(Endpoint(url=url, retry=FAST), seconds=seconds)) as remote:
        hits = await asyncio.to_thread(remote.search, "q", 3)
    return [f"{hit.passage.id} {hit.passage.title} {hit.passage.text}" for hit in hits]


async def test_what_may_pass_is_asked_again() -> None:
    async def handler(received: Received, reply: Reply) -> None:
        match len(server.received):
            case 1:
                await reply.json({}, 429, {"Retry-After": "0.01"})
            case 2:
                reply.reset()
            case _:
                await reply.json(GOOD)

    async with standing_in(handler) as server:
        assert await search(server.url) == ["3 T text"]
        assert len(server.received) == 3


async def test_documents_without_an_id_are_known_by_their_text() -> None:
    async def handler(received: Received, reply: Reply) -> None:
        assert received.body["queries"] == ["q"]
        found = [{"document": {"id": None, "contents": f'"T"\n{x}'}} for x in ("one", "two")]
        await reply.json({"result": [found]})

    async with standing_in(handler) as server:
        known_by = {line.split()[0] for line in await search(server.url)}
    assert len(known_by) == 2
    assert "None" not in known_by


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "should have answered"),
        (b'{"result": [[{"document": 5}]]}', r"result\.0\.0\.document"),
        (b'{"result": []}', "gave 0 results for one query"),
    ],
)
async def test_rubbish_is_an_error_of_the_environment(body: bytes, message: str) -> None:
    async def handler(received: Received, reply: Reply) -> None:
        await reply.body(body)

    async with standing_in(handler) as server:
        with pytest.raises(EnvError, match=message):
            await search(server.url)


async def test_a_server_that_stays_broken_or_silent_is_given_up() -> None:
    async def broken(received: Received, reply: Reply) -> None:
        await reply.json({"detail": "boom"}, 500)

    async def silent(received: Received, reply: Reply) -> None:
        await reply.until_hung_up()

    async with standing_in(broken) as server:
        with pytest.raises(EnvError, match=r"answered 500: .*boom.*\(attempt 3 of 3\)"):
            await search(server.url)
    async with standing_in(silent) as server:
        with pytest.raises(EnvError, match="gave no whole answer within"):
            await search(server.url, seconds=1.5)
