"""The local engine: continuous batching over a Hugging Face module, on CPU or CUDA.

engine.py           LocalEngine: the engine's protocol, in any event loop; validation of arguments
engine_thread.py    the thread that steps the model, and the commands it runs between steps
core.py             the engine without its thread: submit, step, load weights
scheduler.py        which tokens go through the model next
job.py              one request: its stop conditions, its sampled tokens, its waiter
kv_cache.py         which sequences are kept, within a fixed amount of memory
key_values.py       the keys and values of one sequence
shards.py           one step, cut into shards of rows that run side by side
forward_pass.py     from ids to logits: llama_forward.py (Llama family), generic_forward.py (others)
span_attention.py   many sequences side by side, each over its own keys
token_sampling.py   from logits to tokens, with counter-based random numbers
sampled_weights.py  the module itself, or a copy in another dtype
"""

from agentfly.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]
