"""Every known defect with the facts of when it shows, as JSON: docs/tables/defects.json.

    python -m hunting.advising.atlas > docs/tables/defects.json

What belongs here: measuring, on the node of each defect (``known``), what changes when one thing
about this node changes. What never does: a fact that is written by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from hunting.advising.deciding import Shown, shown
from hunting.advising.known import Case, mended_in, text_of, with_texts
from hunting.defects import Defect
from hunting.replaying import spans
from hunting.scope import TOPOLOGY_POLICIES, Task
from hunting.walk import Tally
from reference import DiscoveryError, NotModelled
from reference.steps import KubeletConfig

#: One of each kind: small, with several NUMA nodes, caches, uneven, with neighbouring threads.
MACHINES: Final = (
    "1s-1n-4c-smt1", "1s-1n-4c-smt2", "2s-2n-8c-smt2", "2s-4n-16c-smt2", "2s-2n-16c-smt2-l3x4",
    "1s-1n-4c-smt2-off7", "1s-1n-4c-smt2-near",
)  # fmt: skip


def atlas() -> list[dict[str, Any]]:
    """Every known defect, in the order of :data:`hunting.defects.DEFECTS`.

    The site makes one page of each entry, and asks ``facts`` whether a node is hit. An entry has
    ``issue``, ``title``, ``url``, ``story`` and ``avoid`` (texts), ``mended`` (releases that mend
    it first), ``scenario`` (an id, or ``""``) and either ``not_shown`` (what shows it, since no
    story does) or ``facts``:

    - ``machine``, ``settings``, ``release``, ``if``: the node that shows it, and what happens there
      (``if`` completes a sentence that begins with "if").
    - ``steps``, ``expected``, ``seen``: the shortest history there, and how it ends.
    - ``releases``: the minors whose models do the same by the same steps; ``span``: in words.
    - ``needs``: settings of that node without which it does not show there.
    - ``topology_policies``: with which Topology Manager policies it shows there.
    - ``machines``: of :data:`MACHINES`, with the same settings: whether it shows.

    Each fact is measured with all else as on that node, so two facts together are no proof:
    ``pinproof advise`` decides for a whole node. It takes minutes; the site reads the file.
    """
    return [_entry(one) for one in with_texts()]


def _entry(defect: Defect) -> dict[str, Any]:
    text = text_of(defect)
    entry: dict[str, Any] = {
        "issue": defect.number,
        "title": defect.title,
        "url": defect.url,
        "story": text.story,
        "avoid": text.avoid,
        "mended": list(mended_in(defect)),
        "scenario": text.scenario,
    }
    if isinstance(text.shown, str):
        return entry | {"not_shown": text.shown}
    return entry | {"facts": _facts(text.shown, defect.title)}


def _facts(case: Case, title: str) -> dict[str, Any]:
    one = next((each for each in _shown(case, case.task) if each.key == title), None)
    if one is None:
        raise LookupError(f"{title}: its node does not show it")
    config, difference = case.task.config, one.broken.violation.difference

    def shows(**changed: Any) -> bool:
        return any(each.key == title for each in _shown(case, replace(case.task, **changed)))

    return {
        "release": case.task.release,
        "machine": case.task.machine,
        "settings": str(config),
        "if": case.happens,
        "steps": [step.sentence for step in one.broken.steps],
        "expected": difference.expected,
        "seen": difference.seen,
        "releases": one.releases,
        "span": spans(one.releases),
        "needs": [name for name, without in _without(config) if not shows(config=without)],
        "topology_policies": [
            policy
            for policy in TOPOLOGY_POLICIES
            if shows(config=replace(config, topology_manager_policy=policy))
        ],
        "machines": {name: shows(machine=name) for name in MACHINES},
    }


def _shown(case: Case, task: Task) -> list[Shown]:
    """What the story breaks; nothing where the model does not know the node."""
    try:
        return shown(task, case.story, Tally())
    except (DiscoveryError, NotModelled):
        return []


def _without(config: KubeletConfig) -> Iterator[tuple[str, KubeletConfig]]:
    """Each option and feature gate that the configuration has, with the configuration without it.
    A gate that only opens options stays as long as they do."""
    for name in config.policy_options:
        left = {key: one for key, one in config.policy_options.items() if key != name}
        yield name, replace(config, policy_options=left)
    for name in config.feature_gates:
        if not name.startswith("CPUManagerPolicy"):
            gates = {key: one for key, one in config.feature_gates.items() if key != name}
            yield name, replace(config, feature_gates=gates)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(atlas(), indent=1) + "\n")
