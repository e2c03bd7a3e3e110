"""A node in one file: the archive of its machine, and the inputs of its kubelet.

What belongs here: the members that such an archive has beside those of a machine, how they are
found, and what of a manifest is kept. What never does: how a node is asked (``collect``).

A reader of machines ignores these members, so the file can be given wherever a machine can. Each
member can be named as a file: ``node7.tar.xz/pinproof/pods.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from conformance.kept_files import FILES
from conformance.kept_files import STATE as STATE
from pinproof.documents import parsed
from pinproof.files import members
from pinproof.manifests import MIRROR
from reference import Release

FOLDER: Final = "pinproof"
CONFIG: Final = "kubelet.json"
PODS: Final = "pods.json"
ABOUT: Final = "node.json"
#: Settings of the memory manager, beside those that decide CPUs.
MEMORY_FIELDS: Final = ("memoryManagerPolicy", "reservedMemory")

#: The files that the kubelet's other managers keep, by the names of their members.
_KEPT: Final = {PurePosixPath(name).name: name for name in FILES if name != STATE}

_METADATA: Final = ("name", "namespace", "uid", "creationTimestamp")
_STATUS: Final = ("phase", "startTime")
_AMOUNTS: Final = ("requests", "limits")
#: Resources that a kubelet without plugins and huge pages has.
RESOURCES: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Collected:
    """What a file has beside its machine; ``None`` or ``""`` for what is missing. ``files``: those
    that the kubelet keeps beside the state file, by :data:`conformance.kept_files.FILES`."""

    config: Path | None = None
    state: Path | None = None
    pods: str | None = None
    release: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def collected(machine: str) -> Collected:
    """What the archive at this path has beside a machine; nothing for a name or a described
    spec."""
    place = Path(machine)
    there = members(place, FOLDER)
    return Collected(
        place / FOLDER / CONFIG if CONFIG in there else None,
        place / FOLDER / STATE if STATE in there else None,
        str(place / FOLDER / PODS) if PODS in there else None,
        _release(there.get(ABOUT, b"")),
        {
            name: there[member].decode("utf-8", "surrogateescape")
            for member, name in _KEPT.items()
            if member in there
        },
    )


def _release(about: bytes) -> str:
    try:
        found: object = next(parsed(about.decode()), {})
    except ValueError:
        return ""
    said = found.get("release") if isinstance(found, dict) else None
    try:
        return str(Release.parse(str(said)))
    except ValueError:
        return ""


def texts(
    *,
    config: Mapping[str, Any] | None,
    state: str | None,
    files: Mapping[str, str],
    pods: Iterable[Any],
    release: str,
) -> dict[str, str]:
    """The members, by their paths in the archive."""
    found = {ABOUT: _json({"release": release})}
    if config is not None:
        found[CONFIG] = _json(config)
    if state is not None:
        found[STATE] = state
    found |= {PurePosixPath(name).name: text for name, text in files.items()}
    items = list(pods)
    if items:
        found[PODS] = _json({"apiVersion": "v1", "kind": "PodList", "items": items})
    return {f"{FOLDER}/{name}": text for name, text in found.items()}


def _json(value: object) -> str:
    return json.dumps(value, indent=1) + "\n"


def bare(document: object) -> Iterator[dict[str, Any]]:
    """Each pod in an object of the API, as a manifest of what decides its CPUs: names, uid, times,
    phase, priority, and the requests and limits of its containers. Whatever else a manifest holds
    is left out: environment, arguments, volumes, images, labels, annotations, the node's name."""
    shape = _mapping(document)
    if shape.get("kind") in ("List", "PodList"):
        for item in _sequence(shape.get("items")):
            yield from bare({"kind": "Pod", **_mapping(item)})
    elif shape.get("kind") == "Pod":
        yield _bare(shape)


def _bare(pod: Mapping[str, Any]) -> dict[str, Any]:
    metadata, spec = _mapping(pod.get("metadata")), _mapping(pod.get("spec"))
    kept = _only(metadata, _METADATA)
    mirror = _mapping(metadata.get("annotations")).get(MIRROR)
    if isinstance(mirror, str):
        kept["annotations"] = {MIRROR: mirror}
    shape = _only(spec, ("priority",)) | {
        name: [_container(_mapping(one)) for one in _sequence(spec.get(name))]
        for name in ("initContainers", "containers")
        if spec.get(name)
    }
    if spec.get("resources"):
        shape["resources"] = _amounts(spec["resources"])
    status = _only(_mapping(pod.get("status")), _STATUS)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": shape, "status": status}


def _container(given: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(given, ("name", "restartPolicy"))
    return kept | {"resources": _amounts(given.get("resources"))}


def _amounts(given: object) -> dict[str, Any]:
    """Requests and limits of every resource: devices and huge pages decide NUMA nodes too."""
    shape = _mapping(given)
    return {name: dict(_mapping(shape[name])) for name in _AMOUNTS if shape.get(name)}


def _only(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: given[name] for name in names if given.get(name)}


def _mapping(given: object) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}


def _sequence(given: object) -> list[Any]:
    return given if isinstance(given, list) else []
