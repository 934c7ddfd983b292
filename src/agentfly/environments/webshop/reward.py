"""The reward of a chain: what its purchase is worth, and 0 without one."""

from agentfly.environments.webshop.environment import WebShop
from agentfly.rewards import reward
from agentfly.types import EnvSpec, Reward, Score


def purchase_reward(shop: EnvSpec) -> Reward:
    """Return the reward that looks at the session of this environment."""

    @reward(name="purchase", env=shop, range=(0, 1))
    def purchase(env: WebShop) -> Score:
        verdict = env.verdict
        if verdict is None:
            return Score(value=0.0, parts={"success": 0.0, "bought": 0.0})
        return Score(value=verdict.reward, parts={**verdict.parts, "bought": 1.0})

    return purchase
