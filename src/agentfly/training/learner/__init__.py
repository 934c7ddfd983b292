"""From a step's groups to updates of the weights.

policy.py, lora.py      the weights that are trained; reference.py: those they are held near to
harvest.py              the chains that can be learned from; sample.py: a chain's tokens, flat
batch.py, minibatch.py  all of a step's tokens; which of them one update sees
pack.py, rows.py        rows without padding, in which shared beginnings stand once
twin.py, body.py        the model's forward pass over such rows, with attention.py in its place
attention_kernels.py    attention with the log-sum-exp of its scores, by which parts are merged
logprob.py, forward.py  log-probabilities at trained tokens alone, in chunks
actor.py, critic.py     one update of the policy, of the values; value_model.py
optimizer.py            AdamW with clipping; schedule.py: its rate
memory.py               what an update takes, estimated
learner.py              all of it in stages; learned.py: what it came to
"""
