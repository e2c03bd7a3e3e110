"""A node through its cluster's API server: ``kube://NODE``.

    with contextlib.closing(KubeShell(server, "node7", image="…")) as shell:
        shell.connect()

Scripts enter through a privileged pod on the node (:mod:`hil.transport.kube.pod`). They go by exec
(:mod:`hil.transport.kube.executing`), which needs the node's kubelet. A run that stops the kubelet
starts a relay on the node (:mod:`hil.transport.kube.relay`), which the API server reaches without
the kubelet. Then it deletes the pod, so that no process of pinproof is in the cgroups of pods.
"""

from hil.transport.kube.shell import KubeShell

__all__ = ["KubeShell"]
