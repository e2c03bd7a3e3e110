"""Jobs of Kubernetes by which nodes certify themselves: one Job, and one pod, for each node.

What belongs here: the objects. What never does: options (:mod:`pinproof.job`), and how a pod gets
to its node (:mod:`hil.transport.host`).

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from conformance.verdict import ExitStatus
from hil.transport.inventory import HOST
from pinproof.image.contents import HOME
from pinproof.job_manifest import EVICTED, Place, metadata, volume

#: The label of a lane. At most one pod of a lane is on a node at a time.
_LANE: Final = "pinproof-lane"
#: Every node of Linux has this label with one value, so it makes them one topology domain.
_EVERYWHERE: Final = "kubernetes.io/os"
#: How many characters the name of a node has in an inventory.
LONGEST: Final = 63
#: Seconds that a pod has to restore its node.
_GRACE: Final = 120
#: How many pods follow one that failed, once the lease of that one has run out.
_RETRIES: Final = 2


@dataclass(frozen=True, slots=True)
class Certified:
    """Which nodes are certified, how many at a time, and how: ``words`` are options of ``pinproof
    certify``, ``allow`` is that of an inventory."""

    nodes: Sequence[str]
    max_unavailable: int
    words: Sequence[str]
    allow: Sequence[str] = ()


def jobs(place: Place, wish: Certified) -> dict[str, Any]:
    """A List of Jobs. A pod is on the node that its Job is for, whatever taints that node has.
    There are as many lanes as nodes that may be unavailable. The scheduler starts a pod only where
    no other pod of its lane runs."""
    items = [_job(place, wish, number) for number in range(len(wish.nodes))]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _job(place: Place, wish: Certified, number: int) -> dict[str, Any]:
    node = wish.nodes[number]
    lane = {_LANE: f"{place.name}-{number % wish.max_unavailable}"}
    name = f"{place.name}-{number}"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **metadata(place, name),
            "labels": {"app.kubernetes.io/part-of": place.name},
            "annotations": {"pinproof/node": node},
        },
        "spec": {
            "backoffLimit": _RETRIES,
            "podFailurePolicy": {"rules": [EVICTED, _NOT_AGAIN]},
            "template": {
                "metadata": {"labels": {**lane, "app.kubernetes.io/part-of": place.name}},
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    "hostPID": True,
                    "terminationGracePeriodSeconds": _GRACE,
                    "tolerations": [{"operator": "Exists"}],
                    "affinity": _affinity(node, lane),
                    "containers": [_container(place, wish, node)],
                    "volumes": [volume(place)],
                },
            },
        },
    }


def _affinity(node: str, lane: dict[str, str]) -> dict[str, Any]:
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    others = {"labelSelector": {"matchLabels": lane}, "topologyKey": _EVERYWHERE}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        "nodeAffinity": {required: {"nodeSelectorTerms": [only]}},
        "podAntiAffinity": {required: [others]},
    }


def _container(place: Place, wish: Certified, node: str) -> dict[str, Any]:
    return {
        "name": "pinproof",
        "image": place.image,
        "command": ["sh", "-c", script(node, wish)],
        "workingDir": HOME,
        "volumeMounts": [{"name": "work", "mountPath": HOME}],
        "securityContext": {"privileged": True, "runAsUser": 0},
    }


def script(node: str, wish: Certified) -> str:
    """What a pod's shell runs. When the pod is deleted, pinproof restores the node. A verdict on
    the node (0, 1) and too few scenarios (4) are results: the log is then the stream of the node's
    scenarios.

    A signal ends ``wait``. The next ``wait`` returns the exit status of pinproof, or 127 where the
    one before has returned it.
    """
    allowed = ", ".join(f'"{one}"' for one in wish.allow)
    name = node[:LONGEST]
    command = shlex.join(["pinproof", "certify", f"{name}.toml", *wish.words, "--report", "."])
    return f"""\
cat >{name}.toml <<END
[[node]]
name = "{name}"
url = "{HOST}"
allow = [{allowed}]
END
{command} >>{name}.log 2>&1 &
run=$!
trap 'kill $run; again=1' TERM
wait $run
status=$?
while test "$again"; do again=; wait $run; now=$?; test $now = 127 || status=$now; done
case $status in
0|1|4) test -s {name}/result.jsonl && exec cat {name}/result.jsonl ;;
esac
cat {name}.log
exit $((status > 1 ? status : {int(ExitStatus.COULD_NOT_TELL)}))
"""


#: Another pod would fail on a wrong option again. A node that was not restored needs a person.
_NOT_AGAIN: Final = {
    "action": "FailJob",
    "onExitCodes": {
        "operator": "In",
        "values": sorted({int(ExitStatus.USAGE), int(ExitStatus.NOT_RESTORED)}),
    },
}
