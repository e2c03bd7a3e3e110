"""Pods of a run on a node: their manifests, and whether there is room for them.

They come through the API server of the node's cluster (:mod:`hil.pods.apiserver`), or as static
manifests, files in the folder that the kubelet watches; :mod:`hil.pods.pod_source` is the interface
of both. Static pods are critical: to admit one, a kubelet evicts pods of others, so on a node with
such pods they need permission (``allow = ["static-pods"]``) and room beside them
(:mod:`hil.pods.capacity`).
"""

from hil.pods.capacity import refuse_if_crowded
from hil.pods.manifests import Image, manifest, text
from hil.pods.pod_source import PodSource, ServerPods, StaticPods
from hil.pods.statuses import NoList, PodStatus, read_pods

__all__ = [
    "Image",
    "NoList",
    "PodSource",
    "PodStatus",
    "ServerPods",
    "StaticPods",
    "manifest",
    "read_pods",
    "refuse_if_crowded",
    "text",
]
