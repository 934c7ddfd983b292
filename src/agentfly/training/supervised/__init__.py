"""The warm start: imitating conversations before learning by reward.

sft.py              the run; lesson_plan.py: which conversations each step sees
demonstrations.py   what to imitate, from chat_rows.py and chain_files.py; best_of.py keeps the best
supervised.py       one update towards them
"""
