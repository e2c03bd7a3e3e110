"""The layouts of the state file: what each holds, how it is written, decoded and verified.

What belongs here: one layout at a time. What never does: which of them a release tries, and what
its content means (``state_checkpoint``). Source: ``pkg/kubelet/cm/cpumanager/state``
(``checkpoint.go``, ``state_file.go``, ``state.go``), 1.17 to 1.37.

=====  =========  ==============================================================================
PLAIN  1.9-1.11   entries by container id; no checksum
V1     1.12-1.17  entries by container id
V2     1.18-1.36  entries by pod uid and container name
V3     1.36       V2 and pod entries, while feature gate PodLevelResourceManagers is on
V4     1.37-      V2, and all of it once more as a JSON text with a checksum of its own
=====  =========  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from reference.cpuset import CPUSet, CPUSetParseError, CPUSetTooWide
from reference.errors import CheckpointError, NotModelled
from reference.golang import spew
from reference.golang.json_decode import Field, Map, Own, Struct, Text, Unsigned, decode, zero
from reference.golang.json_text import JSONError, object_text, parse, quote

#: The fields of a decoded file by their JSON names; maps are dicts, a nil map is ``None``.
Content: TypeAlias = dict[str, Any]

_CORRUPTED: Final = "checkpoint is corrupted"
_BY_CONTAINER: Final = "map[string]string"
_BY_POD: Final = "map[string]map[string]string"
_PODS: Final = "state.PodCPUAssignments"
_NUMBER: Final = Unsigned("checksum.Checksum")


class Layout(Enum):
    """A form of the file."""

    PLAIN = "plain"
    V1 = "1"
    V2 = "2"
    V3 = "3"
    V4 = "4"


#: The name that is in every checksum, whatever a release calls the struct of a layout.
OLD_NAME: Final = "state.CPUManagerCheckpoint"

_TEXT: Final = Field(Text())
_CHECKSUM: Final = Field(_NUMBER)
_OLD_ENTRIES: Final = Field(Map(_BY_CONTAINER, Text()))
_ENTRIES: Final = Field(Map(_BY_POD, Map(_BY_CONTAINER, Text())))


def _pod_cpus(fields: dict[str, Any]) -> CPUSet:
    try:
        return CPUSet.parse(fields["cpuSet"])
    except CPUSetTooWide as error:
        raise NotModelled(str(error)) from error
    except CPUSetParseError as error:
        raise JSONError(f"failed to parse cpuset: {error}") from error


_POD: Final = Own(Struct("state.podEntryJSON", {"cpuSet": _TEXT}), _pod_cpus)
_POD_ENTRIES: Final = Field(Map(_PODS, _POD))
_BASELINE: Final = Struct("state.ContainerCPUs", {"baseline": _TEXT})
_BASELINES: Final = Field(
    Map(
        "map[string]map[string]state.ContainerCPUs",
        Map("map[string]state.ContainerCPUs", _BASELINE),
    )
)

_V2_NAMES: Final = ("policyName", "defaultCpuSet", "entries", "checksum")
_EMBEDDED: Final = "CPUManagerCheckpointV2"

_FIELDS: Final[Mapping[Layout, Mapping[str, Field]]] = MappingProxyType(
    {
        Layout.PLAIN: {"policyName": _TEXT, "defaultCpuSet": _TEXT, "entries": _OLD_ENTRIES},
        Layout.V1: dict(zip(_V2_NAMES, (_TEXT, _TEXT, _OLD_ENTRIES, _CHECKSUM), strict=True)),
        Layout.V2: dict(zip(_V2_NAMES, (_TEXT, _TEXT, _ENTRIES, _CHECKSUM), strict=True)),
        Layout.V3: {
            "policyName": _TEXT, "defaultCpuSet": _TEXT, "entries": _ENTRIES,
            "podEntries": _POD_ENTRIES, "checksum": _CHECKSUM,
        },
        Layout.V4: {
            "policyName": Field(Text(), _EMBEDDED),
            "defaultCpuSet": Field(Text(), _EMBEDDED),
            "entries": Field(_ENTRIES.kind, _EMBEDDED),
            "checksum": Field(_NUMBER, _EMBEDDED),
            "data": _TEXT,
            "dataChecksum": _CHECKSUM,
        },
    }
)  # fmt: skip

_DATA: Final = Struct(
    "state.CPUManagerCheckpointData",
    {
        "policyName": _TEXT, "defaultCpuSet": _TEXT, "entries": _ENTRIES,
        "podEntries": _POD_ENTRIES, "baselines": _BASELINES,
    },
)  # fmt: skip

_MAPS: Final = ("entries", "podEntries", "baselines")


# -- reading -----------------------------------------------------------------------------------


def fresh(layout: Layout) -> Content:
    """``newCPUManagerCheckpoint``: the content that a file is decoded into: the maps are there, and
    empty. A plain file's map is nil."""
    content: Content = zero(Struct(OLD_NAME, _FIELDS[layout]))
    if layout is not Layout.PLAIN:
        content.update({name: {} for name in _MAPS if name in content})
    return content


def read(text: str, layout: Layout, type_name: str, into: Content, *, own_name: bool) -> None:
    """``UnmarshalCheckpoint``, ``VerifyChecksum``: decode a file and verify it. ``type_name``: how
    the release calls the struct; ``own_name``: whether it also accepts a checksum with this name.

    ``into`` has what was decoded even where :class:`CheckpointError` is raised. ``data`` of a V4
    file is not read.
    """
    _decode(Struct(type_name, _FIELDS[layout]), text, into)
    if layout in (Layout.PLAIN, Layout.V4):
        return
    # Files of 1.9 to 1.11 have no checksum.
    if not into["checksum"] and layout is not Layout.V3:
        return
    names = {OLD_NAME, type_name} if own_name else {OLD_NAME}
    if into["checksum"] not in {_checksum(name, layout, into) for name in names}:
        raise CheckpointError(_CORRUPTED)


def read_data(into: Content) -> Content:
    """What the ``data`` of a decoded V4 file holds, verified. Raises :class:`CheckpointError`."""
    content: Content = zero(_DATA)
    content.update({name: {} for name in _MAPS})
    try:
        _decode(_DATA, into["data"], content)
    except CheckpointError as error:
        raise within("failed to deserialize cpu manager checkpoint data", error) from error
    if into["dataChecksum"] != spew.text_checksum(into["data"]):
        raise CheckpointError(_CORRUPTED)
    return content


def _decode(struct: Struct, text: str, into: Content) -> None:
    try:
        decode(struct, parse(text), into)
    except JSONError as error:
        raise CheckpointError(*error.possible) from error


def within(failing: str, error: CheckpointError) -> CheckpointError:
    """The error that a caller wraps around that of its callee."""
    return CheckpointError(*(f"{failing}: {text}" for text in error.possible))


def _checksum(name: str, layout: Layout, content: Content) -> int:
    kind = _BY_CONTAINER if layout is Layout.V1 else _BY_POD
    fields = {
        "PolicyName": ("string", content["policyName"]),
        "DefaultCPUSet": ("string", content["defaultCpuSet"]),
        "Entries": (kind, spew.nested(content["entries"])),
    }
    if layout is Layout.V3:
        fields["PodEntries"] = (_PODS, _pods(content["podEntries"]))
    fields["Checksum"] = ("checksum.Checksum", "0")
    return spew.struct_checksum(name, fields)


def _pods(value: Mapping[str, CPUSet] | None) -> str:
    """``PodCPUAssignments``, printed."""
    if value is None:
        return spew.NIL
    return "map[" + " ".join(f"{uid}:{_pod(value[uid])}" for uid in sorted(value)) + "]"


def _pod(cpus: CPUSet) -> str:
    elements = " ".join(f"{cpu}:{{}}" for cpu in cpus)
    return f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{elements}]}}}}"


# -- writing -----------------------------------------------------------------------------------


def encode(layout: Layout, content: Content) -> str:
    """``MarshalCheckpoint``: the file, to the byte. ``content`` has ``policyName``,
    ``defaultCpuSet`` and the maps of the layout: ``entries``, ``podEntries``, ``baselines``."""
    parts = _head(content)
    if layout is Layout.V4:
        data = "{" + ",".join(parts + _tail(content, ("podEntries", "baselines"))) + "}"
        parts.append(f'"checksum":{_checksum(OLD_NAME, Layout.V2, content)}')
        parts += [f'"data":{quote(data)}', f'"dataChecksum":{spew.text_checksum(data)}']
    else:
        if layout is Layout.V3:
            parts += _tail(content, ("podEntries",))
        if layout is not Layout.PLAIN:
            parts.append(f'"checksum":{_checksum(OLD_NAME, layout, content)}')
    return "{" + ",".join(parts) + "}"


def _head(content: Content) -> list[str]:
    return [
        f'"policyName":{quote(content["policyName"])}',
        f'"defaultCpuSet":{quote(content["defaultCpuSet"])}',
        *_tail(content, ("entries",)),
    ]


def _tail(content: Content, names: tuple[str, ...]) -> list[str]:
    return [f'"{name}":{_value(content[name])}' for name in names if content[name]]


def _value(value: Any) -> str:
    """A map, a CPU list, or the CPUs of a pod."""
    if isinstance(value, CPUSet):
        return f'{{"cpuSet":{quote(str(value))}}}' if value else "{}"
    return quote(value) if isinstance(value, str) else object_text(value, _value)
