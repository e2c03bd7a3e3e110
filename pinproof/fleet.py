"""``pinproof fleet``: real kubelets on machines that need not exist, before one API server.

What belongs here: the commands. A fleet is :class:`conformance.subjects.kubelet.fleet.Fleet`; where
it is recorded is :mod:`pinproof.fleet_folder`'s.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console

import topologies
from conformance.ending import deferring_interrupts, ended_like_an_interrupt
from conformance.kubelets import apiservers, builder
from conformance.kubelets.control_plane import CONTROLLER_MANAGERS, SCHEDULERS, find
from conformance.kubelets.pod_resources import NoCPUs
from conformance.subject import SubjectLostError, SubjectSetupError, SubjectUsageError
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.devices import dra
from conformance.subjects.kubelet.fleet import Fleet
from conformance.subjects.kubelet.node import POD_RESOURCES_SOCKET, STATE_FILE
from conformance.subjects.kubelet.pod_resources import PodResourcesClient, Refused
from conformance.subjects.kubelet.sandbox import AREA
from conformance.upgrading import Going
from pinproof import fleet_changes, fleet_control, fleet_folder, inputs
from pinproof.completion import machine_names
from pinproof.fleet_changes import Changes
from pinproof.fleet_folder import FleetFolder, NodeRecord, Record
from pinproof.kubelet_configuration import NO_MEMORY
from pinproof.memory_settings import with_memory
from pinproof.output import note, print_listed
from pinproof.parameters import AsJson, argument, option, with_options
from pinproof.picture import Picture
from pinproof.progress import busy
from pinproof.settings import Given, settings_of
from pinproof.simulation import reserved_of
from reference import CPUSet
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.releases import Release
from reference.steps import Device, KubeletConfig
from topologies import Machine
from topologies.boxes import RESERVED, SHARED_POOL
from topologies.errors import one_line

app = typer.Typer(no_args_is_help=True)

_COUNTED: Final = re.compile(r"(?P<machine>.*)=(?P<count>[^=/]*)", re.DOTALL)
#: MiB of etcd, API server and runner, and of each node: its kubelet and its files.
_CONTROL_PLANE: Final = 600
_NODE: Final = 100
#: Inotify instances of each kubelet, how a process's look, and the user's limit.
_INOTIFY: Final = 6
_INOTIFY_LINK: Final = "anon_inode:inotify"
_INSTANCES: Final = Path("/proc/sys/fs/inotify/max_user_instances")
_LOOPBACK: Final = "127.0.0.1"
#: Seconds between two looks whether all still run.
_LOOK: Final = 1.0
_NAMESPACE: Final = "default"
#: The programs of the control plane that may be there, and what does not work without each.
_COMPONENTS: Final = {
    "scheduler": (SCHEDULERS, "each pod has to name its node (spec.nodeName)"),
    "controller manager": (
        CONTROLLER_MANAGERS,
        "a Deployment or a Job makes no pods, and a deleted namespace stays",
    ),
}
#: A node whose kubelet has ended is NotReady in half the time that is usual. A kubelet renews its
#: lease every 10 s, and may miss that once.
_WORDS: Final = {
    "controller manager": ("--node-monitor-grace-period=25s", "--node-monitor-period=2s")
}
_LIMITS: Final = (
    "pinproof: No image is pulled and no process runs, so a pod has no logs, and no exec reaches "
    "it.",
    "pinproof: Ctrl-C, or `pinproof fleet down` in another terminal, ends the fleet.",
)


class _Numbered(NamedTuple):
    """An option of names with numbers, the form of a value, and the form in words."""

    flag: str
    form: re.Pattern[str]
    says: str


_DEVICES: Final = _Numbered(
    "--devices",
    re.compile(r"([a-z0-9.-]+\.[a-z]+/[A-Za-z0-9._-]{1,63})=0*([1-9][0-9]{0,2})"),
    "DOMAIN/NAME=N with N from 1 to 999, as example.com/gpu=4",
)
#: A name that fits into a socket's, and as many devices as one ResourceSlice holds.
_DRIVERS: Final = _Numbered(
    "--dra-driver",
    re.compile(
        r"(?=.{3,40}=)((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]+)="
        r"0*([1-9][0-9]?|1[01][0-9]|12[0-8])"
    ),
    "DOMAIN=N with N from 1 to 128, as nic.example.com=4",
)

_Name = Annotated[str, typer.Option(help="The name of the fleet.", metavar="NAME")]


@dataclass(frozen=True, slots=True)
class Asked:
    machines: list[str] = argument(
        "So many nodes of one machine: 2s-4n-64c-smt2=3; without a number, one.",
        metavar="MACHINE[=N]",
        autocompletion=machine_names,
    )
    release: str = option("1.36", "The release of the kubelets.")
    name: str = option(fleet_folder.DEFAULT, "The name of the fleet.", metavar="NAME")
    port: int = option(
        0, "The port of the API server on 127.0.0.1; 0: one that is free.", min=0, max=65535
    )
    devices: list[str] | None = option(
        None,
        "So many devices on each node, spread over its NUMA nodes: example.com/gpu=4. May be "
        "repeated.",
        metavar="RESOURCE=N",
    )
    dra_driver: list[str] | None = option(
        None,
        "So many devices of a driver of Dynamic Resource Allocation on each node, spread over its "
        "NUMA nodes: nic.example.com=4. May be repeated.",
        metavar="DRIVER=N",
    )
    until_eof: bool = option(
        False,
        "End when standard input ends, so that the fleet ends with the program that started it.",
        "--until-eof",
    )


@dataclass(frozen=True, slots=True)
class _Wish:
    """One node, and the CPUs that its kubelet reserves."""

    machine: Machine
    config: KubeletConfig
    reserved: CPUSet
    devices: Mapping[str, tuple[Device, ...]]
    claimed: Mapping[str, tuple[Device, ...]]


@app.command("up", epilog="Example: pinproof fleet up 2s-4n-64c-smt2=2 1s-1n-4c-smt2")
@with_options
def up(given: Given, asked: Asked) -> None:
    """Start an API server and a real kubelet for each node, print the path of a kubeconfig, and
    keep them up until Ctrl-C or `pinproof fleet down`.

    The scheduler of `pinproof build scheduler` chooses the nodes of pods; without it each pod has
    to name its node (spec.nodeName). The controllers of `pinproof build controller-manager` make
    the pods of Deployments and Jobs. The Topology Manager admits or refuses a pod, and the CPU
    manager pins it. No image is pulled and no process runs: a pod has no logs, and no exec reaches
    it.

    pinproof fleet up 2s-4n-64c-smt2=2 --topology-manager-policy single-numa-node
    """
    wishes = _wishes(asked, given)
    folder = FleetFolder(asked.name)
    _require_memory(len(wishes))
    _require_inotify(len(wishes))
    with ended_like_an_interrupt(), folder.held(), _port(asked.port) as port:
        apiservers.find()
        programs = {name: find(kept) for name, (kept, _) in _COMPONENTS.items()}
        with busy("fleet up") as say:
            subject = KubeletSubject.open(asked.release, progress=say)
        fleet = Fleet(subject)
        try:
            with busy("fleet up") as say:
                for one in _started(fleet, port, folder, asked.release, wishes):
                    say(f"{one} is up")
                _complete(fleet, folder, programs)
            # The fleet is up. From here on an interrupt is its regular end.
            with contextlib.suppress(KeyboardInterrupt), fleet_control.listening(folder.path) as at:
                _announce(folder, [*_missing(programs), *_LIMITS])
                _watch(fleet, at, Changes(fleet, folder), until_eof=asked.until_eof)
        finally:
            with deferring_interrupts():
                fleet.close()


@app.command("list", epilog="Example: pinproof fleet list --json")
def list_(as_json: AsJson = False) -> None:
    """List the fleets, also those that were killed, and the folder of each node."""
    found = [fleet_folder.facts(one) for one in fleet_folder.all_folders()]
    lines = (line for fleet in found for line in _lines(fleet))
    print_listed(found, lines, ": pinproof fleet up 2s-4n-64c-smt2=2", as_json=as_json)


@app.command("draw", epilog="Example: pinproof fleet draw node2")
def draw(
    nodes: Annotated[
        list[str] | None, typer.Argument(help="Of these nodes only.", metavar="[NODE...]")
    ] = None,
    name: _Name = fleet_folder.DEFAULT,
) -> None:
    """Draw the nodes of a fleet, with the CPUs that each container holds."""
    folder = FleetFolder(name)
    record = folder.require_up()
    known = {one.name: one for one in record.nodes}
    if wrong := [one for one in nodes or () if one not in known]:
        raise SubjectUsageError(f"{wrong[0]}: fleet {name} has {', '.join(known)}")
    for each in nodes or known:
        picture = _picture(folder.node(each), known[each])
        picture.show(Console(highlight=False))


@app.command("down", epilog="Example: pinproof fleet down --name mine")
def down(name: _Name = fleet_folder.DEFAULT) -> None:
    """End a fleet, also one whose process was killed, and remove all that is left of it; print its
    name."""
    FleetFolder(name).take_down()
    typer.echo(name)


_Node = Annotated[str, typer.Argument(help="The node, as fleet list names it.", metavar="NODE")]


@app.command("stop", epilog="Example: pinproof fleet stop node2")
def stop(
    node: _Node,
    name: _Name = fleet_folder.DEFAULT,
    kill: Annotated[bool, typer.Option("--kill", help="By SIGKILL instead of SIGTERM.")] = False,
) -> None:
    """Stop the kubelet of a node; its containers go on, and `fleet start` starts it again."""
    _change(name, node, {"do": "stop", "kill": kill})


@app.command("start", epilog="Example: pinproof fleet start node2")
def start(node: _Node, name: _Name = fleet_folder.DEFAULT) -> None:
    """Start the kubelet of a node again, one that was stopped or has ended by itself."""
    _change(name, node, {"do": "start"})


@app.command("upgrade", epilog="Example: pinproof fleet upgrade node2 1.37")
def upgrade(
    node: _Node,
    release: Annotated[
        str, typer.Argument(help="A release, or kubelet:BINARY.", metavar="RELEASE")
    ],
    name: _Name = fleet_folder.DEFAULT,
    by: Annotated[
        Going,
        typer.Option(
            help="How the old kubelet goes: it is stopped or killed, the machine boots again, or "
            "every pod is evicted first."
        ),
    ] = Going.STOP,
) -> None:
    """Have another kubelet take over a node: its files and its containers stay.

    The lines say which pods have ended, which containers hold other CPUs than before, and how many
    keep theirs. Where the kubelet refuses to start over the state file, its message is shown, and
    what helps; the exit status is then 3, and the node is without a kubelet. An older release may
    follow, too.
    """
    FleetFolder(name).require_up()
    with busy("fleet upgrade") as say:
        kubelet = fleet_changes.kubelet_of(release, say)
    _change(name, node, {"do": "upgrade", "by": by.value, **kubelet})


def _change(name: str, node: str, request: dict[str, Any]) -> None:
    """Send a request to the process of a fleet, and print the lines of its answer."""
    folder = FleetFolder(name)
    folder.require_up()
    with busy(f"fleet {request['do']}") as say:
        answer = fleet_control.ask(folder.name, folder.path, {"node": node, **request}, say)
    for line in answer["lines"]:
        typer.echo(line)


# -- what is asked for -------------------------------------------------------------------------


def _wishes(asked: Asked, given: Given) -> list[_Wish]:
    """One for each node. Raises :class:`SubjectUsageError`, and :class:`topologies.MachineError`
    for a machine that cannot be read."""
    if not builder.is_release(asked.release):
        raise SubjectUsageError(f"--release {asked.release!r}: it is a release such as 1.36")
    counts = dict(_numbered(_DEVICES, text) for text in asked.devices or ())
    drivers = dict(_numbered(_DRIVERS, text) for text in asked.dra_driver or ())
    if drivers and Release.parse(asked.release).minor < dra.SINCE:
        raise SubjectUsageError(f"--dra-driver: it needs --release 1.{dra.SINCE} or newer")
    found: list[_Wish] = []
    notes: dict[str, None] = {}
    for text in asked.machines:
        name, count = _counted(text)
        machine = topologies.machine(name)
        topology = inputs.discovered(machine, asked.release)
        settings = settings_of(given, topology, release=asked.release)
        config = settings.config
        if given.config is not None:  # real kubelets have a Memory Manager
            config = with_memory(config, given.config)
        reserved = reserved_of(topology, config, asked.release)
        numa_nodes = sorted({place.numa for place in topology.details.values()})
        devices, claimed = (
            {name: _near(numa_nodes, number) for name, number in wanted.items()}
            for wanted in (counts, drivers)
        )
        found += [_Wish(machine, config, reserved, devices, claimed)] * count
        notes |= dict.fromkeys(one for one in settings.notes if one != NO_MEMORY)
    for one in notes:
        note(f"pinproof: {one_line(one)}")
    return found


def _counted(text: str) -> tuple[str, int]:
    """Name and number of ``MACHINE[=N]``."""
    parts = _COUNTED.fullmatch(text)
    if parts is None:
        return text, 1
    count = parts["count"]
    if not re.fullmatch(r"0*[1-9][0-9]{0,3}", count):
        raise SubjectUsageError(f"{text!r}: it is MACHINE=N with N from 1 to 9999")
    return parts["machine"], int(count)


def _numbered(wanted: _Numbered, text: str) -> tuple[str, int]:
    """Name and number of ``NAME=N``."""
    parts = wanted.form.fullmatch(text)
    if parts is None:
        raise SubjectUsageError(f"{wanted.flag} {text!r}: it is {wanted.says}")
    return parts[1], int(parts[2])


def _near(numa_nodes: Sequence[int], number: int) -> tuple[Device, ...]:
    """Devices spread evenly over the NUMA nodes, those with neighbouring ids on one."""
    every = numa_nodes or (0,)
    return tuple(
        Device(f"d{one:03}", (every[one * len(every) // number],)) for one in range(number)
    )


def _require_inotify(nodes: int) -> None:
    """Raises :class:`SubjectSetupError` where Linux gives this user too few inotify instances for
    ``nodes`` kubelets."""
    limit, used = int(_INSTANCES.read_text()), _inotify_instances()
    needed = nodes * _INOTIFY
    if used + needed > limit:
        raise SubjectSetupError(
            f"too large a fleet for this host: {nodes} node{'s' * (nodes > 1)} take {needed} "
            f"inotify instances, and {max(limit - used, 0)} of {limit} are left: "
            f"sysctl fs.inotify.max_user_instances={max(1024, 2 * (used + needed))}"
        )


def _inotify_instances(processes: str = "[0-9]*") -> int:
    """How many the user's processes have, as far as they can be seen. ``processes``: a glob of the
    pids that are looked at."""
    found = 0
    for one in Path("/proc").glob(f"{processes}/fd/*"):
        with contextlib.suppress(OSError):  # it was closed, or is another user's
            found += str(one.readlink()) == _INOTIFY_LINK and one.lstat().st_uid == os.geteuid()
    return found


def _require_memory(nodes: int) -> None:
    """Raises :class:`SubjectSetupError` where the host has too little memory left."""
    rows = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line
    )
    available = int(rows["MemAvailable"].split()[0]) // 1024
    needed = _CONTROL_PLANE + nodes * _NODE
    if needed > available:
        raise SubjectSetupError(
            f"too large a fleet for this host: {nodes} node{'s' * (nodes > 1)} and the API server "
            f"take {needed} MiB of memory, and {available} MiB are available"
        )


@contextlib.contextmanager
def _port(number: int) -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((_LOOPBACK, number))
            made.listen()
        except OSError as error:
            raise SubjectUsageError(f"--port {number}: {error.strerror}") from error
        yield made


# -- a fleet that is up ------------------------------------------------------------------------


def _started(
    fleet: Fleet, port: socket.socket, folder: FleetFolder, release: str, wishes: Sequence[_Wish]
) -> Iterator[str]:
    """Start the fleet, record each part in the folder, and name each that is up."""
    folder.write_kubeconfig(fleet.start(port))
    record = Record(release, processes=fleet_folder.processes(fleet.pids))
    folder.write(record)
    yield "the API server"
    for wish in wishes:
        node = fleet.add(wish.machine, wish.config, wish.devices, wish.claimed)
        folder.link(node.name, node.place)
        made = NodeRecord(node.name, wish.machine.name, str(wish.reserved), node.release)
        record = replace(
            record,
            nodes=(*record.nodes, made),
            processes=fleet_folder.processes(fleet.pids),
        )
        folder.write(record)
        yield node.name


def _complete(fleet: Fleet, folder: FleetFolder, programs: Mapping[str, Path | None]) -> None:
    """Wait until all nodes are ready, and start those programs of the control plane that are
    there."""
    for node in fleet.nodes:
        fleet.await_ready(node)
    for name, program in programs.items():
        if program is not None:
            fleet.run(name, program, _WORDS.get(name, ()))
    running = fleet_folder.processes(fleet.pids)
    folder.write(replace(folder.record(), processes=running, ready=True))


def _missing(programs: Mapping[str, Path | None]) -> Iterator[str]:
    for name, (_, without) in _COMPONENTS.items():
        if programs[name] is None:
            command = f"pinproof build {name.replace(' ', '-')} 1.36"
            yield (
                f"pinproof: no {name} runs here, so {without}: `{command}` builds one for the next "
                "fleet."
            )


def _announce(folder: FleetFolder, lines: Sequence[str]) -> None:
    """The kubeconfig on stdout, everything else on stderr."""
    for node in fleet_folder.facts(folder)["nodes"]:
        note(_line(node))
    for line in lines:
        note(line)
    typer.echo(folder.kubeconfig)


def _watch(fleet: Fleet, listener: socket.socket, changes: Changes, *, until_eof: bool) -> None:
    """Until an interrupt or the end of standard input, do what clients ask for, and say which
    kubelets have ended. Raises :class:`SubjectLostError` where the API server or another program
    of the control plane has."""
    said: dict[str, str] = {}
    while True:
        ready, _, _ = select.select([listener, *[sys.stdin] * until_eof], [], [], _LOOK)
        if sys.stdin in ready and not os.read(sys.stdin.fileno(), 1 << 16):
            return
        if listener in ready:
            fleet_control.serve(listener, changes)
        ended = dict(fleet.ended())
        for name, why in ended.items():
            if said.get(name) != why:
                note(f"pinproof: {name}: the kubelet has ended: {one_line(why)}")
        said = ended


def _lines(fleet: dict[str, Any]) -> Iterator[str]:
    yield f"{fleet['name']}  {fleet['state']}  {fleet['release']}  {fleet['kubeconfig']}"
    yield from (f"  {_line(node)}" for node in fleet["nodes"])


def _line(node: dict[str, Any]) -> str:
    state = "  stopped" if node["stopped"] else ""
    return f"{node['name']}  {node['machine']}  {node['release']}  {node['folder']}{state}"


# -- who holds which CPUs ----------------------------------------------------------------------


def _picture(link: Path, node: NodeRecord) -> Picture:
    """A node with the CPUs that its kubelet reports at the pod-resources socket, and the shared
    pool of its state file. Raises :class:`SubjectLostError` where it does not answer."""
    try:
        place = link.readlink()  # the path of a socket cannot be long
        inside = place / POD_RESOURCES_SOCKET.lstrip("/")
        listed = PodResourcesClient(inside).listed().cpus
        state = place / STATE_FILE.lstrip("/")
        text = state.read_text(errors="surrogateescape") if state.exists() else None
        machine = topologies.machine(place / AREA.lstrip("/") / "machines/1")
    except (OSError, Refused, NoCPUs, SubjectLostError) as error:
        raise SubjectLostError(f"{node.name}: its kubelet does not answer: {error}") from error
    shared, _ = parse_leniently(text, release=node.release)
    reserved = CPUSet.parse(node.reserved)
    owners = {
        _owner(*pod, container): cpus
        for pod, containers in sorted(listed.items())
        for container, cpus in sorted(containers.items())
        if cpus
    }
    if reserved:
        owners[RESERVED] = reserved
    owners[SHARED_POOL] = shared - reserved
    shown = replace(machine, name=f"{node.name}, {node.machine}")
    return Picture.of(shown, inputs.discovered(shown, node.release), owners, node.release)


def _owner(namespace: str, pod: str, container: str) -> str:
    where = "" if namespace == _NAMESPACE else f"{namespace}:"
    return f"{where}{pod}/{container}" if container else f"{where}{pod}"
