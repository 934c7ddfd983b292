from agentfly import Agent, ScriptedEngine, Step, Task, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.types import Seed


class GuessingGame:
    """An environment: any class with reset, step (or methods of its own) and close."""

    def reset(self, task: Task, seed: Seed) -> str:
        self.secret = seed.random().randint(1, 3)
        return "Guess a number from 1 to 3."

    def step(self, action: str) -> Step:
        right = action.strip() == str(self.secret)
        hint = "Right." if right else "No, guess again."
        return Step(observation=hint, reward=float(right), done=right)

    def close(self) -> None:
        pass


# An environment that speaks first opens the conversation and answers every turn …
guesses = ScriptedEngine(["1", "2", "3"], tokenizer=ByteTokenizer(CHATML_TOKENS))
agent = Agent(guesses, environment=GuessingGame)
(trajectory,) = agent.run_sync({"id": "game"}).trajectories
assert trajectory.stop == "env_ended"
assert trajectory.reward == 1.0


# … and a stateful tool names the one it needs by its annotation: one instance per chain.
@tool
def guess(number: int, env: GuessingGame) -> str:
    """Guess the number.

    Args:
        number: Your guess.
    """
    return env.step(str(number)).observation


assert guess.environments[0].factory is GuessingGame
