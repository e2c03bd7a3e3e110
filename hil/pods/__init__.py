"""Pods of ours on a node: their manifests, and whether there is room for them.

Two ways bring them: a file in the folder that the kubelet watches (:mod:`hil.pods.static`; the only
way without an API server), or the API server with ``spec.nodeName`` (:mod:`hil.pods.api`; the way
on nodes with other people's work, because static pods are critical: to admit one the kubelet evicts
others).
"""

from hil.pods.capacity import refuse_if_crowded
from hil.pods.manifests import Image, file_name, manifest, text
from hil.pods.statuses import NoList, PodStatus, read_pods

__all__ = [
    "Image",
    "NoList",
    "PodStatus",
    "file_name",
    "manifest",
    "read_pods",
    "refuse_if_crowded",
    "text",
]
