"""An API server before the kubelets of one run: a real kube-apiserver before a real etcd.

Both run in a sandbox of their own, so they end with the runner, whatever ends it, and leave no file
behind. Each node has a name and a namespace of its own there.
"""

from conformance.subjects.kubelet.apiserver.component import Component
from conformance.subjects.kubelet.apiserver.pods import APIPods
from conformance.subjects.kubelet.apiserver.server import APIServer

__all__ = ["APIPods", "APIServer", "Component"]
