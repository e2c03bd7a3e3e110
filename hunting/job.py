"""A campaign on a cluster: the manifest of an Indexed Job, one shard for each of its indexes.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
"""

from __future__ import annotations

import shlex
from typing import Any

from hunting.campaign import FILE


def job(
    shards: int, image: str, options: list[str], *, name: str = "pinproof-hunt", claim: str = ""
) -> dict[str, Any]:
    """The Job as an object of the API. The image has ``pinproof`` on its path. Each shard writes
    to a folder of its own under ``/hunt``: of the volume claim ``claim``, or else of a volume that
    goes with its pod, and its finds stay in its log alone. A pod that replaces a failed one goes on
    with what that one kept there. A pod with a find succeeds."""
    hunt = shlex.join(["pinproof", "hunt", *options])
    # A kubelet replaces $(NAME) in a command, and leaves $((...)) to the shell.
    steps = (
        "shard=$((JOB_COMPLETION_INDEX + 1))",
        f"if test -e $shard/{FILE}; then keep=--resume; else keep=--report; fi",
        f"{hunt} --shard $shard/{shards} $keep $shard",
        "test $? -le 1",
    )
    volume: dict[str, Any] = {"name": "hunt"}
    if claim:
        volume["persistentVolumeClaim"] = {"claimName": claim}
    else:
        volume["emptyDir"] = {}
    container = {
        "name": "hunt",
        "image": image,
        "command": ["sh", "-c", "; ".join(steps)],
        "workingDir": "/hunt",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        "volumeMounts": [{"name": "hunt", "mountPath": "/hunt"}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": shards,
            "parallelism": shards,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 2,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
            },
        },
    }
