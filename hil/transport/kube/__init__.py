"""A node through its cluster's API server: ``kube://NODE``.

    with contextlib.closing(KubeShell(server, "node7", image="…")) as shell:
        shell.connect()

A privileged pod on the node (:mod:`hil.transport.kube.pod`) is the way in. Scripts go by exec
(:mod:`hil.transport.kube.executing`), which ends at the node's kubelet. A run that stops the
kubelet has a relay started on the node (:mod:`hil.transport.kube.relay`), which the API server
reaches without the kubelet; then the pod goes, and nothing of ours is in the cgroups of pods.
"""

from hil.transport.kube.shell import KubeShell

__all__ = ["KubeShell"]
