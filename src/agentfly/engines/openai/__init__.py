"""Any OpenAI-compatible server over HTTP.

chat.py          OpenAIChat: messages in, a message out; for evaluation and data
completions.py   OpenAICompletions: token ids in, token ids and log-probabilities out; for training
"""

from agentfly.engines.openai.chat import OpenAIChat
from agentfly.engines.openai.completions import OpenAICompletions

__all__ = ["OpenAIChat", "OpenAICompletions"]
