"""State files under other uids: a pod that came through an API server has a uid that the server
gave it, and the model knows it by the one it was stated with. Pure.

Entries are in the order of uids and under a checksum, so replacing text alone would not do.
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
#: What decides the form of a state file, beside its release.
_GATES: Final = ("PodLevelResourceManagers", "InPlacePodVerticalScalingExclusiveCPUs")


def renamed(
    text: str,
    uids: Mapping[str, str],
    *,
    release: AnyRelease,
    also: Iterable[AnyRelease] = (),
    feature_gates: Mapping[str, bool] | None = None,
) -> str:
    """``text`` with every uid that ``uids`` has as a key turned into its value.

    A file that is just as ``release`` writes it, or one of those of ``also``, comes out as that
    release would have written it. Any other (torn, of another release, with a wrong checksum) keeps
    all its bytes but the uids.
    """
    if not any(uid in text for uid in uids):
        return text
    for one, gates in product((release, *also), _gates(feature_gates or {})):
        found = _read(text, one, gates)
        if found is not None:
            return _renamed(found, uids).dumps(release=one, feature_gates=gates)
    known = re.compile("|".join(map(re.escape, uids)))
    return known.sub(lambda uid: uids[uid[0]], text)


def _gates(configured: Mapping[str, bool]) -> Iterator[Mapping[str, bool]]:
    """As configured; and the other ways, because a file outlives the kubelet that wrote it."""
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
