"""OpenMP variables for torch, set when this module is imported, before torch is.

With tools and environments on the same cores, busy waiting collapses torch's speed. torch does not
see a CPU quota below the number of cores: the kernel would throttle its threads.
"""

import os

from agentfly.runtime.cores import affine_cores, usable_cores

WAIT_POLICY = "OMP_WAIT_POLICY"
NUM_THREADS = "OMP_NUM_THREADS"

given_by_user = {name: os.environ.get(name, "") for name in (WAIT_POLICY, NUM_THREADS)}
"""The user's own values, from before this module changed the environment."""

os.environ.setdefault(WAIT_POLICY, "passive")
if usable_cores() < affine_cores():
    os.environ.setdefault(NUM_THREADS, str(usable_cores()))
