"""From a step's groups to updates of the weights.

policy.py                   the weights in training, all of them or adapters
trainable_chains.py         the chains that can be trained on, as flat samples
token_batch.py, minibatch.py    all tokens of a step; those of each update, in rows
pack.py                     rows without padding, in which shared beginnings stand once
body.py                     the model's hidden states over such rows, with segment_attention.py
flex_attention.py           the same by one fused kernel, on CUDA
attention_kernels.py        attention with the log-sum-exp of its scores, by which parts are merged
packed_forward.py, logprob.py    log-probabilities at trained tokens alone, in chunks
actor.py, critic.py         one update of the policy and its reference; of the values
optimizer.py                AdamW with clipping, and its learning rate
peers.py, sharding.py       several processes, and weights spread over them by FSDP2
sharded_learner.py          the learner of several processes; model_files.py: its folders
memory.py                   an estimate of what an update takes
learner.py                  all of it in stages; step_metrics.py: what is measured
"""
