"""A run on a Ray cluster: environments, engine replicas and heavy functions on other machines.

The only package that imports ray, and itself imported only by runs with a table `[cluster]`.
"""

from agentfly.cluster.cluster import RayCluster, open_cluster

__all__ = ["RayCluster", "open_cluster"]
