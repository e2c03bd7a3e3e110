"""State files with other uids: an API server gives a pod a new uid, and the model knows the pod by
the uid that the scenario gave it. Pure.

Entries are in the order of uids and under a checksum, so replacing the text is not enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Final, TypeVar

from reference.cpumanager.state.state_checkpoint import Checkpoint
from reference.errors import CheckpointError, NotModelled
from reference.releases import AnyRelease

_V = TypeVar("_V")
_POLICIES: Final = ("static", "none")
#: Gates that decide the form of a state file, beside its release.
_GATES: Final = ("PodLevelResourceManagers", "InPlacePodVerticalScalingExclusiveCPUs")


def renamed(
    text: str,
    uids: Mapping[str, str],
    *,
    release: AnyRelease,
    also: Iterable[AnyRelease] = (),
    feature_gates: Mapping[str, bool] | None = None,
) -> str:
    """``text`` with every uid that is a key of ``uids`` replaced by its value.

    A file that is exactly as ``release`` or a release of ``also`` writes it comes out as that
    release would write it. Any other (cut off, of another release, with a wrong checksum) keeps all
    bytes but the uids.
    """
    if not any(uid in text for uid in uids):
        return text
    for candidate, gates in product((release, *also), _gates(feature_gates or {})):
        checkpoint = _read(text, candidate, gates)
        if checkpoint is not None:
            return _renamed(checkpoint, uids).dumps(release=candidate, feature_gates=gates)
    known = re.compile("|".join(map(re.escape, uids)))
    return known.sub(lambda uid: uids[uid[0]], text)


def _gates(configured: Mapping[str, bool]) -> Iterator[Mapping[str, bool]]:
    """The configured gates, then all others: another kubelet may have written the file."""
    yield configured
    for values in product((False, True), repeat=len(_GATES)):
        yield {**configured, **dict(zip(_GATES, values, strict=True))}


def _renamed(found: Checkpoint, uids: Mapping[str, str]) -> Checkpoint:
    return replace(
        found,
        entries=_by_other(found.entries, uids),
        pod_entries=_by_other(found.pod_entries, uids),
        baselines=_by_other(found.baselines, uids),
    )


def _read(text: str, release: AnyRelease, gates: Mapping[str, bool]) -> Checkpoint | None:
    for policy in _POLICIES:
        try:
            found = Checkpoint.loads(text, policy=policy, release=release, feature_gates=gates)
            if found.dumps(release=release, feature_gates=gates) == text:
                return found
        except (CheckpointError, NotModelled):
            continue
    return None


def _by_other(entries: Mapping[str, _V], uids: Mapping[str, str]) -> dict[str, _V]:
    return {uids.get(uid, uid): value for uid, value in entries.items()}
