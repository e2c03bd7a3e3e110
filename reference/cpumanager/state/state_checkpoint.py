"""The state file ``cpu_manager_state``: what each release reads out of it and writes into it.

What belongs here: which layouts a release tries, what it makes of them, and its refusals. What
never does: a single layout (``checkpoint``), where the file lies, and whether its CPUs suit the
machine (``policy_static``).

Up to 1.17 the kubelet knows containers by their ids only. Such entries stand here under the pod
uid ``""``: ``{"": {container id: CPUs}}``.
Source: ``pkg/kubelet/cm/cpumanager/state`` (``state_checkpoint.go``; ``state_file.go`` for 1.9 to
1.11), 1.17 to 1.37.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

from reference.behaviours import Behaviour
from reference.cpumanager.state.checkpoint import (
    OLD_NAME,
    Content,
    Layout,
    encode,
    fresh,
    read,
    read_data,
    within,
)
from reference.cpuset import CPUSet, CPUSetParseError, CPUSetTooWide
from reference.errors import CheckpointError, NotModelled
from reference.feature_gates import enabled
from reference.golang.strconv import go_quote
from reference.releases import NEWEST, AnyRelease, has

#: Exclusive CPUs by pod uid, then container name.
Entries: TypeAlias = Mapping[str, Mapping[str, CPUSet]]
#: (pod uid, container name) by container id.
Containers: TypeAlias = Mapping[str, tuple[str, str]]

_NO_CPUS: Final = CPUSet()
_NO_POD: Final = ""


def keeps_baselines(release: AnyRelease, feature_gates: Mapping[str, bool]) -> bool:
    """Whether the state keeps what each container was given first."""
    return has(release, Behaviour.STATE_WITH_DATA) and enabled(
        "InPlacePodVerticalScalingExclusiveCPUs", feature_gates, release=release
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """A release, with what decides how it reads and writes. ``pod_level``, ``baselines``: whether
    it keeps these."""

    release: AnyRelease
    pod_level: bool
    baselines: bool

    @classmethod
    def of(cls, release: AnyRelease, feature_gates: Mapping[str, bool] | None) -> _Reader:
        gates = feature_gates or {}
        return cls(
            release,
            enabled("PodLevelResourceManagers", gates, release=release),
            keeps_baselines(release, gates),
        )

    def has(self, behaviour: Behaviour) -> bool:
        return has(self.release, behaviour)

    @property
    def layout(self) -> Layout:
        """The layout that it writes. Raises :class:`NotModelled` for 1.8."""
        if self.has(Behaviour.STATE_WITH_DATA):
            return Layout.V4
        if self.has(Behaviour.KEYED_BY_POD):
            return Layout.V3 if self.pod_level else Layout.V2
        if self.has(Behaviour.STATE_CHECKSUM):
            return Layout.V1
        if self.has(Behaviour.STATE_FILE):
            return Layout.PLAIN
        raise NotModelled(f"release {self.release} writes no state file")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a state file. ``pod_entries`` (versions 3 and 4) and ``baselines`` (version
    4) are empty where the release or its feature gates know none."""

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
        containers: Containers | None = None,
    ) -> Checkpoint:
        """``restoreState``: what ``release``, configured with ``policy``, restores from a file with
        this text.

        ``containers``: (pod uid, container name) by the ids of the containers that the runtime
        knows, for files of up to 1.17. Raises :class:`CheckpointError`, whose text is the
        kubelet's inner one (see :func:`reported`), and :class:`NotModelled`. 1.8 has no state
        file, and 1.9 forgets one that it cannot read: both restore the empty state.
        """
        reader = _Reader.of(release, feature_gates)
        if not reader.has(Behaviour.STATE_CHECKSUM):
            return _read_plain(reader, text, policy)
        if reader.has(Behaviour.STATE_WITH_DATA):
            content = _read_v4(reader, text)
        elif reader.has(Behaviour.OLDEST_STATE_TRIED_FIRST):
            content = _read_oldest_first(reader, text, containers or {})
        elif not reader.has(Behaviour.KEYED_BY_POD):
            content = _tried(reader, text, Layout.V1, OLD_NAME)
        else:
            content = _read_newest_first(reader, text, containers or {})
        return _restored(reader, content, policy)

    def dumps(
        self, *, release: AnyRelease = NEWEST, feature_gates: Mapping[str, bool] | None = None
    ) -> str:
        """``storeState``: the file as ``release`` writes it, to the byte. Raises
        :class:`NotModelled` for 1.8, which writes none, and for entries by container id where it
        knows pods, or the other way round."""
        reader = _Reader.of(release, feature_gates)
        layout = reader.layout
        entries = _texts(self.entries)
        if layout in (Layout.PLAIN, Layout.V1):
            if set(entries) - {_NO_POD}:
                raise NotModelled(f"release {release} keeps its state by container id")
            entries = entries.get(_NO_POD, {})
        return encode(
            layout,
            {
                "policyName": self.policy_name,
                "defaultCpuSet": str(self.default_cpuset),
                "entries": entries,
                "podEntries": self.pod_entries if reader.pod_level else {},
                "baselines": _baseline_texts(self.baselines) if reader.baselines else {},
            },
        )


def _texts(entries: Entries) -> dict[str, Any]:
    return {
        uid: {name: str(cpus) for name, cpus in named.items()} for uid, named in entries.items()
    }


def _baseline_texts(baselines: Entries) -> dict[str, Any]:
    return {
        uid: {name: {"baseline": str(cpus)} for name, cpus in named.items()}
        for uid, named in baselines.items()
    }


# -- what a release tries ----------------------------------------------------------------------


def _tried(
    reader: _Reader, text: str, layout: Layout, type_name: str, *, into: Content | None = None
) -> Content:
    content = fresh(layout) if into is None else into
    by_own_name = layout is Layout.V3 or (layout is Layout.V2 and not reader.pod_level)
    read(text, layout, type_name, content, own_name=by_own_name)
    return content


def _read_plain(reader: _Reader, text: str, policy: str) -> Checkpoint:
    """1.8 to 1.11."""
    if not text or not reader.has(Behaviour.STATE_FILE):
        return Checkpoint(policy)
    try:
        content = _tried(reader, text, Layout.PLAIN, "state.stateFileData")
        return _restored(reader, content, policy)
    except CheckpointError:
        if reader.has(Behaviour.BAD_STATE_FORGOTTEN):
            return Checkpoint(policy)
        raise


def _read_oldest_first(reader: _Reader, text: str, containers: Containers) -> Content:
    """1.18 to 1.35."""
    try:
        old = _tried(reader, text, Layout.V1, f"{OLD_NAME}V1")
    except CheckpointError:
        return _tried(reader, text, Layout.V2, OLD_NAME)
    return _migrated(old, containers, "error migrating v1 checkpoint state to v2 checkpoint state")


def _read_newest_first(reader: _Reader, text: str, containers: Containers) -> Content:
    """1.36."""
    if not reader.pod_level:
        return _read_v2_or_v1(reader, text, containers)
    content = fresh(Layout.V3)
    try:
        return _tried(reader, text, Layout.V3, OLD_NAME, into=content)
    except CheckpointError:
        # What this attempt has decoded stays: a file whose checksum is 0 keeps its pod entries.
        return _overlaid(content, _read_v2_or_v1(reader, text, containers))


def _read_v2_or_v1(reader: _Reader, text: str, containers: Containers) -> Content:
    try:
        return _tried(reader, text, Layout.V2, f"{OLD_NAME}V2")
    except CheckpointError:
        old = _tried(reader, text, Layout.V1, f"{OLD_NAME}V1")
        return _migrated(old, containers, "failed to migrate checkpoint from v1 to v2")


@lru_cache(maxsize=1024)
def _read_v4(reader: _Reader, text: str) -> Content:
    """``loadAndMigrateCheckpointV4``, with ``loadAndMigrateCheckpointV3`` and ``loadCheckpointV2``
    (1.37): a file that has data is version 4, and must be valid."""
    content = fresh(Layout.V4)
    try:
        try:
            _tried(reader, text, Layout.V4, OLD_NAME, into=content)
        except CheckpointError as error:
            raise within("failed to deserialize cpu manager checkpoint", error) from error
        return read_data(content)
    except CheckpointError as error:
        if content["data"] or content["dataChecksum"]:
            raise within("could not load v4 checkpoint", error) from error
    try:
        return _tried(reader, text, Layout.V3, f"{OLD_NAME}V3")
    except CheckpointError:
        return _tried(reader, text, Layout.V2, f"{OLD_NAME}V2")


def _overlaid(content: Content, newer: Content) -> Content:
    """``content``, overridden by those fields of ``newer`` that are not empty."""
    return content | {name: value for name, value in newer.items() if value}


def _migrated(old: Content, containers: Containers, failing: str) -> Content:
    """``migrateV1CheckpointToV2Checkpoint``, up to 1.36."""
    entries: dict[str, dict[str, str]] = {}
    named = old["entries"] or {}
    unknown = sorted(set(named) - set(containers))
    if unknown:
        raise CheckpointError(
            *(
                f"{failing}: containerID '{one}' not found in initial containers list"
                for one in unknown
            )
        )
    for container, cpus in named.items():
        uid, name = containers[container]
        if entries.setdefault(uid, {}).setdefault(name, cpus) != cpus:
            raise NotModelled(f"two containers of one name in one state file: {name!r}")
    return old | {"entries": entries}


# -- what it makes of it -----------------------------------------------------------------------


def _restored(reader: _Reader, content: Content, policy: str) -> Checkpoint:
    plain = not reader.has(Behaviour.STATE_CHECKSUM)
    if content["policyName"] != policy:
        raise CheckpointError(_other_policy(policy, content["policyName"], plain=plain))
    default = content["defaultCpuSet"]
    what = "CPU set" if reader.has(Behaviour.STATE_WITH_DATA) else "cpu set"
    cpus = _cpus(reader, default, "" if plain else f"default {what} {go_quote(default)}")
    entries = content["entries"] or {}
    if not reader.has(Behaviour.KEYED_BY_POD):
        entries = {_NO_POD: entries} if entries else {}
    restored = _entries(reader, entries, "cpuset")
    baselines: Entries = {}
    if reader.baselines:
        texts = {
            uid: {name: one["baseline"] for name, one in (named or {}).items()}
            for uid, named in (content.get("baselines") or {}).items()
        }
        baselines = _entries(reader, texts, "Baseline cpuset") if texts else restored
    pods = content.get("podEntries") or {} if reader.pod_level else {}
    return Checkpoint(policy, cpus, restored, dict(pods), baselines)


def _other_policy(policy: str, stored: str, *, plain: bool) -> str:
    if plain:
        return f'policy configured "{policy}" != policy from state file "{stored}"'
    return (
        f"configured policy {go_quote(policy)} differs from state checkpoint policy "
        f"{go_quote(stored)}"
    )


def _entries(
    reader: _Reader, texts: Mapping[str, Mapping[str, str] | None], kind: str
) -> dict[str, dict[str, CPUSet]]:
    """Every set of every container. Of several that are wrong any may be named."""
    faults: list[str] = []
    entries: dict[str, dict[str, CPUSet]] = {uid: {} for uid in sorted(texts)}
    for uid, name, text in _flat(texts):
        try:
            entries[uid][name] = _cpus(reader, text, _what(reader, kind, text, uid, name))
        except CheckpointError as error:
            faults.append(str(error))
    if faults:
        raise CheckpointError(*faults)
    return entries


def _flat(texts: Mapping[str, Mapping[str, str] | None]) -> Iterator[tuple[str, str, str]]:
    for uid, named in sorted(texts.items()):
        for name, text in sorted((named or {}).items()):
            yield uid, name, text


def _what(reader: _Reader, kind: str, text: str, uid: str, name: str) -> str:
    if not reader.has(Behaviour.STATE_CHECKSUM):
        return ""
    if not reader.has(Behaviour.KEYED_BY_POD):
        return f"{kind} {go_quote(text)} for container id {go_quote(name)}"
    return f"{kind} {go_quote(text)} for container {go_quote(name)} in pod {go_quote(uid)}"


def _cpus(reader: _Reader, text: str, what: str) -> CPUSet:
    try:
        return CPUSet.parse(text, release=reader.release)
    except CPUSetTooWide as error:
        raise NotModelled(str(error)) from error
    except CPUSetParseError as error:
        failing = f"could not parse {what}: " if what else ""
        raise CheckpointError(f"{failing}{error}") from error


# -- giving up ---------------------------------------------------------------------------------


def reported(inner: str, release: AnyRelease, path: str) -> str:
    """The kubelet's whole text around that of a :class:`CheckpointError`; ``path`` is the file.

    Up to 1.11 it is what the kubelet panics with. 1.9 only logs the fault.
    """
    if not has(release, Behaviour.STATE_CHECKSUM):
        return (
            f"[cpumanager] state file: unable to restore state from disk ({inner})\n"
            "Panicking because we cannot guarantee sane CPU affinity for existing containers.\n"
            f'Please drain this node and delete the CPU manager state file "{path}" before '
            "restarting Kubelet."
        )
    advice = f"drain this node and delete the CPU manager checkpoint file {go_quote(path)} before"
    fault = f"could not restore state from checkpoint: {inner}"
    if has(release, Behaviour.STATE_FAULT_ON_ONE_LINE):
        return f"{fault}, please {advice} restarting Kubelet"
    return f"{fault}\nPlease {advice} restarting Kubelet."


def exit_status(release: AnyRelease) -> int:
    """The exit status of a kubelet that cannot restore its state: 1; up to 1.20 255; up to 1.11,
    where it panics, 2."""
    if has(release, Behaviour.BAD_STATE_PANICS):
        return 2
    return 1 if has(release, Behaviour.EXITS_WITH_ONE) else 255


# -- looking without judging -------------------------------------------------------------------


def parse_leniently(
    text: str | None, *, release: AnyRelease | None = None
) -> tuple[CPUSet, dict[str, dict[str, CPUSet]]]:
    """The default set and the exclusive CPUs (by pod uid, then container) that a state file shows,
    with no check of anything; (empty, {}) where there is none or it cannot be read.

    ``release``: the reader. 1.37 uses ``data`` where the file has it, earlier kubelets never do;
    where no release is given, ``data`` counts too. Entries by container id stand under the pod uid
    ``""``.
    """
    try:
        content = _content(text, release)
        default = CPUSet.parse(content["defaultCpuSet"])
        shown = content.get("entries") or {}
        if shown and all(isinstance(one, str) for one in shown.values()):
            shown = {_NO_POD: shown}
        entries = {
            uid: {name: CPUSet.parse(cpus) for name, cpus in containers.items()}
            for uid, containers in shown.items()
        }
    except _UNREADABLE:
        return CPUSet(), {}
    return default, entries


def parse_pods_leniently(
    text: str | None, *, release: AnyRelease | None = None
) -> dict[str, CPUSet]:
    """The CPUs of whole pods (by uid) that a state file shows, as :func:`parse_leniently` does."""
    if not text:
        return {}
    try:
        shown = _content(text, release).get("podEntries") or {}
        return {uid: CPUSet.parse(one.get("cpuSet", "")) for uid, one in shown.items()}
    except _UNREADABLE:
        return {}


_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def _content(text: str | None, release: AnyRelease | None) -> Any:
    content = json.loads(text or "")
    if content.get("data") and (release is None or has(release, Behaviour.STATE_WITH_DATA)):
        return json.loads(content["data"])
    return content
