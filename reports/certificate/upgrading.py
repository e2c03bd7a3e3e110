"""What follows from the stages of an upgrade that was made on a node."""

from __future__ import annotations

from collections.abc import Sequence

from reports.certificate.document import (
    BrokenPromise,
    Kubelet,
    Upgrade,
    UpgradeOutcome,
    UpgradeStage,
)
from reports.text import few, many


def upgrade_of(
    named: str,
    kubelet: Kubelet | None = None,
    stages: Sequence[UpgradeStage] = (),
    broken: Sequence[BrokenPromise] = (),
    *,
    reason: str = "",
    restored: bool = True,
) -> Upgrade:
    """An upgrade with the outcome and the words that follow."""
    outcome = _outcome(stages, broken, reason)
    return Upgrade(
        named=named,
        outcome=outcome,
        words=_words(named, outcome, kubelet, stages, broken, reason),
        kubelet=kubelet,
        stages=list(stages),
        broken=list(broken),
        reason=reason,
        restored=restored,
    )


def contradiction(upgrade: Upgrade) -> str:
    """In what an upgrade contradicts its own stages; ``""``: in nothing."""
    again = upgrade_of(
        upgrade.named,
        upgrade.kubelet,
        upgrade.stages,
        upgrade.broken,
        reason=upgrade.reason,
        restored=upgrade.restored,
    )
    if again.outcome != upgrade.outcome:
        return f"its upgrade is {upgrade.outcome}; {again.outcome} follows from its stages"
    if again.words != upgrade.words:
        return "the text of its upgrade is not that of its outcome"
    if upgrade.outcome == "kept" and (lost := _lost(upgrade.stages)):
        return f"its upgrade is kept, and {lost}"
    return ""


def _outcome(
    stages: Sequence[UpgradeStage], broken: Sequence[BrokenPromise], reason: str
) -> UpgradeOutcome:
    if reason or not stages or not stages[0].exclusive:
        return "unknown"
    return "broken" if broken else "kept"


def _lost(stages: Sequence[UpgradeStage]) -> str:
    """Which container did not keep its CPUs or was started again, or which kubelet did not run."""
    held: dict[str, str] = {}
    for stage in stages:
        if not stage.runs:
            return f"kubelet {stage.kubelet} did not run"
        for container, cpus in held.items():
            if stage.exclusive.get(container) != cpus:
                return f"{container} did not keep its CPUs {cpus}"
        if stage.restarted:
            return f"{stage.restarted[0]} was started again"
        held |= stage.exclusive
    return ""


def _words(
    named: str,
    outcome: UpgradeOutcome,
    kubelet: Kubelet | None,
    stages: Sequence[UpgradeStage],
    broken: Sequence[BrokenPromise],
    reason: str,
) -> str:
    to = f"The upgrade of this node to kubelet {kubelet.version if kubelet else named}"
    if outcome == "unknown":
        return f"{to} has no verdict: {reason or 'no container had exclusive CPUs before it'}."
    if outcome == "broken":
        legs = list(dict.fromkeys(one.leg for one in broken))
        rules = list(dict.fromkeys(one.rule for one in broken))
        return f"{to}: a promise is broken on {few(legs, 3)}: {few(rules, 2)}."
    held = many(len(stages[0].exclusive), "container")
    return f"{to}, the way back and the second upgrade: {held} kept exclusive CPUs, and ran on."
