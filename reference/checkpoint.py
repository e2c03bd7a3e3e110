"""The state file ``cpu_manager_state``: reading it, checking it, writing it.

What belongs here: the layouts of the file, their checksums, and which of them a release tries.
What never does: where the file lies, and whether its CPUs suit the machine (``policy``).

A layout is checked by a checksum over a *dump* of the decoded object, in the form of Go's spew
library; the dump names Go types, so equal content has another checksum in another layout.
Source: ``pkg/kubelet/cm/cpumanager/state`` (``checkpoint.go``, ``state_checkpoint.go``), 1.36.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from reference.cpuset import CPUSet, CPUSetParseError, CPUSetTooWide, go_quote
from reference.errors import CheckpointError, NotModelled
from reference.gojson import Decoder, JSONError, Members, parse, quote
from reference.releases import NEWEST, AnyRelease, require_whole_node

__all__ = ["Checkpoint", "Entries", "glance"]

#: Exclusive CPUs by pod uid, then container name.
Entries: TypeAlias = Mapping[str, Mapping[str, CPUSet]]

_NO_CPUS: Final = CPUSet()
_CORRUPTED: Final = "checkpoint is corrupted"
_POD_LEVEL_GATE: Final = "PodLevelResourceManagers"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a state file. ``pod_entries`` (version 3) and ``baselines`` (version 4) are
    empty where the release or its feature gates know none."""

    policy_name: str
    default_cpuset: CPUSet = _NO_CPUS
    entries: Entries = field(default_factory=dict)
    pod_entries: Mapping[str, CPUSet] = field(default_factory=dict)
    baselines: Entries = field(default_factory=dict)

    @classmethod
    def loads(
        cls,
        text: str,
        *,
        policy: str = "static",
        release: AnyRelease = NEWEST,
        feature_gates: Mapping[str, bool] | None = None,
        containers: Mapping[str, tuple[str, str]] | None = None,
    ) -> Checkpoint:
        """What ``release``, configured with ``policy``, restores from a file with this text.

        ``containers``: (pod uid, container name) by the ids of the containers that the runtime
        knows, for files of version 1. Raises :class:`CheckpointError`, whose text is the
        kubelet's inner one, and :class:`NotModelled`.
        """
        _require_modelled(release, feature_gates)
        try:
            stored = _decode_v2(text)
        except (JSONError, CheckpointError):
            # What is reported is the fault of the last layout tried.
            try:
                stored = _migrated(_decode_v1(text), containers or {})
            except JSONError as error:
                raise CheckpointError(str(error)) from error
        return _restored(stored, policy)

    def dumps(
        self, *, release: AnyRelease = NEWEST, feature_gates: Mapping[str, bool] | None = None
    ) -> str:
        """The file as ``release`` writes it, to the byte. Raises :class:`NotModelled`."""
        _require_modelled(release, feature_gates)
        default = str(self.default_cpuset)
        entries = {
            uid: {name: str(cpus) for name, cpus in containers.items()}
            for uid, containers in self.entries.items()
        }
        checksum = _checksum(self.policy_name, default, "map[string]map[string]string", entries)
        parts = [f'"policyName":{quote(self.policy_name)}', f'"defaultCpuSet":{quote(default)}']
        if entries:
            parts.append(f'"entries":{_object(entries, lambda inner: _object(inner, quote))}')
        return "{" + ",".join([*parts, f'"checksum":{checksum}']) + "}"


def _require_modelled(release: AnyRelease, feature_gates: Mapping[str, bool] | None) -> None:
    require_whole_node(release)
    if (feature_gates or {}).get(_POD_LEVEL_GATE):
        raise NotModelled(f"state files under feature gate {_POD_LEVEL_GATE}")


# -- checksums ---------------------------------------------------------------------------------


def fnv32a(data: bytes) -> int:
    """32-bit FNV-1a."""
    total = 2166136261
    for byte in data:
        total = (total ^ byte) * 16777619 & 0xFFFFFFFF
    return total


def _checksum(policy: str, default: str, entries_type: str, entries: Any) -> int:
    return fnv32a(
        (
            f"(*state.CPUManagerCheckpoint){{PolicyName:(string){policy} "
            f"DefaultCPUSet:(string){default} Entries:({entries_type}){_dump(entries)} "
            "Checksum:(checksum.Checksum)0}"
        ).encode()
    )


def _dump(value: Mapping[str, Any] | str | None) -> str:
    """A nested map of texts as spew prints it; a map that is nil in Go is ``None``."""
    if value is None:
        return "<nil>"
    if isinstance(value, str):
        return value
    return "map[" + " ".join(f"{key}:{_dump(value[key])}" for key in sorted(value)) + "]"


def _object(members: Mapping[str, Any], write: Callable[[Any], str]) -> str:
    return "{" + ",".join(f"{quote(key)}:{write(members[key])}" for key in sorted(members)) + "}"


# -- layouts -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Stored:
    """A decoded file; ``entries`` is nested for version 2, flat for version 1, or nil."""

    policy: str = ""
    default: str = ""
    entries: dict[str, Any] | None = field(default_factory=dict)
    checksum: int = 0


def _decode_v2(text: str) -> _Stored:
    def pod(decoder: Decoder, value: Any, _: Any) -> dict[str, str] | None:
        return _map_of(decoder, value, {}, "map[string]string", Decoder.text, "")

    return _decode(text, "state.CPUManagerCheckpoint", "map[string]map[string]string", pod, None)


def _decode_v1(text: str) -> _Stored:
    return _decode(text, "state.CPUManagerCheckpointV1", "map[string]string", Decoder.text, "")


def _decode(text: str, name: str, entries_type: str, item: Any, zero: Any) -> _Stored:
    """Decode a file into one layout and check its checksum, which may be 0 or missing (files of
    1.9 to 1.11 have none). Raises :class:`JSONError`, :class:`CheckpointError`."""
    stored = _Stored()

    def policy(value: Any) -> None:
        stored.policy = decoder.text(value, stored.policy)

    def default(value: Any) -> None:
        stored.default = decoder.text(value, stored.default)

    def entries(value: Any) -> None:
        stored.entries = _map_of(decoder, value, stored.entries, entries_type, item, zero)

    def checksum(value: Any) -> None:
        stored.checksum = decoder.unsigned(value, stored.checksum, "checksum.Checksum")

    fields = {
        "policyName": policy, "defaultCpuSet": default, "entries": entries, "checksum": checksum,
    }  # fmt: skip
    decoder = Decoder(name, fields)
    decoder.decode(parse(text))
    if stored.checksum and stored.checksum != _checksum(
        stored.policy, stored.default, entries_type, stored.entries
    ):
        raise CheckpointError(_CORRUPTED)
    return stored


def _map_of(
    decoder: Decoder, value: Any, before: dict[str, Any] | None, name: str, item: Any, zero: Any
) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Members):
        decoder.wrong(value, name)
        return before
    after = dict(before or {})
    for key, member in value:
        after[key] = item(decoder, member, zero)
    return after


def _migrated(stored: _Stored, containers: Mapping[str, tuple[str, str]]) -> _Stored:
    entries: dict[str, dict[str, str]] = {}
    unknown = sorted(set(stored.entries or {}) - set(containers))
    if unknown:
        raise CheckpointError(
            *(
                f"failed to migrate checkpoint from v1 to v2: containerID '{one}' "
                "not found in initial containers list"
                for one in unknown
            )
        )
    for container, cpus in (stored.entries or {}).items():
        uid, name = containers[container]
        entries.setdefault(uid, {})[name] = cpus
    return _Stored(stored.policy, stored.default, entries)


def _restored(stored: _Stored, policy: str) -> Checkpoint:
    if stored.policy != policy:
        raise CheckpointError(
            f"configured policy {go_quote(policy)} differs from state checkpoint policy "
            f"{go_quote(stored.policy)}"
        )
    default = _cpus(stored.default, f"could not parse default cpu set {go_quote(stored.default)}")
    faults: list[str] = []
    entries: dict[str, dict[str, CPUSet]] = {}
    for uid, named in sorted((stored.entries or {}).items()):
        entries[uid] = {}
        for name, text in sorted((named or {}).items()):
            place = f"for container {go_quote(name)} in pod {go_quote(uid)}"
            try:
                entries[uid][name] = _cpus(text, f"could not parse cpuset {go_quote(text)} {place}")
            except CheckpointError as error:
                faults.append(str(error))
    if faults:
        raise CheckpointError(*faults)
    return Checkpoint(stored.policy, default, entries)


def _cpus(text: str, failing: str) -> CPUSet:
    try:
        return CPUSet.parse(text)
    except CPUSetTooWide as error:
        raise NotModelled(str(error)) from error
    except CPUSetParseError as error:
        raise CheckpointError(f"{failing}: {error}") from error


# -- looking without judging -------------------------------------------------------------------


def glance(text: str | None) -> tuple[CPUSet, dict[str, dict[str, CPUSet]]]:
    """The default set and the exclusive CPUs (by pod uid, then container) that a state file
    shows, with no check of anything; (empty, {}) where there is none or it cannot be read."""
    nothing: tuple[CPUSet, dict[str, dict[str, CPUSet]]] = (CPUSet(), {})
    try:
        content = json.loads(text or "")
        default = CPUSet.parse(content["defaultCpuSet"])
        entries = {
            uid: {name: CPUSet.parse(cpus) for name, cpus in containers.items()}
            for uid, containers in (content.get("entries") or {}).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return nothing
    return default, entries
