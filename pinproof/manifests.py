"""Pods out of manifests, as a person writes them or ``kubectl get pods -o yaml`` prints them.

What belongs here: objects of the API in, pods of :mod:`reference.steps` out, each fault with its
place. What never does: files (``files``), and what a kubelet makes of a pod.

Of a pod's specification only what decides its CPUs is read: its containers, init containers and
sidecars (init containers with ``restartPolicy: Always``), their requests and limits, and pod-level
resources; its priority where that makes it critical; and how many devices of the resources asked
for its containers request. Of its metadata: name, namespace, uid (of a mirror pod that of the
static pod, which is the one that the kubelet keeps), and whether it is static, which makes it
critical as well. Of its status: whether it has ended, and since when it runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from reference.errors import QuantityError
from reference.kubelet.admission import fault_of
from reference.pods.pod import CLUSTER_CRITICAL, NODE_CRITICAL
from reference.pods.qos import PRIORITY_CLASSES
from reference.pods.quantity import quantity
from reference.steps import Container, Kind, Pod, PodResources
from reports.text import few
from topologies.errors import one_line

#: More pods than any kubelet is configured for (``maxPods``, 110 by default).
MOST_PODS: Final = 500
_MOST_CONTAINERS: Final = 250
#: What the API takes as a name (RFC 1123).
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
#: On a mirror pod: the uid of the static pod (``pkg/kubelet/types/pod_update.go``).
MIRROR: Final = "kubernetes.io/config.mirror"
_CLASSES: Final = {name: priority for priority, name in PRIORITY_CLASSES.items()}
#: Resources that are no devices, and do not decide CPUs.
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
_PAGES: Final = "hugepages-"
#: Where each workload keeps the template of its pods.
_TEMPLATES: Final = {
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
_ENDED: Final = ("Succeeded", "Failed")


class BadManifest(ValueError):
    """A manifest that is not understood; ``str()`` is one line with the place."""


@dataclass(frozen=True, slots=True)
class Found:
    """The pods of some documents in their order, and notes for the user."""

    pods: tuple[Pod, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Item:
    """A pod, with what decides its name and its position."""

    pod: Pod
    uid: str
    namespace: str
    node: str
    since: str


@dataclass(slots=True)
class _Reading:
    resources: Collection[str]
    huge_pages: bool
    items: list[_Item] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)

    def add(self, item: _Item) -> None:
        self.items.append(item)
        if len(self.items) > MOST_PODS:
            raise BadManifest(f"more than {MOST_PODS} pods, which no node runs")

    def notes(self) -> Iterator[str]:
        """What was done with objects that are no running pod, and with requests that are not
        read."""
        if self.templates:
            yield f"counted as one pod each: {few(self.templates)}"
        if self.ended:
            yield f"ignored, because they have ended: pods {few(self.ended)}"
        if self.others:
            yield f"ignored, because they are not pods: {few(self.others)}"
        if self.left_out:
            yield f"requests ignored, which may decide NUMA nodes: {few(sorted(self.left_out))}"


def pods_of(
    documents: Iterable[Any],
    *,
    oldest_first: bool = False,
    resources: Collection[str] = (),
    huge_pages: bool = False,
) -> Found:
    """The pods in ``documents``, in their order; with ``oldest_first`` by startTime, or by
    creationTimestamp where a pod has not started. ``resources``: those whose devices are read;
    ``huge_pages``: whether huge pages are read. Raises :class:`BadManifest`."""
    reading = _Reading(resources, huge_pages)
    for number, document in enumerate(documents, 1):
        _read(document, f"document {number}", reading)
    notes = tuple(reading.notes())
    if not reading.items:
        raise BadManifest("; ".join(["it contains no pod", *notes]))
    _require_one_node(reading.items)
    items = _by_age(reading.items) if oldest_first else reading.items
    pods = tuple(_named(items))
    _require_different(pods)
    return Found(pods, notes)


def _read(document: object, place: str, into: _Reading) -> None:
    """Read every pod in an object, which may be a list."""
    shape = _mapping(document, place)
    kind = shape.get("kind")
    if kind in ("List", "PodList"):
        for number, item in enumerate(_sequence(shape.get("items"), f"{place}: items"), 1):
            at = f"{place}: item {number}"
            _read(_mapping(item, at) | {"kind": _mapping(item, at).get("kind", "Pod")}, at, into)
    elif kind == "Pod":
        _add(shape, place, into)
    elif isinstance(kind, str) and kind in _TEMPLATES:
        _add_template(shape, kind, place, into)
    elif isinstance(kind, str):
        into.others.append(f"{one_line(kind, 60)} {_name_of(shape, place)}")
    else:
        raise BadManifest(f"{place}: not a Kubernetes object: it has no kind")


def _add(shape: Mapping[str, Any], place: str, into: _Reading) -> None:
    item = _item(shape, place, into)
    status = _mapping(shape.get("status") or {}, f"{place}: status")
    if status.get("phase") in _ENDED:
        into.ended.append(item.pod.name)
    else:
        into.add(item)


def _add_template(shape: Mapping[str, Any], kind: str, place: str, into: _Reading) -> None:
    inner: Mapping[str, Any] = shape
    for key in _TEMPLATES[kind]:
        inner = _mapping(inner.get(key), f"{place}: {key}")
    name, metadata = _name_of(shape, place), _mapping(shape.get("metadata"), f"{place}: metadata")
    pod = {"metadata": {"name": name, "namespace": metadata.get("namespace")}}
    into.add(_item({**inner, **pod}, place, into))
    into.templates.append(f"{kind} {name}")


def _item(shape: Mapping[str, Any], place: str, into: _Reading) -> _Item:
    name = _name_of(shape, place)
    at = f"{place}: pod {name}"
    metadata = _mapping(shape.get("metadata"), f"{at}: metadata")
    status = _mapping(shape.get("status") or {}, f"{at}: status")
    spec = _mapping(shape.get("spec"), f"{at}: spec")
    uid = _uid(metadata, at)
    pod = replace(_pod(name, uid, spec, at), priority=_priority(metadata, spec, at))
    return _Item(
        _with_devices(pod, spec, at, into),
        uid,
        str(metadata.get("namespace") or "default"),
        str(spec.get("nodeName") or ""),
        str(status.get("startTime") or metadata.get("creationTimestamp") or ""),
    )


def _name_of(shape: Mapping[str, Any], place: str) -> str:
    metadata = _mapping(shape.get("metadata"), f"{place}: metadata")
    name = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-")
    return _checked(name, _NAME, f"{place}: metadata: name")


def _uid(metadata: Mapping[str, Any], at: str) -> str:
    annotations = _mapping(metadata.get("annotations") or {}, f"{at}: annotations")
    uid = annotations.get(MIRROR) or metadata.get("uid")
    return "" if uid is None else _checked(uid, _UID, f"{at}: uid")


def _priority(metadata: Mapping[str, Any], spec: Mapping[str, Any], at: str) -> int:
    """The priority of a critical pod, otherwise 0. A static pod is critical (``IsCriticalPod``,
    ``pkg/kubelet/types/pod_update.go``)."""
    annotations = _mapping(metadata.get("annotations") or {}, f"{at}: annotations")
    if MIRROR in annotations:
        return NODE_CRITICAL
    given = spec.get("priority", _CLASSES.get(str(spec.get("priorityClassName"))))
    is_number = isinstance(given, int) and not isinstance(given, bool)
    return int(given) if is_number and CLUSTER_CRITICAL <= given <= NODE_CRITICAL else 0


def _pod(name: str, uid: str, spec: Mapping[str, Any], at: str) -> Pod:
    before = _sequence(spec.get("initContainers"), f"{at}: initContainers")
    apps = _sequence(spec.get("containers"), f"{at}: containers")
    if len(before) + len(apps) > _MOST_CONTAINERS:
        raise BadManifest(f"{at}: more than {_MOST_CONTAINERS} containers")
    containers = [_container(one, at, init=True) for one in before]
    containers += [_container(one, at, init=False) for one in apps]
    whole = spec.get("resources")
    resources = None if whole is None else PodResources(*_amounts(whole, f"{at}: resources"))
    pod = Pod(name, tuple(containers), uid, resources)
    fault = fault_of(pod)
    if fault:
        raise BadManifest(f"{at}: {one_line(fault)}")
    return pod


def _with_devices(pod: Pod, spec: Mapping[str, Any], at: str, into: _Reading) -> Pod:
    """The pod with the devices and huge pages that its containers request, as far as ``into`` reads
    them. Huge pages beside pod-level resources are not modelled."""
    shapes = [*(spec.get("initContainers") or ()), *spec["containers"]]
    found = []
    for one, shape in zip(pod.containers, shapes, strict=True):
        counts = _others(shape, f"{at}: container {one.name}")
        paged = {} if pod.resources or not into.huge_pages else counts
        sizes = {what: size for what in paged if (size := what.removeprefix(_PAGES)) != what}
        into.left_out |= counts.keys() - set(into.resources) - sizes.keys()
        devices = tuple((what, counts[what]) for what in into.resources if what in counts)
        pages = tuple((size, _limit(shape, what)) for what, size in sizes.items())
        found.append(replace(one, devices=devices, huge_pages=pages))
    into.left_out |= _others(spec, at).keys()
    made = replace(pod, containers=tuple(found))
    if fault := fault_of(made):
        raise BadManifest(f"{at}: {one_line(fault)}")
    return made


def _others(owner: Mapping[str, Any], at: str) -> dict[str, int]:
    """How much a container or a pod as a whole requests of resources beside the plain ones. An API
    server accepts only a limit that equals the request."""
    given = owner.get("resources") or {}
    requests, limits = (given.get(what) or {} for what in ("requests", "limits"))
    found = {}
    for what in sorted(map(str, {*requests, *limits} - {*_PLAIN})):
        asked, most = (_count(each.get(what), f"{at}: {what}") for each in (requests, limits))
        if asked not in (None, most):
            raise BadManifest(f"{at}: {what}: the request has to equal the limit")
        if most:
            found[what] = most
    return found


def _limit(owner: Mapping[str, Any], resource: str) -> str:
    return str(owner["resources"]["limits"][resource])


def _count(given: object, at: str) -> int | None:
    text = _quantity(given, at)
    if text is None:
        return None
    try:
        count = quantity(text)
    except QuantityError as error:
        raise BadManifest(f"{at}: {one_line(str(error))}") from error
    if count.denominator != 1 or count < 0:
        raise BadManifest(f"{at}: {one_line(text, 60)} is not a number of devices")
    return int(count)


def _container(given: object, at: str, *, init: bool) -> Container:
    shape = _mapping(given, f"{at}: a container")
    name = _checked(shape.get("name"), _NAME, f"{at}: a container's name")
    kind = Kind.APP
    if init:
        kind = Kind.SIDECAR if shape.get("restartPolicy") == "Always" else Kind.INIT
    amounts = _amounts(shape.get("resources") or {}, f"{at}: container {name}: resources")
    return Container(name, *amounts, kind=kind)


def _amounts(given: object, at: str) -> tuple[str | None, str | None, str | None, str | None]:
    """Cpu request and limit, memory request and limit."""
    shape = _mapping(given, at)

    def amount(what: str, resource: str) -> str | None:
        amounts = _mapping(shape.get(what) or {}, f"{at}: {what}")
        return _quantity(amounts.get(resource), f"{at}: {what}: {resource}")

    return (
        amount("requests", "cpu"),
        amount("limits", "cpu"),
        amount("requests", "memory"),
        amount("limits", "memory"),
    )


def _quantity(given: object, at: str) -> str | None:
    """The text of a quantity, which :func:`reference.kubelet.admission.fault_of` checks later."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise BadManifest(f"{at}: not a quantity: {one_line(repr(given), 60)}")
    return str(given)


# -- several pods ------------------------------------------------------------------------------


def _require_one_node(items: Iterable[_Item]) -> None:
    nodes = sorted({one_line(one.node, 60) for one in items if one.node})
    if len(nodes) > 1:
        raise BadManifest(
            f"pods of {len(nodes)} nodes ({', '.join(nodes[:3])}{', …' if nodes[3:] else ''}): "
            "ask for those of one with --field-selector spec.nodeName=NAME"
        )


def _require_different(pods: Iterable[Pod]) -> None:
    names: set[str] = set()
    uids: set[str] = set()
    for pod in pods:
        if pod.name in names:
            raise BadManifest(f"two pods are called {pod.name.replace(':', '/')}")
        if pod.uid in uids:
            raise BadManifest(f"pod {pod.name}: another one has its uid {pod.uid}")
        names.add(pod.name)
        uids.add(pod.uid)


def _by_age(items: Iterable[_Item]) -> list[_Item]:
    """The oldest first. The texts of times sort as the times do."""
    dated = list(items)
    missing = [one.pod.name for one in dated if not one.since]
    if missing:
        raise BadManifest(f"pod {missing[0]}: neither startTime nor creationTimestamp, so its "
                          "age is unknown")  # fmt: skip
    return sorted(dated, key=lambda one: one.since)


def _named(items: Iterable[_Item]) -> Iterator[Pod]:
    """The pods. Where several share a name, each has its namespace in its name."""
    items = list(items)
    names = Counter(one.pod.name for one in items)
    for one in items:
        if names[one.pod.name] == 1:
            yield one.pod
        else:
            yield replace(one.pod, name=f"{one.namespace}:{one.pod.name}", uid=one.uid)


# -- shapes ------------------------------------------------------------------------------------


def _mapping(given: object, at: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise BadManifest(f"{at}: {'missing' if given is None else 'not a mapping'}")
    return given


def _sequence(given: object, at: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise BadManifest(f"{at}: not a list")
    return given


def _checked(given: object, form: re.Pattern[str], at: str) -> str:
    if given in (None, ""):
        raise BadManifest(f"{at}: missing")
    if not isinstance(given, str) or not form.fullmatch(given):
        raise BadManifest(f"{at}: not allowed: {one_line(repr(given), 60)}")
    return given
