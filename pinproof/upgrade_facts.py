"""The outcome of a rehearsed upgrade, for programs (``pinproof upgrade --json``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from conformance.upgrading import Broken, Leg, Plan, Rehearsed, Stage
from conformance.verdict import ExitStatus, Verdict
from pinproof.output import difference_facts
from pinproof.upgrade_text import kubelet_state

_VERDICTS: Final = {
    ExitStatus.CONFORMANT: Verdict.PASS,
    ExitStatus.NOT_CONFORMANT: Verdict.FAIL,
    ExitStatus.COULD_NOT_TELL: Verdict.UNKNOWN,
}


def facts(
    found: Rehearsed,
    plan: Plan,
    notes: Sequence[str],
    replay: str,
    killed: Sequence[tuple[str, Rehearsed]] = (),
) -> Mapping[str, Any]:
    """The outcome as JSON has it. ``killed``: where TO was killed, and the rehearsal with that."""
    return {
        "machine": plan.machine.name,
        "settings": str(plan.config),
        "verdict": _VERDICTS[found.status].value,
        "pinned": found.pinned,
        "unlike the state file": difference_facts(found.unlike_file),
        "notes": [*notes],
        "stages": [_stage_facts(one) for one in found.stages],
        "broken": [_broken_facts(one) for one in found.broken],
        "killed": [
            {
                "where": point,
                "verdict": _VERDICTS[one.status].value,
                "broken": [_broken_facts(each) for each in one.broken],
            }
            for point, one in killed
        ],
        "ended": [name for turn in found.turns if turn.leg is Leg.THERE for name in turn.ended],
        "turns": [
            {
                "kubelet": turn.kubelet.name,
                "leg": turn.leg.value,
                "ended": turn.ended,
                "refusal": turn.refusal,
                "starts without the state file": turn.recovered,
                "hold other CPUs then": list(turn.moved),
            }
            for turn in found.turns
        ],
        "broken if drained": None if found.drained is None else list(map(str, found.drained)),
        "not rehearsed": list(found.unrehearsed),
        "replay": replay,
    }


def _broken_facts(one: Broken) -> Mapping[str, Any]:
    return {
        "step": one.step,
        "leg": one.leg.value,
        "kubelet": one.kubelet.name,
        "rule": one.rule,
        "source": one.witness,
        "differences": difference_facts(one.differences),
    }


def _stage_facts(stage: Stage) -> Mapping[str, Any]:
    view = stage.view
    return {
        "title": stage.title,
        "leg": stage.leg.value if stage.leg else None,
        "machine": stage.machine.name,
        "settings": str(stage.config),
        "kubelet": {
            "name": stage.kubelet.name,
            "release": stage.kubelet.release,
            "version": stage.kubelet.version,
            "digest": stage.kubelet.digest,
            "state": kubelet_state(stage),
            "error": view.error,
        },
        "pods": {name: pod.phase.value for name, pod in view.pods.items()},
        "exclusive": {
            pod: {name: str(cpus) for name, cpus in held.items()}
            for pod, held in view.assignments.items()
        },
        "shared pool": str(view.shared_pool),
        "restarted": [f"{pod}/{container}" for pod, container in stage.restarted],
        "files": {
            name: {"found": kept.found, "after the start": kept.started, "left": kept.left}
            for name, kept in stage.files.items()
        },
        "state file": view.state_file,
    }
