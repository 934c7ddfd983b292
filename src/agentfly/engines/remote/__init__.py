"""What all engines behind HTTP share.

endpoint.py   where a server is, its key's name, and how hard it may be leaned on
server.py     requests: concurrency, deadlines, connections, closing
retry.py      asking again after what may pass: 429, 5xx, broken connections
connection.py the HTTP client, an extra
pace.py       so many requests a minute
refusal.py    from an HTTP status to a typed error that says the way out
answer.py     reading an answer: whole or as a stream of events, bounded and checked
sampled.py    from the ids and log-probabilities that a server returned to a `Completion`
exact.py      whether a server's log-probabilities are those that training needs
"""

from agentfly.engines.remote.endpoint import Endpoint
from agentfly.engines.remote.exact import Logprobs
from agentfly.engines.remote.retry import Retry

__all__ = ["Endpoint", "Logprobs", "Retry"]
