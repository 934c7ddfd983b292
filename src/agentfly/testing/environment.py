"""Does an environment keep its contract?"""

from collections.abc import Sequence
from typing import Any

from agentfly.runtime.clock import LoopClock
from agentfly.runtime.invoke import invoke
from agentfly.testing.conformance import Findings
from agentfly.types import EnvSpec, Seed, Step, Task

_CALL_SECONDS = 60.0


async def check_environment(spec: EnvSpec, task: Task, actions: Sequence[str]) -> None:
    """Raise ConformanceError unless an environment keeps its contract.

    `actions` are played twice, on one instance after a reset and on a new one: with the same task
    and seed, both must answer the same.
    """
    findings = Findings(f"environment {spec.name}")
    with findings.no_error("making and playing it"):
        one, other = spec.make(), spec.make()
        try:
            first = await _play(findings, one, task, actions)
            second = await _play(findings, one, task, actions)
            fresh = await _play(findings, other, task, actions)
            findings.expect(first == second, "after a reset the same actions were answered anew")
            findings.expect(first == fresh, "two instances answered the same actions differently")
        finally:
            for instance in (one, other):
                with findings.no_error("closing it"):
                    await _invoke(instance.close, "close")
    findings.report()


async def _play(
    findings: Findings, instance: Any, task: Task, actions: Sequence[str]
) -> list[object]:
    said = await _invoke(lambda: instance.reset(task, Seed(5)), "reset")
    findings.expect(
        isinstance(said, (str, Step)), f"reset must return an observation, got {said!r}"
    )
    answers: list[object] = [said]
    for action in actions:
        step = await _invoke(lambda action=action: instance.step(action), "step")
        findings.expect(isinstance(step, Step), f"step must return a Step, got {step!r}")
        answers.append(step)
        if isinstance(step, Step) and step.done:
            break
    return answers


async def _invoke(call: Any, name: str) -> Any:
    clock = LoopClock()
    return await invoke(call, name=name, clock=clock, deadline=clock.now() + _CALL_SECONDS)
