"""How pods are brought to a leased node, as its inventory says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from hil.apiserver.server import Server
from hil.apiserver.space import sweep
from hil.inspection import NodeFacts, kubelet_of
from hil.pods import Image, PodSource, ServerPods, StaticPods
from hil.pods.apiserver.pods import ClusterPods, node_name
from hil.transport import NodeAddress


def pod_source_for(
    address: NodeAddress,
    facts: NodeFacts,
    image: Image,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> PodSource:
    """Pods through the API server that the address has a kubeconfig for, else static ones. The
    node's lease must be held: what an earlier run left in the cluster is removed. Raises what
    :mod:`hil.pods.apiserver` lists."""
    kubelet = kubelet_of(facts)
    if address.kubeconfig is None:
        return StaticPods(kubelet.manifests, image)
    server = Server.of(address.kubeconfig, address.context)
    try:
        pods = ClusterPods.on(
            server,
            node_name(address.node, facts),
            boot_id=facts.boot_id,
            namespace=address.namespace,
            image=image,
            say=say,
        )
    except BaseException:
        server.close()
        raise
    return ServerPods(pods, kubelet.release, then=server.close)


def swept(address: NodeAddress, facts: NodeFacts) -> list[str]:
    """Remove what a killed run left in the node's cluster, and return the names of the namespaces;
    none without a kubeconfig. No other run may hold the node's lease. Raises what
    :mod:`hil.pods.apiserver` lists."""
    if address.kubeconfig is None:
        return []
    with closing(Server.of(address.kubeconfig, address.context)) as server:
        return sweep(server, node_name(address.node, facts))
