"""The local engine: continuous batching over a Hugging Face module, on CPU or CUDA.

engine.py      LocalEngine: the engine's protocol, in any event loop
arguments.py   what people hand to it, checked
thread.py      the thread that steps the model, and the errands it runs between steps
core.py        the engine without its thread: submit, step, load weights
scheduler.py   which tokens go through the model next
cache.py       which sequences are kept, within a fixed amount of memory
keyvalues.py   the keys and values of one sequence
shards.py      one step, cut into shards of rows that run side by side
forward.py     from ids to logits: lean.py (Llama family) or hosted.py (any other decoder)
attention.py   many sequences side by side, each over its own keys
sampling.py    from logits to tokens, counter-based
stop.py        when a completion is over
weights.py     the module itself, or a copy in another dtype
"""

from agentfly.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]
