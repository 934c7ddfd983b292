"""Leases: together, bounded, and closed whatever happens."""

import asyncio
import logging
import threading
from typing import ClassVar

import pytest

from agentfly.errors import EnvError, LeaseTimeout
from agentfly.resources import FreshPool
from agentfly.runtime.clock import LoopClock
from agentfly.types import EnvSpec


class Box:
    made: ClassVar[list["Box"]] = []

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.closed = False
        Box.made.append(self)

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def fresh_boxes() -> None:
    Box.made.clear()


def soon(seconds: float = 5.0) -> float:
    return LoopClock().now() + seconds


async def test_several_kinds_are_leased_together_and_closed_on_the_way_out() -> None:
    small, large = EnvSpec(Box), EnvSpec(Box, (("size", 9),))
    async with FreshPool().lease([small, large, small], owner="me", deadline=soon()) as leased:
        assert {spec: box.size for spec, box in leased.items()} == {small: 1, large: 9}
        assert not any(box.closed for box in Box.made)
    assert len(Box.made) == 2
    assert all(box.closed for box in Box.made)


async def test_what_was_made_is_closed_when_a_later_kind_fails() -> None:
    def broken() -> Box:
        raise OSError("no such box")

    with pytest.raises(EnvError, match="no such box"):
        async with FreshPool().lease([EnvSpec(Box), EnvSpec(broken)], owner="me", deadline=soon()):
            pytest.fail("a lease is all or nothing")
    assert [box.closed for box in Box.made] == [True]


async def test_places_are_bounded_and_given_back() -> None:
    pool = FreshPool(max_leases=1)
    async with pool.lease([EnvSpec(Box)], owner="first", deadline=soon()):
        with pytest.raises(LeaseTimeout, match="by first for"):
            async with pool.lease([EnvSpec(Box)], owner="second", deadline=soon(0.05)):
                pytest.fail("there is only one place")
    async with pool.lease([EnvSpec(Box)], owner="second", deadline=soon()):
        pass
    assert len(Box.made) == 2


async def test_an_instance_that_comes_too_late_is_closed() -> None:
    may_go_on = threading.Event()

    def slow() -> Box:
        may_go_on.wait(30)
        return Box()

    with pytest.raises(EnvError, match="did not answer"):
        async with FreshPool().lease([EnvSpec(slow)], owner="me", deadline=soon(0.05)):
            pytest.fail("it can't be ready yet")
    may_go_on.set()
    for _ in range(500):
        if Box.made and Box.made[0].closed:
            break
        await asyncio.sleep(0.01)
    assert [box.closed for box in Box.made] == [True]


async def test_a_close_that_fails_is_logged_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Sticky(Box):
        def close(self) -> None:
            raise RuntimeError("stuck shut")

    with caplog.at_level(logging.ERROR):
        async with FreshPool().lease([EnvSpec(Sticky), EnvSpec(Box)], owner="me", deadline=soon()):
            pass
    assert "stuck shut" in caplog.text
    assert Box.made[1].closed
