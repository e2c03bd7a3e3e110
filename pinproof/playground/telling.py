"""What the page shows of a scene, as plain values.

What belongs here: words, tables and the picture. What never does: what a step does (``scene``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pinproof.answer_facts import asked_text, cpus_text, facts, hang_text, in_short, kubelets_words
from pinproof.picture import Picture
from pinproof.playground.scene import Scene
from pinproof.simulation import WAY_OUT, Answer
from reference.kubelet.reasons import Rule
from reports.text import few
from topologies.errors import one_line

_MOST_CHANGES: Final = 8


@dataclass(frozen=True, slots=True)
class Row:
    """A container, or a pod that the kubelet rejects: ``container`` is then empty, and ``words``
    are the kubelet's."""

    pod: str
    container: str
    asks: str
    cpus: str
    how: str
    words: str
    rule: str
    statement: str
    source: str

    def __str__(self) -> str:
        if self.words:
            return f"{self.pod}: rejected: {self.words}"
        return f"{self.pod}/{self.container}: {self.cpus} ({self.how})"


def shown(scene: Scene) -> dict[str, Any]:
    found = scene.answer()
    rows = list(_rows(found)) if found.view.running else list(_rows_of_down(scene))
    picture = Picture.of(scene.machine, found.topology, found.held, scene.release)
    return {
        "head": f"kubelet {scene.release} with {scene.config}",
        "kubelet": kubelet_text(scene),
        "recover": WAY_OUT if found.view.error and found.view.state_file is not None else "",
        "notes": list(scene.notes),
        "reserved": str(found.held.get("reserved", "")),
        "rows": [asdict(row) for row in rows],
        "pods": [pod.name for pod in scene.pods],
        "machine": picture.title,
        "svg": replace(picture, title="").svg(),
        "state": found.view.state_file,
        "answer": facts(found),
    }


def kubelet_text(scene: Scene) -> str:
    """Whether the kubelet runs, and its own error where it gave up."""
    view = scene.node.view()
    if view.hangs:
        found = scene.answer()
        return hang_text(found) if found.hangs_over else one_line(f"it hangs: {view.hangs}", 1000)
    if view.running:
        return "it runs"
    if view.error:
        return one_line(f"it gave up with exit status {view.exit_status}: {view.error}", 1000)
    return "it is down; containers run on"


def shown_step(before: Sequence[Scene], scene: Scene) -> dict[str, Any]:
    """The model's steps of the last step, and what it changed after the scenes ``before``."""
    does = [one_line(step.sentence, 1000) for step in scene.taken]
    return {"does": does, "came": list(_changes(before, scene))}


def _changes(before: Sequence[Scene], scene: Scene) -> Iterator[str]:
    """What differs from the last scene in which the kubelet ran."""
    if not before or kubelet_text(before[-1]) != kubelet_text(scene):
        yield f"the kubelet: {kubelet_text(scene)}"
    if not scene.node.view().running:
        return
    last = next((one for one in reversed(before) if one.node.view().running), None)
    old = {str(row) for row in _rows(last.answer())} if last else set()
    gone = [pod.name for pod in last.pods if pod not in scene.pods] if last else []
    if gone:
        yield f"gone: {few(gone)}"
    new = [text for row in _rows(scene.answer()) if (text := str(row)) not in old]
    yield from new[:_MOST_CHANGES]
    if new[_MOST_CHANGES:]:
        yield f"and {len(new) - _MOST_CHANGES} more"


def _rows_of_down(scene: Scene) -> Iterator[Row]:
    """The rows while the kubelet is down: containers run on, with the cpusets that they have."""
    cpusets = scene.node.view().cpusets
    for pod in scene.pods:
        for container in pod.containers:
            if container.name in cpusets.get(pod.name, {}):
                cpus = cpusets[pod.name][container.name]
                how = "it runs on while the kubelet is down"
                asks = asked_text(container)
                yield Row(pod.name, container.name, asks, str(cpus or "any"), how, "", "", "", "")


def _rows(found: Answer) -> Iterator[Row]:
    for pod, of_pod in found.by_pod():
        if found.refused(pod):
            reason, words = of_pod[0].reason, kubelets_words(found, pod)
            asks = " + ".join(map(asked_text, pod.containers))
            yield Row(pod.name, "", asks, "", reason.text, words, *_source(reason.rule))
            continue
        for one, container in zip(of_pod, pod.containers, strict=True):
            cpus, source = cpus_text(one), _source(one.reason.rule)
            asks = asked_text(container)
            yield Row(pod.name, container.name, asks, cpus, in_short(one), "", *source)


def _source(rule: Rule) -> tuple[str, str, str]:
    return rule.title, rule.statement, rule.url
