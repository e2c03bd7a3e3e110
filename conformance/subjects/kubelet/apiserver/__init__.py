"""An API server for the kubelets of one run: a real kube-apiserver with a real etcd.

Both run in one sandbox, so they end with the runner, whatever ends it, and leave no file behind.
Each node has its own name and namespace in it.
"""

from conformance.subjects.kubelet.apiserver.component import Component
from conformance.subjects.kubelet.apiserver.pods import APIPods
from conformance.subjects.kubelet.apiserver.server import APIServer

__all__ = ["APIPods", "APIServer", "Component"]
