"""A fleet of real kubelets: until it is up, what it takes, and how fast pods run.

``python -m benchmarks.fleet_nodes`` starts ten nodes of 2s-4n-64c-smt2 and five of 1s-1n-4c-smt2
with ``pinproof fleet up``, creates 40 pinned pods and one that the Topology Manager refuses through
the API server, upgrades a node, and takes the fleet down. The figures are in docs/how-to/fleet.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from pinproof.fleet_fixture import pinproof_fleet

MACHINES: Final = ("2s-4n-64c-smt2=10", "1s-1n-4c-smt2=5")
PODS: Final = 40
#: Seconds for which the idle fleet is measured.
IDLE: Final = 30.0
_PATIENCE: Final = 120.0


def main() -> None:
    fleets: Any = pinproof_fleet.__wrapped__()  # type: ignore[attr-defined]
    began = time.monotonic()
    settings = ("--topology-manager-policy", "single-numa-node", "--release", "1.36")
    with fleets(*MACHINES, *settings) as fleet:
        print(f"{len(fleet.nodes)} nodes are Ready after {time.monotonic() - began:.1f} s")
        api = _client(fleet.kubeconfig)
        time.sleep(5)
        _memory(len(fleet.nodes))
        before, at = _seconds(), time.monotonic()
        time.sleep(IDLE)
        share = (_seconds() - before) / (time.monotonic() - at)
        print(f"idle: {share:.0%} of a core in total")
        _pods(api)
        at = time.monotonic()
        print(fleet.call("upgrade", "node1", "1.37").splitlines()[-1])
        print(f"one node is upgraded in {time.monotonic() - at:.1f} s")
        at = time.monotonic()
    print(f"down in {time.monotonic() - at:.1f} s; left: {len(list(_processes()))} processes")


def _pods(api: Any) -> None:
    one = _created(api, "first", "2")
    _until(lambda: _phase(api, "first") == "Running")
    print(f"one pod is Running {time.monotonic() - one:.1f} s after it was created")
    at = time.monotonic()
    for number in range(PODS):
        _created(api, f"pod{number}", "2")
    # Half of a node of 128 CPUs is more than one of its four NUMA nodes has.
    _created(api, "refused", "64")
    _until(lambda: _phase(api, "refused") == "Failed")
    _until(lambda: all(_phase(api, f"pod{number}") == "Running" for number in range(PODS)))
    print(f"{PODS} pods are Running, one is refused, after {time.monotonic() - at:.1f} s")
    refused = api.read_namespaced_pod("refused", "default").status
    print(f"refused: {refused.reason}: {refused.message}")


def _client(kubeconfig: Path) -> Any:
    from kubernetes import client, config

    load: Any = config.new_client_from_config
    return client.CoreV1Api(load(str(kubeconfig)))


def _created(api: Any, name: str, cpus: str) -> float:
    amounts = {"cpu": cpus, "memory": "64Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    api.create_namespaced_pod("default", body)
    return time.monotonic()


def _phase(api: Any, name: str) -> str:
    return str(api.read_namespaced_pod(name, "default").status.phase)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _processes() -> Iterator[Path]:
    """Of the fleet: this process' descendants."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
        except OSError:
            continue
    for process in parents:
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() != process:
            yield Path("/proc") / str(process)


def _memory(nodes: int) -> None:
    """What is shared counts in parts."""
    kubelets = others = 0
    for process in _processes():
        try:
            lines = (process / "smaps_rollup").read_text().splitlines()
            name = (process / "comm").read_text().strip()
        except OSError:
            continue
        size = next(int(one.split()[1]) for one in lines if one.startswith("Pss:"))
        if name.startswith("kubelet"):
            kubelets += size
        else:
            others += size
    print(f"a node: {kubelets / nodes / 1024:.0f} MiB; all else: {others / 1024:.0f} MiB")


def _seconds() -> float:
    """Of processor time so far, of what runs now."""
    ticks = 0
    for process in _processes():
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
