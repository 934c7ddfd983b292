"""Who is served when: nobody waits for what is there, and the first is never starved."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.resources.lease_world import NOT_MADE, Chain, Kind, Scenario, World, live, simulated

from agentfly.resources.maintenance import CHECK_SECONDS
from agentfly.testing import run_in_virtual_time


def run(scenario: Scenario) -> World:
    world = World(scenario)
    with simulated(world):
        run_in_virtual_time(live(world))
    return world


def served_at(scenario: Scenario) -> dict[int, float]:
    return run(scenario).served_at


X, Z = Kind(memory=1, max_instances=4), Kind(memory=3, max_instances=4)


def test_two_small_ones_come_back_while_one_waits_for_small_and_large_and_one_for_small() -> None:
    """One of the two is kept for the first of the line, and the other makes room for it."""
    first_two = [Chain(kinds=(0,), holds=5) for _ in range(2)]
    both, small = Chain(kinds=(0, 1), start=2), Chain(kinds=(0,), start=3)
    scenario = Scenario(kinds=(X, Z), chains=(*first_two, both, small), memory=4)
    # Made by 1 s, back at 6, one is closed by 7, the large one made by 8 and back at 9.
    assert served_at(scenario) == {0: 1, 1: 1, 2: 8, 3: 9}


def test_a_stream_of_small_ones_does_not_starve_a_large_one() -> None:
    stream = [Chain(kinds=(0,), start=n / 2, holds=4) for n in range(40)]
    large = Chain(kinds=(1,), start=2.25)
    served = served_at(Scenario(kinds=(X, Z), chains=(large, *stream), memory=4))
    # Four hold one each, to 5, 5.5, 6 and 6.5 s, and a fifth had come before it. So it is served
    # two seconds, to close and to make, after the fourth of them.
    assert served[0] == 8.5
    assert sorted(served) == list(range(41))


def test_what_the_first_does_not_need_is_lent_to_those_behind() -> None:
    kinds = (Kind(max_instances=2), Kind(max_instances=1))
    chains = (
        Chain(kinds=(0,)),
        Chain(kinds=(0,)),
        Chain(kinds=(1,), holds=9),
        Chain(kinds=(0, 1), start=5),
        Chain(kinds=(0,), start=5.5),
    )
    assert served_at(Scenario(kinds=kinds, chains=chains)) == {0: 1, 1: 1, 2: 1, 3: 10, 4: 5.5}


def test_those_who_take_nothing_of_what_is_short_go_on() -> None:
    kinds = (Kind(memory=3, cpus=1), Kind(memory=3), Kind(cpus=1), Kind())
    chains = (
        Chain(kinds=(1,), holds=9),
        Chain(kinds=(0,), start=2),
        Chain(kinds=(2,), start=3),
        Chain(kinds=(3,), start=3),
        Chain(kinds=(2,), start=3.5, holds=20),
    )
    served = served_at(Scenario(kinds=kinds, chains=chains, memory=4, cpus=2))
    # The first waits for memory: 1 CPU is kept for it, and the other one is free.
    assert served == {0: 1, 1: 12, 2: 4, 3: 4, 4: 5}


def test_a_place_is_kept_for_the_first_while_it_waits_for_room() -> None:
    scarce = Kind(max_instances=1, make_seconds=3)
    chains = (
        Chain(kinds=(1,), holds=9),
        Chain(kinds=(1, 0), start=2),
        Chain(kinds=(0,), start=3, holds=100),
    )
    served = served_at(Scenario(kinds=(scarce, Kind(memory=3)), chains=chains, memory=3))
    assert served == {0: 1, 1: 10, 2: 11}


def test_what_is_found_ill_is_replaced_before_it_is_closed_where_there_is_room() -> None:
    frail = Kind(max_instances=2, check_seconds=1, close_seconds=9, illnesses=(True, False))
    chains = (Chain(kinds=(0,)), Chain(kinds=(0,), start=2.5))
    # Back at 2 s, found ill at 3, closed at 12.
    assert served_at(Scenario(kinds=(frail,), chains=chains)) == {0: 1, 1: 4}


def test_one_that_is_ready_is_lent_while_a_round_still_looks_at_the_others() -> None:
    slow = Kind(check_seconds=9)
    chains = (Chain(kinds=(0,)), Chain(kinds=(1,)), Chain(kinds=(0,), start=12 + CHECK_SECONDS))
    # Both are found healthy at 11 s; a round begins 30 s later, and takes 9 s for each.
    assert served_at(Scenario(kinds=(slow, slow), chains=chains)) == {0: 1, 1: 1, 2: 50}


def test_the_warm_minimum_takes_no_room_from_those_who_wait() -> None:
    kinds = (Kind(memory=1, max_instances=3, min_warm=3), Z)
    chains = (Chain(kinds=(0,), holds=8), Chain(kinds=(1,), start=3), Chain(kinds=(0,), start=4))
    # All three are ready at 1 s; they are given up as soon as the one that is lent is back.
    served = served_at(Scenario(kinds=kinds, chains=chains, memory=3))
    assert served == {0: 1, 1: 11, 2: 14}


def test_warm_ones_are_given_up_only_when_they_make_enough_room() -> None:
    chains = (
        Chain(kinds=(0,)),
        Chain(kinds=(0,), holds=20),
        Chain(kinds=(1,), start=5, patience=3),
        Chain(kinds=(0,), start=6),
    )
    # The wait for the large one ends at 8 s: what could not have made room for it is still warm.
    assert served_at(Scenario(kinds=(X, Z), chains=chains, memory=3)) == {0: 1, 1: 1, 3: 8}


def test_of_warm_ones_those_that_nobody_waits_for_are_given_up_first() -> None:
    older, younger = Kind(memory=1, make_seconds=1), Kind(memory=1, make_seconds=2)
    chains = (
        Chain(kinds=(0, 1), holds=8),
        Chain(kinds=(2,), start=4),
        Chain(kinds=(0,), start=5),
    )
    kinds = (older, younger, Kind(memory=2))
    # Both are back at 10 s; one of them is enough.
    assert served_at(Scenario(kinds=kinds, chains=chains, memory=3)) == {0: 2, 1: 12, 2: 10}


def test_who_is_more_urgent_goes_first_and_others_in_their_order() -> None:
    chains = (
        Chain(kinds=(0,), holds=4),
        Chain(kinds=(0, 1), start=2, priority=1),
        Chain(kinds=(1,), start=3, priority=1),
        Chain(kinds=(1,), start=3, priority=0),
        Chain(kinds=(0,), start=4, priority=0),
    )
    served = served_at(Scenario(kinds=(Kind(), Kind()), chains=chains))
    assert served == {0: 1, 1: 6, 2: 7, 3: 3, 4: 5}


def test_a_budget_that_is_used_up_to_the_last_bit_never_jams() -> None:
    """Ten times 0.1 is 1, in whatever order it is taken and given back."""
    small, whole = Kind(memory=1, max_instances=10, max_uses=1), Kind(memory=10)
    chains = [Chain(kinds=(0,), start=n % 7, holds=n % 3) for n in range(60)]
    chains += [Chain(kinds=(1,), start=n) for n in (3, 9)]
    served = served_at(Scenario(kinds=(small, whole), chains=tuple(chains), memory=10))
    assert len(served) == 62


def test_an_instance_that_can_not_be_made_fails_one_waiter_and_keeps_nothing() -> None:
    kinds = (Kind(memory=3, max_instances=1, failures=(True, False)), X)
    chains = (Chain(kinds=(0, 1)), Chain(kinds=(0,)), Chain(kinds=(1,), start=0.5))
    world = run(Scenario(kinds=kinds, chains=chains, memory=4))
    assert world.ends == {0: NOT_MADE, 1: "served", 2: "served"}
    assert world.served_at == {1: 2, 2: 1}


TIMES = st.integers(0, 16).map(lambda half: half / 2)
SHORT = st.sampled_from([0.0, 0.5, 1.0, 2.0])
RARELY = st.lists(st.booleans(), max_size=3).map(lambda some: (False, *some))


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    max_instances = draw(st.integers(1, 4))
    return Kind(
        memory=draw(st.integers(0, 3)),
        cpus=draw(st.sampled_from([0, 0, 0, 1, 2])),
        max_instances=max_instances,
        min_warm=draw(st.sampled_from([0, 0, 0, 1, 2]).filter(lambda n: n <= max_instances)),
        max_uses=draw(st.sampled_from([1, 2, 99])),
        make_seconds=draw(SHORT),
        close_seconds=draw(SHORT),
        check_seconds=draw(st.sampled_from([None, None, 0.0, 1.0])),
        failures=draw(st.one_of(st.just((False,)), RARELY)),
        illnesses=draw(st.one_of(st.just((False,)), RARELY)),
    )


@st.composite
def chains(draw: st.DrawFn, all_kinds: tuple[Kind, ...], budget: tuple[int, int]) -> Chain:
    needed = draw(st.lists(st.sampled_from(range(len(all_kinds))), min_size=1, unique=True))
    while any(sum(all_kinds[n].cost[d] for n in needed) > budget[d] for d in (0, 1)):
        needed.pop()
    return Chain(
        kinds=tuple(needed),
        start=draw(TIMES),
        holds=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 50.0])),
        patience=draw(st.one_of(st.just(math.inf), TIMES)),
        cancelled_at=draw(st.one_of(st.just(math.inf), st.just(math.inf), TIMES)),
        priority=draw(st.sampled_from([0, 0, 0, 1, -1])),
        breaks=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    all_kinds = tuple(draw(st.lists(kinds(), min_size=1, max_size=4)))
    memory, cpus = draw(st.integers(3, 8)), draw(st.sampled_from([2, 3, 1000]))
    crowd = st.lists(chains(all_kinds, (memory, cpus)), min_size=1, max_size=14)
    deaths = st.lists(st.tuples(TIMES, st.sampled_from(range(len(all_kinds)))), max_size=3)
    return Scenario(
        kinds=all_kinds,
        chains=tuple(draw(crowd)),
        memory=memory,
        cpus=cpus,
        deaths=tuple(draw(deaths)),
    )


@settings(max_examples=100, deadline=None)
@given(scenarios())
def test_no_one_waits_for_what_is_there_nothing_is_lost_and_the_first_is_served(
    scenario: Scenario,
) -> None:
    run(scenario)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenarios())
def test_the_same_holds_in_thousands_of_scenarios(scenario: Scenario) -> None:
    run(scenario)
