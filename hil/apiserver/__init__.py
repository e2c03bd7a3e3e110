"""An API server: requests, namespaces of the project's own, and connections into a cluster.

    server = Server.of(Path("admin.conf"))
    server.ask("read_node", "read node node7", name="node7")

What belongs here: what pods through an API server (:mod:`hil.pods.apiserver`) and the way to a node
through one (:mod:`hil.transport.kube`) share. What never does: either of them.

Everything here runs on the runner. The exception says whose fault it is, as for nodes
(:mod:`hil.shell`):

    NodeUsageError      no such kubeconfig, context, node; the namespace is another user's
    NodeUnreachable     no answer, or a certificate that the kubeconfig does not trust
    NodeTimeout         the answer took too long, or was too long
    NodeUnfit
    +-- Refused         the server refused: rights, quota, admission, a name that is taken
"""

from hil.apiserver.errors import Refused
from hil.apiserver.server import Server

__all__ = ["Refused", "Server"]
