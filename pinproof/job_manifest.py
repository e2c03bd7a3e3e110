"""Indexed Jobs of Kubernetes: one shard of a run or of a campaign for each index.

What belongs here: the objects, and the script of their pods. What never does: options
(:mod:`pinproof.job`).

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from conformance.verdict import ExitStatus
from pinproof.image.contents import HOME, USER

#: How many pods may fail for an index before the Job gives up on it.
_RETRIES: Final = 2
#: Seconds that a deleted pod has. It has nothing to finish: each find is in its file at once.
_GRACE: Final = 5


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Job runs: its name, its namespace (``""``: the client's), the image, with
    ``pinproof`` on its path, how many shards there are and how many of them run at once (0: all),
    and a volume claim that keeps what the shards write."""

    name: str
    image: str
    shards: int
    at_once: int = 0
    namespace: str = ""
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """What each pod does. ``words``: the command, without its shard; ``stream``: the file that it
    writes to the folder of its shard; ``folder``: words of a shell that name this folder;
    ``ended``: exit statuses with which a shard is done; ``is_root``: a kubelet's sandbox is made,
    for which a container of the restricted Pod Security Standard has no rights."""

    words: Sequence[str]
    stream: str
    folder: str
    ended: Iterable[ExitStatus]
    is_root: bool = False


def job(place: Place, task: Task) -> dict[str, Any]:
    """The Job as an object of the API. Index 0 does shard 1. The log of a pod that succeeded is the
    stream of its shard. A pod that replaces a failed one goes on with what that one kept in the
    claim. A wrong option is not tried again, and a pod that its node evicts is not counted."""
    container = {
        "name": "pinproof",
        "image": place.image,
        "command": ["sh", "-c", script(place.shards, task)],
        "workingDir": HOME,
        "resources": {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "volumeMounts": [{"name": "work", "mountPath": HOME}],
        "securityContext": {"privileged": True} if task.is_root else _RESTRICTED,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(place, place.name),
        "spec": {
            "completions": place.shards,
            "parallelism": min(place.at_once or place.shards, place.shards),
            "completionMode": "Indexed",
            "backoffLimitPerIndex": _RETRIES,
            "podFailurePolicy": {"rules": [EVICTED, _WRONG_USAGE]},
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    "terminationGracePeriodSeconds": _GRACE,
                    "securityContext": {"runAsUser": 0} if task.is_root else _USER,
                    "containers": [container],
                    "volumes": [volume(place)],
                }
            },
        },
    }


def metadata(place: Place, name: str) -> dict[str, Any]:
    """The metadata of an object of this name."""
    return {"name": name, **({"namespace": place.namespace} if place.namespace else {})}


def volume(place: Place) -> dict[str, Any]:
    """The volume at a container's home: the claim, or one that is removed with the pod."""
    kept = {"persistentVolumeClaim": {"claimName": place.claim}}
    return {"name": "work", **(kept if place.claim else {"emptyDir": {}})}


def script(shards: int, task: Task) -> str:
    """What a pod's shell runs. It prints its log only where the shard is not done."""
    # A kubelet replaces $(NAME) in a command, and leaves $((...)) to the shell.
    statuses = "|".join(str(int(one)) for one in task.ended)
    return f"""\
shard=$((JOB_COMPLETION_INDEX + 1))
mkdir -p $shard
{shlex.join(task.words)} --shard $shard/{shards} {task.folder} >>$shard/log 2>&1
status=$?
case $status in
{statuses}) test -s $shard/{task.stream} && exec cat $shard/{task.stream} ;;
esac
cat $shard/log
exit $((status > 1 ? status : {int(ExitStatus.COULD_NOT_TELL)}))
"""


#: What the restricted Pod Security Standard requires of a pod and of a container.
_USER: Final = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_RESTRICTED: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

#: A pod that its node evicts is not counted as a failure.
EVICTED: Final = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
_WRONG_USAGE: Final = {
    "action": "FailIndex",
    "onExitCodes": {"operator": "In", "values": [int(ExitStatus.USAGE)]},
}
