"""What is read of a page, however it is written, and in how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfly.environments.search.html_text import decode_html, extract_text

PIECES = [
    "<p>",
    "</p>",
    "<nav>",
    "</nav>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<script>",
    "&amp;",
    "</script>",
    "<title>",
    "</title>",
    "<",
    ">",
    "&#x;",
    "<!",
    "<?",
    "words",
    "<main>",
    "é",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_page_can_be_read(pieces: list[str]) -> None:
    page = extract_text("".join(pieces))
    assert isinstance(page.text, str)


@pytest.mark.parametrize(
    "piece",
    [
        "<a ",
        "<a b=",
        '<a b=">" ',
        "<a b='<a b=\"",
        "<nav>x",
        "<nav></main>",
        "<main>x",
        "<!--",
        "<![CDATA[",
        "</",
        "<script>",
        "<title>",
        "&#9",
        "&",
        "<",
        " ",
    ],
)
def test_no_page_takes_longer_than_its_length(piece: str) -> None:
    """A quarter of a megabyte takes a second at most; if the work were quadratic, hours."""
    page = extract_text("<p>words</p>" + piece * (2**18 // len(piece)))
    assert page.text.startswith(("words", "x"))  # of <main> alone, where there is one


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ('<a title="x > y">link</a> it\'s', "link it's"),
        ("a < b and <b>c</b>", "a < b and c"),
        ("<script>if (a<b) '</nav>'</script>x", "x"),
        ("<SCRIPT>no</Script >x", "x"),
        ("<svg/>x<iframe/>y", "xy"),
        ("<svg><title>icon</title></svg>x", "x"),
        ("<nav>a<nav>b</nav>c</nav>d", "d"),
        ("<nav><main>a</nav>b", "b"),
        ("x<!-- <p> -->y<!-->z", "xyz"),
        ("x<?php no ?>y<!doctype html>z", "xyz"),
        ("x<a href='unclosed>y</a>", "xy"),
        ("words <a cut", "words"),
        ("&lt;p&gt; &#" + "9" * 5000 + ";", "<p> \ufffd"),
    ],
)
def test_what_is_read_of_odd_pages(page: str, text: str) -> None:
    assert extract_text(page).text == text


def test_the_title_is_the_pages_own() -> None:
    page = "<title>Cats &amp; <b>dogs</title><svg><title>icon</title></svg>x"
    assert extract_text(page).title == "Cats & <b>dogs"


@pytest.mark.parametrize(
    "charset", ["idna", "undefined", "punycode", "unicode_escape", "hex", "rot13", "nonsense"]
)
def test_what_is_no_charset_is_read_as_utf8(charset: str) -> None:
    page = f"<meta charset={charset}>ü.b\\u00e9-".encode()
    assert decode_html(page) == decode_html(page, charset) == page.decode()
