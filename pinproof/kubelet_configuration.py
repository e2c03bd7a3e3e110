"""A KubeletConfiguration in documents: the settings that decide CPUs, and those of memory.

What belongs here: plain objects in, a :class:`reference.steps.KubeletConfig` out, each fault with
its field. What never does: files (``files``), options of a command line (``settings``), and what a
kubelet makes of a wrong value, which it refuses in its own words.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from conformance.discovered import first_core
from conformance.kubelets.settings import GATES, MAPS_OF_TEXTS, TEXTS, deciding, known_gates
from conformance.subject import SubjectUsageError
from pinproof.configuration_fields import FIELDS
from reference import CPUTopology
from reference.kubelet.configuration import reserving
from reference.releases import Release
from reference.steps import KubeletConfig
from reports.text import few
from topologies.errors import one_line

#: The note on settings whose memory manager is left out.
NO_MEMORY: Final = (
    "what the Memory Manager reserves is not modelled: only CPUs decide the NUMA nodes here"
)
_KIND: Final = "KubeletConfiguration"
_FIELDS: Final = FIELDS | {"apiVersion", "kind"}
#: The key of a kubelet's answer at ``/configz``.
_CONFIGZ: Final = "kubeletconfig"
_MANAGER_GATE: Final = "CPUManager"


def with_a_reservation(config: KubeletConfig, topology: CPUTopology, release: str) -> KubeletConfig:
    """The settings with reserved CPUs, which policy static needs. Without CPUs the kubelet does not
    start."""
    named = config.kube_reserved is not None or config.system_reserved is not None
    if named or not topology.details:
        return config
    default = reserving(first_core(topology), release=release)
    return replace(
        config,
        reserved_system_cpus=default.reserved_system_cpus,
        system_reserved=default.system_reserved,
    )


def settings_in(
    every: Sequence[Any], where: str, *, release: str
) -> tuple[KubeletConfig, list[str]]:
    """The settings in the documents ``every``, and what a person should know of them. Raises
    :class:`SubjectUsageError` with ``where`` and the field at fault."""
    shape = only_one(every, where)
    if not Release.parse(release).announced:  # a release to come may know more fields
        _require_fields(shape, where)
    _require_shapes(shape, where)
    notes = []
    gates = shape.get(GATES) or {}
    known = known_gates(gates, release)
    others = sorted(set(gates) - set(known) - {_MANAGER_GATE})
    if others:
        notes.append(f"feature gates ignored, unknown to the model: {few(others)}")
    if str(shape.get("memoryManagerPolicy") or "None").lower() != "none":
        notes.append(NO_MEMORY)
    try:
        return deciding({**shape, GATES: known}), notes
    except ValueError as error:
        raise SubjectUsageError(f"{where}: {one_line(str(error))}") from error


def only_one(every: Sequence[Any], where: str) -> Mapping[str, Any]:
    """The one mapping in the documents: a KubeletConfiguration, or a kubelet's answer at
    ``/configz``. Raises :class:`SubjectUsageError`."""
    if len(every) != 1 or not isinstance(every[0], dict):
        raise SubjectUsageError(f"{where}: it must hold one {_KIND}")
    shape: dict[str, Any] = every[0]
    if set(shape) == {_CONFIGZ} and isinstance(shape[_CONFIGZ], dict):
        return dict(shape[_CONFIGZ])
    kind = shape.get("kind")
    if kind != _KIND:
        said = "no kind" if kind is None else f"kind {one_line(str(kind), 60)}"
        raise SubjectUsageError(f"{where}: {said}: it must be a {_KIND}")
    return shape


def _require_fields(shape: Mapping[str, Any], where: str) -> None:
    """Refuse a field that a kubelet does not know, and would refuse too."""
    unknown = next((name for name in map(str, shape) if name not in _FIELDS), None)
    if unknown is not None:
        near = difflib.get_close_matches(unknown, FIELDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise SubjectUsageError(f"{where}: {one_line(unknown, 60)}: not a field of a {_KIND}{hint}")


def _require_shapes(shape: Mapping[str, Any], where: str) -> None:
    """Refuse what the kubelet's decoder refuses: a number or ``true`` instead of a text."""
    for name in TEXTS:
        if not isinstance(shape.get(name) or "", str):
            raise SubjectUsageError(f"{where}: {name}: not a string; put it in quotes")
    for name in (*MAPS_OF_TEXTS, GATES):
        _require_map(shape.get(name) or {}, f"{where}: {name}", bool if name == GATES else str)


def _require_map(shape: object, at: str, of: type) -> None:
    if not isinstance(shape, dict) or not all(isinstance(name, str) for name in shape):
        raise SubjectUsageError(f"{at}: not a mapping of names")
    wrong = next((name for name, value in shape.items() if not isinstance(value, of)), None)
    if wrong is not None:
        wanted = "it is true or false" if of is bool else "not a string; put it in quotes"
        raise SubjectUsageError(f"{at}: {one_line(wrong, 60)}: {wanted}")
