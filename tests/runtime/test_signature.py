import functools
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from agentfly.errors import ConfigError
from agentfly.runtime.signature import (
    MISSING,
    Parameter,
    is_unbound_method,
    name_of,
    parameters_of,
    unwrapped,
)

if TYPE_CHECKING:
    from decimal import Decimal


class Shop:
    def search(self, word: str, limit: "int" = 3) -> str:
        raise NotImplementedError

    @staticmethod
    def rate(years: int) -> float:
        raise NotImplementedError

    def __call__(self, word: "str") -> str:
        raise NotImplementedError


def plain(
    a: int, b: Annotated[str, "note"] = "x", *, c: "list[int] | None" = None, d: Any = 1
) -> "Decimal":
    raise NotImplementedError


def names(function: Any, *, skip_self: bool = False) -> list[str]:
    return [parameter.name for parameter in parameters_of(function, skip_self=skip_self)]


def test_annotations_are_resolved_and_the_return_type_is_not_looked_at() -> None:
    assert parameters_of(plain) == [
        Parameter(name="a", annotation=int, default=MISSING),
        Parameter(name="b", annotation=Annotated[str, "note"], default="x"),
        Parameter(name="c", annotation=list[int] | None, default=None),
        Parameter(name="d", annotation=Any, default=1),
    ]


def test_no_annotation_is_missing() -> None:
    assert parameters_of(lambda x, y=2: x) == [
        Parameter(name="x", annotation=MISSING, default=MISSING),
        Parameter(name="y", annotation=MISSING, default=2),
    ]


def test_methods() -> None:
    assert names(Shop().search) == ["word", "limit"]
    assert names(Shop.search, skip_self=True) == ["word", "limit"]
    assert parameters_of(Shop().search)[1].annotation is int
    assert names(Shop()) == ["word"]
    assert parameters_of(Shop())[0].annotation is str


def test_what_a_partial_fills_is_gone() -> None:
    assert names(functools.partial(plain, 1)) == ["b", "c", "d"]
    assert names(functools.partial(plain, b="y")) == ["a", "c", "d"]
    assert names(functools.partial(functools.partial(plain, 1), d=2)) == ["b", "c"]
    assert parameters_of(functools.partial(plain, 1))[1].annotation == list[int] | None


def test_a_wrapped_function_is_read_as_what_it_wraps() -> None:
    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    assert parameters_of(wrapper) == parameters_of(plain)


def test_names_of_local_classes() -> None:
    class Local: ...

    def take(value: "Local") -> None: ...

    assert parameters_of(take)[0].annotation is Local


def test_a_function_that_refers_to_what_is_defined_later() -> None:
    def first(x: "int") -> object:
        return second

    assert names(first) == ["x"]
    second = object()


def takes_decimal(x: "Decimal") -> None: ...


def takes_nonsense(x: "list[") -> None: ...  # type: ignore[valid-type] # noqa: F722


@pytest.mark.parametrize("function", [takes_decimal, takes_nonsense])
def test_what_cannot_be_resolved_is_reported(function: Any) -> None:
    with pytest.raises(
        ConfigError, match=f"an annotation of '{function.__name__}' can't be resolved"
    ):
        parameters_of(function)


@pytest.mark.parametrize(
    ("function", "culprits"),
    [
        (lambda *parts: 0, r"\*parts"),
        (lambda x, **more: 0, r"\*\*more"),
        (lambda x, /, y: 0, "x"),
        (lambda x, /, *parts: 0, r"x, \*parts"),
    ],
)
def test_what_cannot_be_given_by_name_is_reported(function: Any, culprits: str) -> None:
    with pytest.raises(ConfigError, match=f"takes {culprits}, which can't be given by name"):
        parameters_of(function)


def test_names() -> None:
    assert name_of(plain) == "plain"
    assert name_of(functools.partial(plain, 1)) == "plain"
    assert name_of(Shop().search) == "search"
    assert name_of(Shop()) == "Shop"
    assert unwrapped(functools.partial(Shop().search, "x")) is Shop.search


def test_a_method_in_its_class_is_distinguished_from_a_function() -> None:
    def self_made(self: int) -> None: ...

    assert is_unbound_method(Shop.search)
    assert not is_unbound_method(Shop().search)
    assert not is_unbound_method(Shop.rate)
    assert not is_unbound_method(Shop())
    assert not is_unbound_method(self_made)
    assert not is_unbound_method(plain)

    class Inner:
        def method(self) -> None: ...

    assert is_unbound_method(Inner.method)
