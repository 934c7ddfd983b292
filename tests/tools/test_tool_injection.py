import asyncio
import math
from typing import Annotated, Any

import pytest
from tests.tools.tool_calls import Leased, call, context, run

from agentfly.errors import AgentError, ConfigError, LeaseTimeout
from agentfly.tools import FromTask, tool
from agentfly.types import Context, EnvSpec, Task, ToolStatus


class Shop:
    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.bought: list[str] = []

    def reset(self) -> str:
        return "welcome"

    def close(self) -> None: ...


class Exhausted(Shop): ...


async def test_context_task_and_env_come_by_name_and_are_not_in_the_schema() -> None:
    @tool
    def look(word: str, env, context, task) -> str:  # type: ignore[no-untyped-def] # noqa: ANN001
        """Look."""
        return f"{word} {env} {context.chain_id} {task.id}"

    assert list(look.spec.parameters["properties"]) == ["word"]
    assert (look.environments, look.received_environments) == ((), (None,))
    environments = Leased(only="the only one")
    result = await look.run(call("look", '{"word": "w"}'), context(environments=environments))
    assert result.observation == "w the only one task-7/0/0 task-7"
    assert environments.asked == [None]


async def test_they_come_by_annotation_too() -> None:
    @tool
    async def buy(item: str, shop: Shop, where: Context, what: Annotated[Task, "ignored"]) -> str:
        """Buy."""
        shop.bought.append(item)
        return f"{shop.bought} {where.chain_id} {what.id}"

    assert list(buy.spec.parameters["properties"]) == ["item"]
    assert buy.environments == (EnvSpec(Shop),)
    chain = context(environments=Leased())
    await buy.run(call("buy", '{"item": "milk"}'), chain)
    result = await buy.run(call("buy", '{"item": "tea"}'), chain)
    assert result.observation == "['milk', 'tea'] task-7/0/0 task-7"


async def test_env_says_which_environment_is_meant() -> None:
    spec = EnvSpec(Shop, (("size", 3),))

    @tool(env=spec)
    def by_name(env: Any) -> int:
        """Look."""
        return int(env.size)

    @tool(env=spec)
    def by_annotation(shop: Shop) -> int:
        """Look."""
        return shop.size

    @tool(env=Shop)
    def by_class(env: Any) -> int:
        """Look."""
        return int(env.size)

    assert (await run(by_name)).observation == (await run(by_annotation)).observation == "3"
    assert (await run(by_class)).observation == "1"
    assert by_name.environments == by_annotation.environments == (spec,)
    assert by_class.environments == (EnvSpec(Shop),)


async def test_among_several_it_is_the_parameter_of_that_name() -> None:
    spec = EnvSpec(Shop, (("size", 3),))

    @tool(env=spec)
    def both(shop: Shop, env: Any) -> str:
        """Look."""
        return f"{shop.size} {env.size}"

    assert (await run(both)).observation == "1 3"
    assert both.environments == (EnvSpec(Shop), spec)


def test_an_environment_that_nobody_takes_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"env=Shop, but takes 0 environments: .* `env`"):

        @tool(env=Shop)
        def look(word: str) -> str:
            """Look."""
            raise NotImplementedError


async def test_two_kinds_of_environment() -> None:
    @tool
    def compare(shop: Shop, other: Exhausted, same: Shop) -> str:
        """Compare."""
        raise NotImplementedError

    assert compare.environments == (EnvSpec(Shop), EnvSpec(Exhausted))
    with pytest.raises(LeaseTimeout, match="all are taken"):
        await run(compare)


async def test_waiting_for_a_lease_takes_time_neither_of_the_call_nor_of_the_chain() -> None:
    class Slow(Leased):
        def __init__(self, seconds: float) -> None:
            super().__init__()
            self.seconds = seconds

        async def get(self, spec: EnvSpec | None) -> Any:
            return await asyncio.sleep(self.seconds, "leased")

    @tool(timeout=0.05)
    async def look(env: Any) -> str:
        """Look."""
        return str(env)

    for seconds in (math.inf, 0.05):
        patient = await look.run(call("look"), context(environments=Slow(0.2), seconds=seconds))
        assert patient.observation == "leased"


async def test_a_lease_that_times_out_is_reported() -> None:
    class Late(Leased):
        async def get(self, spec: EnvSpec | None) -> Any:
            raise TimeoutError

    @tool
    async def look(env: Any) -> str:
        """Look."""
        return str(env)

    with pytest.raises(LeaseTimeout, match="no environment for tool 'look' in time"):
        await look.run(call("look"), context(environments=Late()))


async def test_fields_of_the_task() -> None:
    @tool(inject=["answer"])
    def check(
        guess: str,
        answer: str,
        gold: Annotated[str, FromTask("answer")],
        level: Annotated[int, FromTask()],
        hint: Annotated[str, FromTask] = "none",
        size: Annotated[int, FromTask("sighs")] = 5,
    ) -> str:
        """Check."""
        return f"{guess} {answer} {gold} {level} {hint} {size}"

    assert list(check.spec.parameters["properties"]) == ["guess"]
    task = {"answer": "42", "level": 3, "hint": "even"}
    result = await check.run(call("check", '{"guess": "41"}'), context(task))
    assert result.observation == "41 42 42 3 even 5"


async def test_the_model_cannot_fill_what_is_injected() -> None:
    @tool(inject=["answer"])
    def check(guess: str, answer: str) -> str:
        """Check."""
        raise NotImplementedError

    arguments = '{"guess": "41", "answer": "41"}'
    result = await check.run(call("check", arguments), context({"answer": "42"}))
    assert result.status is ToolStatus.BAD_ARGUMENTS
    assert "answer: there is no such argument" in result.observation


async def test_a_field_that_the_task_lacks_ends_the_chain_with_its_name() -> None:
    @tool(inject=["answer"])
    def check(answer: str) -> str:
        """Check."""
        raise NotImplementedError

    with pytest.raises(AgentError) as caught:
        await check.run(call("check"), context({"anser": "42", "id": "x"}))
    assert str(caught.value) == (
        "tool 'check' needs the field 'answer', which task 'task-7' lacks. "
        "Did you mean 'anser'? Known: anser, id."
    )


@pytest.mark.parametrize("name", ["env", "context", "task"])
@pytest.mark.parametrize("annotation", [str, list[str]])
def test_a_reserved_name_for_the_model_to_fill_is_a_mistake(name: str, annotation: object) -> None:
    namespace: dict[str, Any] = {"kind": annotation}
    exec(f"def todo({name}: kind): 'Do.'", namespace)
    with pytest.raises(ConfigError, match=f"filled with the chain's {name}: rename it"):
        tool(namespace["todo"])
