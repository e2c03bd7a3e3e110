"""A lab node for real: QEMU, Debian's kernel, containerd, a real kubelet. Minutes under emulation,
so only where ``PINPROOF_LAB`` asks for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.access import connected
from hil.access import nodes as read_inventory
from hil.lab import Node, State, Wish, all_nodes, down, named, reboot, up
from hil.lab.kubelet import MANIFESTS, STATE
from hil.lab.recipe import WORKLOAD_IMAGE
from hil.shell import Shell

pytestmark = pytest.mark.skipif(
    not os.environ.get("PINPROOF_LAB"),
    reason="NO LAB NODE IS BOOTED, so this is NOT TESTED: set PINPROOF_LAB=1 (takes minutes)",
)

SMALL = "1s-1n-4c-smt1"
LARGER = "1s-1n-6c-smt1"
NAME = "test-real"
UID = "0d2c7a3e-3c43-4b8e-9f38-0d6a3b2f1c55"

#: Waits until the pod's container runs, and tells what its cgroup says.
POD = f"""
cat >{MANIFESTS}/.pod <<'EOF'
{{"apiVersion": "v1", "kind": "Pod",
 "metadata": {{"name": "pinned", "namespace": "default", "uid": "{UID}"}},
 "spec": {{"hostNetwork": true, "containers": [{{"name": "c", "image": "{WORKLOAD_IMAGE}",
  "imagePullPolicy": "Never", "command": ["/bin/pause", "{UID}"],
  "resources": {{"limits": {{"cpu": "2", "memory": "64Mi"}}}}}}]}}}}
