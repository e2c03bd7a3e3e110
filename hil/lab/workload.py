"""The container image of the lab's pods, made of a static busybox: no registry is asked.

One layer: ``/bin/busybox`` with its names as links; ``/bin/pause`` waits for a signal to end,
and is what the image runs by itself (sandboxes too); ``/bin/spin N`` keeps N CPUs busy (default:
one). In the form of ``docker save``, which ``ctr images import`` reads.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from hil.lab.recipe import WORKLOAD_IMAGE, tar

#: Names of busybox that a pod's commands may use.
_NAMES: Final = (
    "awk", "cat", "date", "echo", "env", "false", "grep", "head", "id", "kill", "ls", "mkdir",
    "nproc", "ps", "pwd", "rm", "sed", "seq", "sh", "sleep", "sort", "tail", "taskset", "test",
    "timeout", "top", "touch", "true", "usleep", "wc", "xargs",
)  # fmt: skip

#: The first process of a container gets no signal that it does not handle.
_PAUSE: Final = """\
#!/bin/sh
trap 'exit 0' TERM INT
while :; do
  sleep 3600 &
  wait $!
done
"""

_SPIN: Final = """\
#!/bin/sh
trap 'kill $(jobs -p); exit 0' TERM INT
count=${1:-1}
while [ "$count" -gt 0 ]; do
  ( while :; do :; done ) &
  count=$((count - 1))
done
wait
"""


def workload(busybox: bytes) -> bytes:
    """The archive: the same bytes for the same busybox."""
    layer = tar(
        {
            "bin/busybox": (busybox, 0o755),
            "bin/pause": (_PAUSE.encode(), 0o755),
            "bin/spin": (_SPIN.encode(), 0o755),
            "etc/passwd": (b"root:x:0:0:root:/:/bin/sh\n", 0o644),
            "tmp/.keep": (b"", 0o644),
        },
        {f"bin/{name}": "busybox" for name in _NAMES},
    )
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {"Entrypoint": ["/bin/pause"], "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [digest]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [WORKLOAD_IMAGE], "Layers": ["layer.tar"]}]
    return tar(
        {
            "config.json": (config, 0o644),
            "layer.tar": (layer, 0o644),
            "manifest.json": (json.dumps(manifest).encode(), 0o644),
        },
        {},
    )
