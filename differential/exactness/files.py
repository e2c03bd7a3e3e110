"""State files that a kubelet finds at its start and has not written itself.

Which file it is follows from a seed and from the node as it is then, so a case can be walked again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Any, Final

from reference import CPUSet
from reference.behaviours import Behaviour
from reference.cpumanager.state.state_checkpoint import (
    Checkpoint,
    parse_leniently,
    parse_pods_leniently,
)
from reference.releases import has


class Change(Enum):
    """What happened to the file."""

    GONE = "gone"
    CUT_OFF = "torn"
    GARBLED = "garbled"  # pieces of it cut out, doubled or replaced
    REWRITTEN = "rewritten"  # JSON with a content that does not belong there
    CHECKSUM = "checksum"  # a wrong checksum
    POLICY = "policy"  # the file of another policy
    RELEASE = "release"  # written by another release
    CPUS = "cpus"  # other CPUs, with the right checksum
    UNKNOWN = "strangers"  # entries of pods and containers that the kubelet does not know


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A changed state file; the same seed makes the same of the same node."""

    change: Change
    seed: int

    def of(self, now: Now) -> str | None:
        """The text of the file; ``None``: there is no file."""
        if self.change is Change.GONE:
            return None
        random = Random(f"{self.change.value} {self.seed}")
        return _MAKERS[self.change](random, now)


@dataclass(frozen=True, slots=True)
class Now:
    """What is on the node: the state file, ``release`` and gates of its kubelet, every CPU, and
    the ids of the containers by pod uid and name."""

    text: str | None
    release: str
    gates: Mapping[str, bool]
    policy: str
    cpus: CPUSet
    ids: Mapping[tuple[str, str], str]

    def content(self) -> Checkpoint:
        """What the file holds; a state without pods where it cannot be read."""
        default, entries = parse_leniently(self.text, release=self.release)
        if not default:
            return Checkpoint(self.policy, self.cpus)
        pods = parse_pods_leniently(self.text, release=self.release)
        return Checkpoint(self.policy, default, entries, pods, entries)

    def written(self, content: Checkpoint) -> str:
        """The file as this kubelet would write it."""
        return content.dumps(release=self.release, feature_gates=self.gates)


#: Releases that write each layout there is.
_RELEASES: Final = ("1.11", "1.13", "1.17", "1.18", "1.35", "1.36", "1.37")
_GATES: Final = ("PodLevelResourceManagers", "InPlacePodVerticalScalingExclusiveCPUs")
_ODD: Final = (
    "", " ", '"', "\\", "{", "}", "[", "]", ",", ":", "-", "0", "9", "00", "null", "true", "-1",
    "1e3", "\x00", "\n", "\\u00e9", "\u00e9", "\u2028", "<&>", "\udcff", "\udcc3", '\\"', "0-",
    "4000",
)  # fmt: skip
_VALUES: Final[tuple[Any, ...]] = (
    None, True, 0, 1, -1, 1.5, 1 << 64, "", "none", "static", "0-3", "5-1", "x", [], ["a"], {},
    {"a": "1"}, {"a": {"b": "1"}}, {"a": None}, {"a": {"b": 1}}, {"cpuSet": "1"},
    {"a": {"cpuSet": 1}},
)  # fmt: skip
_KEYS: Final = ("policyName", "defaultCpuSet", "entries", "podEntries", "checksum", "data",
                "dataChecksum", "POLICYNAME", "DefaultCPUSet", "Entries", "other", "")  # fmt: skip


def _cut_off(random: Random, now: Now) -> str:
    text = _text(now)
    return text[: random.randrange(len(text) + 1)]


def _garbled(random: Random, now: Now) -> str:
    text = _text(now)
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        at = random.randrange(len(text) + 1)
        end = min(len(text), at + random.choice([0, 0, 1, 1, 2, 8]))
        piece = random.choice(["", text[at:end] * 2, random.choice(_ODD), random.choice(_ODD)])
        text = text[:at] + piece + text[end:]
    return text


def _rewritten(random: Random, now: Now) -> str:
    try:
        whole = json.loads(_text(now))
    except ValueError:
        whole = {}
    if not isinstance(whole, dict) or random.random() < 0.05:
        return json.dumps(random.choice(_VALUES))
    for _ in range(random.choice([1, 1, 2])):
        part: dict[str, Any] = whole
        while random.random() < 0.4:
            deeper = [one for one in part.values() if isinstance(one, dict) and one]
            if not deeper:
                break
            part = random.choice(deeper)
        key = random.choice([*part, *part, *_KEYS]) if part else random.choice(_KEYS)
        if key in part and random.random() < 0.3:
            del part[key]
        else:
            part[key] = deepcopy(random.choice(_VALUES))
    text = json.dumps(whole, indent=random.choice([None, None, 1]), ensure_ascii=False)
    if random.random() < 0.1:  # a key twice
        text = text.rstrip("}\n ") + "," + json.dumps({random.choice(_KEYS): "none"})[1:]
    return text


def _checksum(random: Random, now: Now) -> str:
    found = list(re.finditer(r'hecksum":([0-9]+)', _text(now)))
    if not found:
        return ""
    place = random.choice(found)
    number = random.choice(
        ["0", "1", f"{random.getrandbits(32)}", f"{1 << 64}", "-1", '"1"', "1.0"]
    )
    return _text(now)[: place.start(1)] + number + _text(now)[place.end(1) :]


def _policy(random: Random, now: Now) -> str:
    name = random.choice(["none", "static", "", "Static", "other", 'a"b', "\u00e9\n"])
    return now.written(replace(now.content(), policy_name=name))


def _release(random: Random, now: Now) -> str:
    release = random.choice(_RELEASES)
    gates = {gate: True for gate in _GATES if random.random() < 0.5}
    content = now.content()
    if not has(release, Behaviour.KEYED_BY_POD):
        ids = dict(now.ids)
        if random.random() < 0.2:
            ids = {key: text for key, text in ids.items() if random.random() < 0.7}
        by_id = {
            ids.get((uid, name), f"{uid[:8]}/{name}"): cpus
            for uid, named in content.entries.items()
            for name, cpus in named.items()
        }
        content = Checkpoint(now.policy, content.default_cpuset, {"": by_id} if by_id else {})
    if random.random() < 0.15:
        content = _with_other_cpus(random, content)
    return content.dumps(release=release, feature_gates=gates)


def _cpus(random: Random, now: Now) -> str:
    content = now.content()
    for _ in range(random.choice([1, 1, 2])):
        content = _with_other_cpus(random, content)
    return now.written(content)


def _with_other_cpus(random: Random, content: Checkpoint) -> Checkpoint:
    default = content.default_cpuset
    one = CPUSet([random.choice([*default, 0])])
    strange = CPUSet([max(default, default=0) + random.choice([1, 2, 60])])
    held = [(uid, name) for uid, named in content.entries.items() for name in named]
    if not held or random.random() < 0.4:
        other = random.choice([default - one, default | strange, CPUSet(), default - one | strange])
        return replace(content, default_cpuset=other)
    uid, name = random.choice(held)
    cpus = content.entries[uid][name]
    other = random.choice([cpus | one, cpus | strange, CPUSet(), CPUSet([*cpus][1:]), one])
    default -= random.choice([other, CPUSet()])
    named = {**content.entries[uid], name: other}
    pods = dict(content.pod_entries)
    if uid in pods and random.random() < 0.5:
        pods[uid] = random.choice([other, CPUSet(), pods[uid] | one])
    return replace(
        content, default_cpuset=default, entries={**content.entries, uid: named}, pod_entries=pods
    )


def _unknown(random: Random, now: Now) -> str:
    content = now.content()
    entries = {uid: dict(named) for uid, named in content.entries.items()}
    pods = dict(content.pod_entries)
    default = content.default_cpuset
    for number in range(random.choice([1, 1, 2, 3])):
        uid = random.choice([f"stranger{number}", *entries, *(uid for uid, _ in now.ids)])
        free = [*default]
        cpus = CPUSet(random.sample(free, min(len(free), random.choice([1, 2, 4]))))
        default -= random.choice([cpus, cpus, cpus, CPUSet()])
        entries.setdefault(uid, {})[random.choice(["c0", "c1", "x"])] = cpus
        if random.random() < 0.2:
            pods[uid] = cpus | pods.get(uid, CPUSet())
    return now.written(replace(content, default_cpuset=default, entries=entries, pod_entries=pods))


def _text(now: Now) -> str:
    return now.written(now.content()) if now.text is None else now.text


_MAKERS: Final[Mapping[Change, Callable[[Random, Now], str]]] = {
    Change.CUT_OFF: _cut_off,
    Change.GARBLED: _garbled,
    Change.REWRITTEN: _rewritten,
    Change.CHECKSUM: _checksum,
    Change.POLICY: _policy,
    Change.RELEASE: _release,
    Change.CPUS: _cpus,
    Change.UNKNOWN: _unknown,
}
