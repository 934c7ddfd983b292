"""How many threads torch has and how they wait, which must be said before torch is imported.

With tools and environments on the same cores, waiting busily collapses torch's speed. A quota that
is below the number of cores is unknown to torch: its threads would be stopped in turns.
"""

import os

from agentfly.runtime.cores import affine_cores, usable_cores

WAIT_POLICY = "OMP_WAIT_POLICY"
NUM_THREADS = "OMP_NUM_THREADS"

given_by_user = {name: os.environ.get(name, "") for name in (WAIT_POLICY, NUM_THREADS)}
"""The environment as it was before this command line changed it."""

os.environ.setdefault(WAIT_POLICY, "passive")
if usable_cores() < affine_cores():
    os.environ.setdefault(NUM_THREADS, str(usable_cores()))
