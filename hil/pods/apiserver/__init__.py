"""Pods through the API server of the cluster that a node belongs to.

    server = Server.of(Path("admin.conf"))      # hil.apiserver
    with ClusterPods.on(server, "node7", boot_id=facts.boot_id) as pods:
        there = pods.create(pod)      # the same pod, with the uid that the server gave it
        pods.statuses()              # all of the run's, one request
        pods.delete(there)             # with grace; force=True: grace 0
    # the namespace is removed, with everything in it

Everything here runs on the runner: no credential reaches a node. It raises what
:mod:`hil.apiserver` lists.
"""

from hil.apiserver.space import sweep
from hil.pods.apiserver.pods import ClusterPods, node_name

__all__ = ["ClusterPods", "node_name", "sweep"]
