from agentfly import Agent
from agentfly.engines import Endpoint, OpenAIChat, ReplicatedEngine, VllmEngine
from agentfly.tools import calculator

# Any OpenAI-compatible server: good for evaluation and data. Keys come from the environment only.
server = Endpoint(url="http://localhost:8000/v1", api_key_env=None, requests_per_minute=500)
evaluated = Agent(OpenAIChat(server, model="my-model"), tools=[calculator])

# A vLLM server gives token ids and log-probabilities, so what it samples can be trained on.
replicas = ReplicatedEngine([VllmEngine(f"http://localhost:{port}") for port in (8001, 8002)])
