"""A long run from synchronous code says how far it is."""

import pytest
from tests.patience import wait_until

from agentfly import Agent, ScriptedEngine
from agentfly.agents import agent as module
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.engines import ScriptedTurn
from agentfly.observe.heartbeat import Heartbeat


def test_a_long_run_says_how_many_chains_have_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ""

    def heard(text: str) -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return text in said

    def model(turn: ScriptedTurn) -> str:
        if turn.request.chain_id.endswith("/1"):
            wait_until(lambda: heard("1 chain ended after "))
        return "It is 4."

    monkeypatch.setattr(module, "Heartbeat", lambda show: Heartbeat(show, first=0, seconds=0.001))
    agent = Agent(ScriptedEngine(model, tokenizer=ByteTokenizer(CHATML_TOKENS)))
    ended: list[str] = []
    result = agent.run_sync(
        "What is 2+2?",
        num_chains=2,
        max_concurrent_chains=1,
        on_trajectory=lambda chain: ended.append(chain.chain_id),
    )
    assert ended == [chain.chain_id for chain in result.trajectories]
