"""A vLLM server: the way on GPUs.

engine.py     VllmEngine: ids in, ids and log-probabilities out; new weights; pause and resume
generate.py   the messages of `/inference/v1/generate`
versions.py   from the labels of vLLM's weights to our versions
control.py    vLLM's routes for reinforcement learning, without retries
transfer.py   WeightTransfer: how tensors get to the server's GPUs; NcclTransfer
lora.py       LoraAdapter: weights that are a LoRA adapter in a folder
launch.py     start_vllm: the server as a child process

Written against the interface of vLLM 0.32 and held to it by tests with a stand-in server, which
checks every request against vLLM's published schemas. **A run against vLLM itself on a GPU is yet
to be done**; `NcclTransfer` in particular has never moved a tensor.
"""

from agentfly.engines.vllm.engine import VllmEngine
from agentfly.engines.vllm.launch import VllmServer, start_vllm
from agentfly.engines.vllm.lora import LoraAdapter
from agentfly.engines.vllm.transfer import NcclTransfer, WeightSync, WeightTransfer

__all__ = [
    "LoraAdapter",
    "NcclTransfer",
    "VllmEngine",
    "VllmServer",
    "WeightSync",
    "WeightTransfer",
    "start_vllm",
]
