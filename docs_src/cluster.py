from agentfly import reward, tool
from agentfly.types import Heavy


@tool(heavy=Heavy(cpus=4, memory_mb=2000), timeout=120)
def count_primes(below: int) -> int:
    """Count the primes below a number."""
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, below))


@reward(heavy=True)
def near(final_response: str, answer: int) -> float:
    """Score by how near the answer is."""
    return 1 / (1 + abs(int(final_response) - answer))


# Called as always where there is no cluster.
assert count_primes(100) == 25
assert near("24", 25) == 0.5
