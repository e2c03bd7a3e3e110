"""A campaign on a cluster: the manifest of an Indexed Job, one shard for each of its indexes.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
"""

from __future__ import annotations

from typing import Any


def job(
    shards: int, image: str, options: list[str], *, name: str = "pinproof-hunt", claim: str = ""
) -> dict[str, Any]:
    """The Job as an object of the API. The image has ``pinproof`` on its path. Each shard writes
    to a folder of its own under ``/hunt``: of the volume claim ``claim``, or else of a volume that
    goes with its pod, and its finds stay in its log alone."""
    shard = "$((JOB_COMPLETION_INDEX + 1))"
    command = " ".join(["pinproof hunt", *options, f"--shard {shard}/{shards}"])
    keeps = f"{command} --output /hunt/{shard}; test $? -le 1"
    volume: dict[str, Any] = {"name": "hunt"}
    if claim:
        volume["persistentVolumeClaim"] = {"claimName": claim}
    else:
        volume["emptyDir"] = {}
    container = {
        "name": "hunt",
        "image": image,
        "command": ["sh", "-c", keeps],
        "resources": {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {"memory": "2Gi"},
        },
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
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [container],
                    "volumes": [volume],
                }
            },
        },
    }
