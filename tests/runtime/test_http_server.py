"""The small HTTP server that environments, retrievers and pages share."""

import urllib.request

import pytest

from agentfly.errors import ConfigError
from agentfly.runtime.http_server import Handler, listening


class Greeter(Handler):
    word: str

    def do_GET(self) -> None:
        body = self.word.upper().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_each_server_has_its_own_attributes() -> None:
    with (
        listening(Greeter, host="127.0.0.1", port=0, word="one") as first,
        listening(Greeter, host="127.0.0.1", port=0, word="two") as second,
    ):
        answers = [urllib.request.urlopen(url, timeout=10).read() for url in (first, second)]
    assert answers == [b"ONE", b"TWO"]


def test_a_port_that_is_taken_is_told_with_the_way_out() -> None:
    with listening(Greeter, host="127.0.0.1", port=0, word="one") as url:
        port = int(url.rpartition(":")[2])
        with (
            pytest.raises(ConfigError, match=rf"127.0.0.1:{port}.*another port"),
            listening(Greeter, host="127.0.0.1", port=port, word="two"),
        ):
            pass
