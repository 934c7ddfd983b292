"""The warm start: imitating conversations before learning by reward.

sft.py                  the run
demonstrations.py       the conversations, from chat rows and from chain_files.py
best_of.py              rejection sampling: the best chains of each group
supervised_learner.py   one update toward them, and the order of batches
"""
