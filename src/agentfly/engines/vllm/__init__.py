"""A vLLM server: the way on GPUs.

engine.py           VllmEngine: ids in, ids and log-probabilities out; new weights; pause and resume
generate.py         the messages of `/inference/v1/generate`, and the versions of their tokens
control.py          vLLM's routes for reinforcement learning, without retries
weight_transfer.py  WeightTransfer, NcclTransfer: tensors to the server's GPUs; folders checked
server_process.py   start_vllm: the server as a child process; join_vllm: one that runs already
service.py          VllmService: a server that is started when needed, and again after it died
maker.py            the engine `vllm` of the settings

Written against the interface of vLLM 0.32. `make test-vllm` runs it against a real server in its
build for CPUs; the ordinary tests use a stand-in that checks every request against vLLM's published
schemas. **Nothing has been run on a GPU yet**; `NcclTransfer` has never moved a tensor.
"""

from agentfly.engines.vllm.engine import VllmEngine
from agentfly.engines.vllm.server_process import VllmServer, start_vllm
from agentfly.engines.vllm.weight_transfer import NcclTransfer, WeightSync, WeightTransfer

__all__ = [
    "NcclTransfer",
    "VllmEngine",
    "VllmServer",
    "WeightSync",
    "WeightTransfer",
    "start_vllm",
]
