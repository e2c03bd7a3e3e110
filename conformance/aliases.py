"""Former ids of scenarios: each still selects its scenario and that scenario's recordings.

It imports no module of the suite, since the pytest plugin reads it.
"""

from __future__ import annotations

import re
from typing import Final

#: The present id by each old one.
ALIASES: Final = {
    "admission/the-last-cpu-is-given": "admission/all-free-cpus-are-assigned",
    "node/cpu-upgrade-and-the-two-steps-out": "node/cpu-upgrade-and-recovery",
    "node/daemon-reload-moves-nobody": "node/daemon-reload-keeps-cpusets",
    "node/exclusivity-is-lost-in-silence": "node/all-cpus-offline-lose-exclusivity",
    "node/offline-cpu-and-the-two-steps-out": "node/offline-cpu-and-recovery",
    "node/pod-resources-tell-of-the-pool": "node/pod-resources-report-the-shared-pool",
    "node/pod-resources-tell-the-same": "node/pod-resources-report-exclusive-cpus",
    "node/restart-repairs-what-a-hand-changed": "node/restart-repairs-a-cpuset-changed-by-hand",
    "options/full-pcpus-odd-is-rejected": "options/full-pcpus-partial-core-is-rejected",
    "pod-level/empty-resources-count-for-nothing": "pod-level/empty-resources-are-ignored",
    "pod-level/restricted-has-its-own-words": "pod-level/restricted-names-pod-level-resources",
    "pod-level/restricted-spares-it-by-default": "pod-level/restricted-admits-it-by-default",
    "pod-level/whole-cores-judge-the-pod": "pod-level/full-pcpus-applies-to-the-pod",
    "qos/milli-cpus-that-make-whole-ones": "qos/1000m-is-a-whole-cpu",
    "topology/none-refuses-nobody": "topology/none-admits-every-pod",
    "topology/stricter-policy-judges-what-runs": "topology/stricter-policy-applies-to-running-pods",
    "topology/who-asks-for-no-cpus-is-admitted": "topology/pods-without-cpus-are-admitted",
}

_WORD: Final = re.compile(r"[a-z0-9-]+/[a-z0-9-]+")


def present(scenario: str) -> str:
    """The id of a scenario today; an id that is no alias stays."""
    return ALIASES.get(scenario, scenario)


def renamed(expression: str) -> str:
    """A ``-k`` expression with the present id for each old one."""
    return _WORD.sub(lambda word: present(word[0]), expression)
