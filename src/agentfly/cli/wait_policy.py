"""How torch's threads wait, which must be said before torch is imported.

With tools and environments on the same cores, waiting busily collapses torch's speed.
"""

import os

WAIT_POLICY = "OMP_WAIT_POLICY"

given_by_user = os.environ.get(WAIT_POLICY)
os.environ.setdefault(WAIT_POLICY, "passive")
