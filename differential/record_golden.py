"""Record again what real Kubernetes code made of the inputs in ``tests/golden``.

    python -m differential.record_golden discovery --kubelet 1.36
    python -m differential.record_golden allocations --driver 1.37
    python -m differential.record_golden align-by-socket --driver 1.36 --write
    python -m differential.record_golden checkpoints --driver 1.37

Without ``--write`` it compares: it prints each difference and how much is equal, and the exit
status is 1 where something differs. With ``--write`` the file gets what was recorded.

``discovery``: a kubelet (``pinproof build kubelet``; a path or a release from 1.32 on) is started
on each archive in ``tests/golden/captures`` and logs what it found. It ends where ``/proc/cpuinfo``
has no clock speed that it understands, as on other architectures. Such a tree gets a line ``cpu
MHz``, which decides nothing else.

``allocations`` and ``align-by-socket``: the kubelet's own static policy, in a driver (``pinproof
driver build``, 1.22 or later), allocates each row. The policy refuses some requests before its
allocator sees them (:func:`askable`); those rows stay as they are and are counted.

``checkpoints``: the kubelet's own CPU manager, in a driver, is started on each file of
``checkpoints-1.37.json``; whether it can read it, and the error if not, is compared. A driver does
not report what it read, so this file is never written.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import topologies
from conformance.kubelets.settings import settings_of
from conformance.subject import SubjectLostError
from conformance.subjects.exec import drivers, wire
from conformance.subjects.exec.machineinfo import machine_line
from conformance.subjects.exec.program import Program
from conformance.subjects.kubelet import KubeletSubject
from differential.command import parser_of
from differential.detected import Detected, detect
from reference import Cache, Checkpoint, CheckpointError, Core, CPUSet, MachineInfo, NUMANode
from reference.releases import Release
from reference.steps import KubeletConfig
from topologies import Machine, Tree

GOLDEN: Final = Path(__file__).parents[1] / "tests" / "golden"
CAPTURES: Final = GOLDEN / "captures"
DISCOVERY: Final = GOLDEN / "discovery.json"

Row: TypeAlias = dict[str, Any]
#: A CPU's NUMA node, socket, core and uncore cache.
Place: TypeAlias = tuple[int, int, int, int]


@dataclass(slots=True)
class Outcome:
    """What a comparison found: differences in words, how many results are equal, and how many
    could not be asked for."""

    differences: list[str]
    equal: int = 0
    not_asked: int = 0

    def note(self, what: str, recorded: object, said: object) -> None:
        if recorded == said:
            self.equal += 1
        else:
            self.differences.append(f"{what}: recorded {recorded}, now {said}")


# -- discovery -------------------------------------------------------------------------------------


def record_discovery(subject: KubeletSubject, *, write: bool) -> Outcome:
    """Compare what this kubelet finds on each captured machine with ``discovery.json``."""
    known = json.loads(DISCOVERY.read_text(encoding="utf-8"))
    outcome = Outcome([])
    for path in sorted(CAPTURES.glob("*.tar.xz")):
        name = path.name.removesuffix(".tar.xz")
        tree = with_clock_speed(topologies.load(path, check=False))
        try:
            said = discovered(detect(subject, Machine(name, tree), reserved=_a_cpu(known[name])))
        except SubjectLostError as error:
            text = known[name].get("discover_error", "a CPU topology")
            outcome.note(name, text, text if text in str(error) else str(error))
            continue
        outcome.note(name, known[name], said)
        known[name] = said
    if write:
        text = json.dumps(known, sort_keys=True, separators=(",", ":"))
        DISCOVERY.write_text(f"{text}\n", encoding="utf-8")
    return outcome


def _a_cpu(entry: dict[str, Any]) -> CPUSet | None:
    """A CPU that a kubelet has found before: it may not find the first online one."""
    return CPUSet(map(int, list(entry.get("cpu_topology", {}).get("CPUDetails", {}))[:1])) or None


def with_clock_speed(tree: Tree) -> Tree:
    """The tree with a clock speed that an amd64 kubelet understands."""
    cpuinfo = tree["proc/cpuinfo"]
    if "cpu MHz" in cpuinfo:
        return tree
    return Tree({**tree, "proc/cpuinfo": f"{cpuinfo}\ncpu MHz\t\t: 1000.000\n"})


def discovered(said: Detected) -> dict[str, Any]:
    """An entry of ``discovery.json``: cAdvisor's JSON names, where the log has Go's."""
    info = said.machine_info
    return {
        "num_cores": info["NumCores"],
        "num_physical_cores": info["NumPhysicalCores"],
        "num_sockets": info["NumSockets"],
        "topology": [
            {
                "node_id": node["Id"],
                "memory": node["Memory"],
                "caches": _caches(node["Caches"]),
                "distances": node["Distances"] or None,
                "cores": [
                    {
                        "core_id": core["Id"],
                        "socket_id": core["SocketID"],
                        "thread_ids": core["Threads"],
                        "caches": _caches(core["Caches"]),
                        "uncore_caches": _caches(core["UncoreCaches"]),
                    }
                    for core in node["Cores"]
                ],
            }
            for node in info["Topology"]
        ],
        "cpu_topology": said.cpu_topology,
    }


def _caches(caches: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    return [
        {key.lower(): one[key] for key in ("Id", "Level", "Size", "Type")} for one in caches
    ] or None


# -- allocation ------------------------------------------------------------------------------------

#: The policy option of each strategy.
_OPTIONS: Final = {
    "packed": None,
    "spread": "distribute-cpus-across-cores",
    "dist": "distribute-cpus-across-numa",
    "uncore": "prefer-align-cpus-by-uncorecache",
}
#: The first of the recorded releases that has each strategy.
_FIRST: Final = {"packed": 22, "dist": 26, "spread": 32, "uncore": 32}


def record_rows(program: Program, rows: list[Row], machines: Mapping[str, Any]) -> Outcome:
    """Compare what the static policy of this program allocates with the column of its release, and
    put that into the rows."""
    release = Release.parse(program.about.release)
    column = f"v1.{release.minor}"
    outcome = Outcome([])
    for row in rows:
        places = machines[row["topology"]]
        if not askable(row, places, release):
            outcome.not_asked += 1
            continue
        said = take(program, row, places)
        what = " ".join(str(row[key]) for key in ("topology", "strategy", "available", "cpus"))
        outcome.note(what, row.get(column), said)
        row[column] = said
    return outcome


def askable(row: Row, places: Mapping[int, Place], release: Release) -> bool:
    """Whether the static policy calls its allocator for this request. A release may not have the
    strategy yet. Whole cores need ``full-pcpus-only``, which refuses a part of a core and more CPUs
    than there are. ``align-by-socket`` refuses a machine with more sockets than NUMA nodes. A
    request over which a kubelet hangs is not askable either."""
    sockets, nodes = ({place[part] for place in places.values()} for part in (1, 0))
    if row.get("align_by_socket") and len(sockets) > len(nodes):
        return False
    if release.minor < _FIRST[row["strategy"]]:
        return False
    group, count = row.get("group_size", 1), row["cpus"]
    whole = group == 1 or (
        group == len(places) // len({place[2] for place in places.values()})  # a core's threads
        and count % group == 0
        and count <= len(CPUSet.parse(row["available"]))
    )
    return whole and count > 0 and "HANG" not in json.dumps(row)


def take(program: Program, row: Row, places: Mapping[int, Place]) -> str | dict[str, str]:
    """What is allocated: a cpuset, or ``{"error": text}``. Nothing is reserved, and what is not
    available is busy."""
    (answer,) = program.exchange(
        [
            wire.Take(
                machine=machine_line(machine_info(places)),
                config=settings_of(_config(row)),
                reserved="",
                busy=str(CPUSet(places) - CPUSet.parse(row["available"])),
                count=row["cpus"],
                rounds=1,
            )
        ]
    )
    assert isinstance(answer, wire.TakeAnswer)
    if answer.error:
        return {"error": answer.error.removeprefix("take: ")}
    return answer.cpus or ""


def _config(row: Row) -> KubeletConfig:
    names = [_OPTIONS[row["strategy"]]]
    names += ["full-pcpus-only"] * (row.get("group_size", 1) > 1)
    names += ["align-by-socket"] * row.get("align_by_socket", False)
    options = {name: "true" for name in names if name}
    return KubeletConfig(
        policy_options=options,
        feature_gates={"CPUManagerPolicyAlphaOptions": True} if options else {},
    )


def machine_info(places: Mapping[int, Place]) -> MachineInfo:
    """A machine in which the kubelet finds this topology: each core has the uncore cache that its
    CPUs name."""
    threads: dict[tuple[int, int, int, int], list[int]] = {}
    for cpu in sorted(places):
        threads.setdefault(places[cpu], []).append(cpu)
    nodes: dict[int, list[Core]] = {}
    for (numa, socket, core, uncore), cpus in threads.items():
        cache = Cache(uncore, 1 << 20, 3, "Unified")
        nodes.setdefault(numa, []).append(Core(core, socket, tuple(cpus), uncore_caches=(cache,)))
    return MachineInfo(
        num_cores=len(places),
        num_physical_cores=len(threads),
        num_sockets=len({place[1] for place in places.values()}),
        nodes=tuple(NUMANode(node, 1 << 30, tuple(nodes[node])) for node in sorted(nodes)),
    )


def read_rows(path: Path) -> list[Row]:
    """The rows of a file of allocations."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write a file of allocations: the same bytes for the same rows, since it holds no time."""
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read_machines(path: Path) -> dict[str, dict[int, Place]]:
    """Topologies by name, as ``*-topologies.json`` has them."""
    return {
        one["topology"]: {int(cpu): tuple(place) for cpu, place in one["cpus"].items()}
        for one in json.loads(path.read_text(encoding="utf-8"))
    }


# -- state files -----------------------------------------------------------------------------------

_UNREADABLE: Final = re.compile(
    r"could not restore state from checkpoint: (?P<error>.*), please drain this node ", re.DOTALL
)
_EIGHT_CPUS: Final = {cpu: (0, 0, cpu, 0) for cpu in range(8)}


def compare_checkpoints(program: Program, cases: list[Row]) -> Outcome:
    """Compare with what is recorded of this minor: the error with which each file is refused, or
    that it is read."""
    minor = f"1.{Release.parse(program.about.release).minor}."
    outcome = Outcome([])
    for number, case in enumerate(cases):
        recorded = [one for release, one in case["outcome"].items() if release.startswith(minor)]
        if not recorded:
            outcome.not_asked += 1
            continue
        expected = None if recorded[0]["ok"] else recorded[0]["error"]
        said = _refusal(program, case, f"node{number}")
        if {expected, said} <= _one_error(case, program.about.release):
            said = expected
        outcome.note(case["name"], expected, said)
    return outcome


def read_by_model(case: Row, release: str) -> Checkpoint:
    """What the model reads in the file of a case. Raises :class:`reference.CheckpointError`."""
    containers = {
        one: (at["pod"], at["container"]) for one, at in case.get("initial_containers", {}).items()
    }
    return Checkpoint.loads(
        case["file"],
        policy=case["policy"],
        release=release,
        feature_gates=case["feature_gates"],
        containers=containers,
    )


def _one_error(case: Row, release: str) -> set[str | None]:
    """The texts of one error: its words depend on the Go that a driver was built with."""
    try:
        read_by_model(case, release)
    except CheckpointError as error:
        return set(error.possible)
    return set()


def _refusal(program: Program, case: Row, node: str) -> str | None:
    """Why the file cannot be read, or ``None``. A file that is read may still not suit the machine,
    which is another error."""
    config = KubeletConfig(
        policy=case["policy"], feature_gates=case["feature_gates"], reserved_system_cpus=CPUSet([0])
    )
    start = wire.Start(
        node=node,
        machine=machine_line(machine_info(_EIGHT_CPUS)),
        config=settings_of(config),
        state_file=case["file"],
        containers=[
            wire.ContainerState(pod_uid=at["pod"], name=at["container"], id=one, state="running")
            for one, at in case.get("initial_containers", {}).items()
        ],
    )
    answer = program.ask(start, wire.StartAnswer)
    program.ask(wire.Close(node=node), wire.Answer)
    found = answer.refused and _UNREADABLE.search(answer.refused.message)
    return found["error"] if found else None


# -- the command -----------------------------------------------------------------------------------


def _of_kubelet(asked: argparse.Namespace) -> Outcome:
    with closing(KubeletSubject.open(asked.kubelet)) as subject:
        return record_discovery(subject, write=asked.write)


def _of_driver(rows_file: str, machines_file: str) -> Callable[[argparse.Namespace], Outcome]:
    def run(asked: argparse.Namespace) -> Outcome:
        path = GOLDEN / rows_file
        with closing(_program(asked)) as program:
            rows = read_rows(path)
            outcome = record_rows(program, rows, read_machines(GOLDEN / machines_file))
        if asked.write:
            write_rows(path, rows)
        return outcome

    return run


def _checkpoints(asked: argparse.Namespace) -> Outcome:
    if asked.write:
        raise SystemExit("checkpoints are compared only: what a kubelet read is not to be had")
    cases = json.loads((GOLDEN / "checkpoints-1.37.json").read_text(encoding="utf-8"))["read"]
    with closing(_program(asked)) as program:
        return compare_checkpoints(program, cases)


def _program(asked: argparse.Namespace) -> Program:
    built = Path(asked.driver) if Path(asked.driver).is_file() else drivers.build(asked.driver)
    return Program(built.name, [str(built)])


#: What can be recorded: the option that names the program, and the function.
WHAT: Final[dict[str, tuple[str, Callable[[argparse.Namespace], Outcome]]]] = {
    "discovery": ("kubelet", _of_kubelet),
    "allocations": (
        "driver",
        _of_driver("kubelet-allocations.jsonl.gz", "kubelet-topologies.json"),
    ),
    "align-by-socket": (
        "driver",
        _of_driver("align-by-socket-1.37.jsonl.gz", "align-by-socket-topologies.json"),
    ),
    "checkpoints": ("driver", _checkpoints),
}


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 all is equal, or was written; 1 something differs; 2 wrong usage, 3 a kubelet
    or driver did not answer."""
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--kubelet", help="a path or a release; for discovery")
    parser.add_argument("--driver", help="a path or a release; for all others")
    parser.add_argument("--write", action="store_true", help="write what was recorded")
    asked = parser.parse_args(arguments)
    needed, record = WHAT[asked.what]
    if not getattr(asked, needed):
        parser.error(f"{asked.what} is recorded from a {needed}: --{needed}")
    try:
        outcome = record(asked)
    except SubjectLostError as error:
        print(error, file=sys.stderr)
        return 3
    for line in outcome.differences:
        print(line[:2000])
    print(
        f"{outcome.equal} equal, {len(outcome.differences)} different, "
        f"{outcome.not_asked} not asked for"
    )
    return 0 if asked.write or not outcome.differences else 1


if __name__ == "__main__":
    sys.exit(main())
