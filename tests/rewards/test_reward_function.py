import asyncio
import functools
import threading
from dataclasses import replace
from typing import Annotated, Any

import pytest
from tests.rewards.reward_chains import chain_of, score_of, task_of, value_of

from agentfly.errors import (
    ConfigError,
    DeadlineError,
    EnvError,
    LeaseTimeout,
    RewardError,
    ToolError,
)
from agentfly.rewards import reward
from agentfly.testing import make_context
from agentfly.types import Context, Env, EnvSpec, Reward, Seed, Step, Task, Trajectory


class Shop:
    def __init__(self, stock: int = 3) -> None:
        self.stock = stock

    def reset(self, task: Task, seed: Seed) -> str:
        return f"{task.id}{seed}"

    def step(self, action: str) -> Step:
        return Step(observation=action.upper())

    def close(self) -> None: ...


class Leased:
    """Environments that keep a chain waiting."""

    def __init__(self, *, after: float) -> None:
        self.after = after

    async def get(self, spec: EnvSpec | None) -> Shop:
        await asyncio.sleep(self.after)
        return Shop()


async def test_a_decorated_function_scores_and_stays_a_plain_function() -> None:
    @reward
    def exact(final_response: str, answer: str) -> bool:
        """Compare."""
        return final_response == answer

    fits: Reward = exact
    assert (fits.name, fits.environments) == ("exact", ())
    assert exact("4", answer="4") is True
    assert exact.__doc__ == "Compare."
    assert await value_of(exact, "4", answer="4") == 1.0
    assert await value_of(exact, "5", answer="4") == 0.0


async def test_everything_on_offer_is_given_by_name_and_by_annotation() -> None:
    @reward(name="all")
    async def everything(
        final_response: str,
        trajectory: Trajectory,
        task: Task,
        context: Context,
        t: Trajectory,
        question_and_fields: Annotated[Task, "the row"],
        c: "Context",
    ) -> float:
        assert (t, question_and_fields, c) == (trajectory, task, context)
        assert task is trajectory.task
        return len(final_response) + 10 * len(task.fields) + 100 * context.turn

    assert everything.name == "all"
    assert await value_of(everything, "abc", question="q", answer="a") == 23.0


async def test_a_name_on_offer_hides_a_field_of_the_same_name() -> None:
    @reward
    def hidden(task: Task, trajectory: Trajectory, answer: int = 5) -> float:
        assert trajectory.final_response == "hi"
        return float(task.fields["task"] + answer)

    assert await value_of(hidden, "hi", task=2, trajectory=9) == 7.0


async def test_a_field_fills_a_parameter_and_a_default_stands_in_for_a_missing_one() -> None:
    @reward
    def points(points: float = 0.25) -> float:
        return points

    assert await value_of(points, "", points=2) == 2.0
    assert await value_of(points, "") == 0.25


async def test_a_missing_field_names_what_there_is_and_what_was_meant() -> None:
    @reward
    def typo(anwser: str) -> bool:
        return bool(anwser)

    with pytest.raises(RewardError) as raised:
        await value_of(typo, "4", answer="4", question="2+2?")
    message = str(raised.value)
    assert "has no field 'anwser'. Did you mean 'answer'?" in message
    assert "answer, context, final_response, question, task, trajectory" in message


async def test_a_missing_field_without_an_annotation_is_named_too() -> None:
    @reward
    def exact(final_response, unit):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return final_response == unit

    with pytest.raises(RewardError, match="has no field 'unit'"):
        await value_of(exact, "4", answer="4")


async def test_environments_are_asked_for_by_class_and_shared() -> None:
    @reward
    def sold(env: Shop, same: Shop) -> bool:
        return env is same and env.stock == 3

    assert sold.environments == (EnvSpec(Shop),)
    context = make_context(task_of(), environments={Shop: Shop()})
    assert (await sold.score(chain_of("done"), context)).value == 1.0


async def test_an_env_without_a_class_is_the_chains_only_one() -> None:
    @reward
    def plain(env) -> int:  # type: ignore[no-untyped-def] # noqa: ANN001
        return env.stock  # type: ignore[no-any-return]

    @reward
    def by_protocol(env: Env) -> int:
        assert isinstance(env, Shop)
        return env.stock

    for scored in (plain, by_protocol):
        assert scored.environments == ()
        context = make_context(task_of(), environments={Shop: Shop(7)})
        assert (await scored.score(chain_of("done"), context)).value == 7.0


def test_the_decorators_env_says_which_one_to_make() -> None:
    spec = EnvSpec(Shop, (("stock", 9),))

    @reward(env=spec)
    def by_spec(env: Shop) -> int:
        return env.stock

    @reward(env=Shop)
    def by_class(env: Any) -> int:
        return int(env.stock)

    assert by_spec.environments == (spec,)
    assert by_class.environments == (EnvSpec(Shop),)
    with pytest.raises(ConfigError, match="no parameter called 'env'"):
        reward(env=Shop)(lambda shop: shop)


async def test_a_method_is_bound_to_its_instance() -> None:
    class Judge:
        def __init__(self, liked: str) -> None:
            self.liked = liked

        @reward(name="taste")
        def score(self, final_response: str) -> bool:
            return self.liked in final_response

    assert Judge("a").score.name == "taste"
    assert await value_of(Judge("a").score, "bad") == 1.0
    assert await value_of(Judge("x").score, "bad") == 0.0
    with pytest.raises(RewardError, match="reward 'taste' failed: it is a method"):
        await value_of(Judge.score, "bad")


async def test_a_function_kept_in_a_class_is_not_bound() -> None:
    @reward
    def long(final_response: str) -> int:
        return len(final_response)

    class Settings:
        reward = long

    assert Settings().reward is long
    assert await value_of(Settings().reward, "four") == 4.0


async def test_partials_and_callable_objects() -> None:
    def at_least(final_response: str, minimum: int, answer: str = "none") -> bool:
        return len(final_response) >= minimum and answer == "bound"

    class Scaled:
        factor = 3

        def __call__(self, final_response: str) -> int:
            return self.factor * len(final_response)

    bound = reward(functools.partial(at_least, minimum=2, answer="bound"))
    assert bound.name == "at_least"
    # What the partial has filled is not taken from the task's field of the same name.
    assert await value_of(bound, "ab", answer="field", minimum=100) == 1.0
    assert await value_of(bound, "a", answer="field") == 0.0
    scaled = reward(Scaled())
    assert (scaled.name, await value_of(scaled, "ab")) == ("Scaled", 6.0)


async def test_a_synchronous_reward_runs_beside_the_event_loop() -> None:
    @reward
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await value_of(where, "") == 0.0


async def test_what_it_raises_becomes_a_reward_error_with_its_cause() -> None:
    @reward
    def broken(final_response: str) -> float:
        return {"a": 1.0}[final_response]

    with pytest.raises(RewardError, match="reward 'broken' raised KeyError: 'b'") as raised:
        await value_of(broken, "b")
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (EnvError("the shop burnt down"), EnvError, r"^the shop burnt down$"),
        (RewardError("no opinion"), RewardError, r"^no opinion$"),
        (ToolError("try again"), RewardError, r"^reward 'fails' failed: try again$"),
        (DeadlineError("judge"), RewardError, r"^reward 'fails' failed: judge$"),
    ],
)
async def test_infrastructure_passes_unchanged_and_nothing_else_does(
    error: Exception, expected: type[Exception], message: str
) -> None:
    @reward
    async def fails() -> float:
        raise error

    with pytest.raises(expected, match=message) as raised:
        await value_of(fails, "")
    assert (raised.value is error) == (type(error) is expected)


async def test_the_timeout_ends_a_slow_reward() -> None:
    @reward(timeout=0.05)
    async def slow() -> float:
        await asyncio.sleep(60)
        return 1.0

    with pytest.raises(RewardError, match="reward 'slow' failed: slow did not answer within"):
        await value_of(slow, "")


async def test_the_function_gets_the_earlier_of_both_deadlines() -> None:
    @reward(timeout=50.0)
    async def left(context: Context) -> float:
        return context.deadline - context.clock.now()

    chain = chain_of("")
    now = asyncio.get_running_loop().time()
    by_timeout = await left.score(chain, make_context(chain.task))
    by_chain = await left.score(chain, make_context(chain.task, deadline=now + 20))
    assert 40 < by_timeout.value <= 50
    assert 10 < by_chain.value <= 20


async def test_waiting_for_an_environment_does_not_use_up_the_rewards_time() -> None:
    @reward(timeout=0.2)
    async def stock(env: Shop) -> int:
        return env.stock

    slow = replace(make_context(task_of()), environments=Leased(after=0.3))
    assert (await stock.score(chain_of(""), slow)).value == 3.0


async def test_nobody_waits_for_an_environment_past_the_chains_deadline() -> None:
    @reward
    async def stock(env: Shop) -> int:
        return env.stock

    context = replace(
        make_context(task_of(), deadline=asyncio.get_running_loop().time() + 0.05),
        environments=Leased(after=60.0),
    )
    with pytest.raises(LeaseTimeout, match="no environment for env in time"):
        await stock.score(chain_of(""), context)


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("inf"), float("nan")])
def test_a_timeout_is_a_positive_number(timeout: float) -> None:
    with pytest.raises(ConfigError, match="timeout must be a positive number of seconds"):
        reward(timeout=timeout)(lambda final_response: 1.0)


@pytest.mark.parametrize("thing", [Shop, 3, "exact"])
def test_only_functions_can_be_decorated(thing: Any) -> None:
    with pytest.raises(ConfigError, match="made of a function, a method or a callable object"):
        reward(thing)


def test_a_signature_that_names_no_arguments_is_refused() -> None:
    with pytest.raises(ConfigError, match="args"):
        reward(lambda *args: 1.0)


async def test_a_per_turn_dict_must_match_the_turns() -> None:
    @reward
    def steps(final_response: str) -> dict[str, Any]:
        return {"reward": 1, "per_turn": [0, 1]}

    assert (await score_of(steps, ["a", "b"])).per_turn == (0.0, 1.0)
    with pytest.raises(RewardError, match="returned 2 per-turn values for a chain of 3 turns"):
        await score_of(steps, ["a", "b", "c"])


def test_its_repr_says_what_it_is() -> None:
    @reward(name="fair")
    def half() -> float:
        return 0.5

    assert repr(half) == "<reward 'fair'>"
