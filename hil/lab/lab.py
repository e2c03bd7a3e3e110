"""The lab: nodes made, rebooted as other machines, and taken away without a trace."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from hil.lab import boot, guest, nodes, places, plan, process, runtime, snapshots, tools
from hil.lab import image as images
from hil.lab import keys as keyring
from hil.lab import kubelet as kubelets
from hil.lab import machine as machines
from hil.lab.accelerators import AUTO, ways
from hil.lab.boot import Watch
from hil.lab.errors import LabError, LabUsageError
from hil.lab.machine import INITRD
from hil.lab.nodes import Node, Record
from hil.lab.plan import Plan

INVENTORY: Final = "lab.toml"
_SHUTDOWN: Final = 120.0
_PORTS: Final = 5

#: Gets the progress: the node's name (``""``: all nodes), and the stage.
Say = Callable[[str, str], None]


class CalledOff(Exception):
    """Another node failed, or the user interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What :func:`up` makes: one node for each of ``specs``, with this kubelet.

    ``name`` is for a single node (``""``: the first free number); ``settings`` of
    KubeletConfiguration go over the lab's own; ``memory`` in MiB (``None``: 2 GiB, more for many
    CPUs); ``cgroup`` 1 or 2; ``oci`` is the runtime below containerd, runc or crun; ``fresh``
    boots each node itself, without a snapshot; ``inventory`` is where to write that (``None``:
    into the first node's folder); ``deadline`` in seconds for each boot.
    """

    specs: Sequence[str]
    kubelet: Path
    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    memory: int | None = None
    cgroup: int = 2
    oci: str = runtime.DEFAULT
    accel: str = AUTO
    fresh: bool = False
    inventory: Path | None = None
    deadline: float | None = None


def up(wish: Wish, say: Say = lambda _name, _stage: None) -> tuple[Path, list[Node]]:
    """Make the nodes, all at once, each ready: its kubelet is healthy, and its kernel shows the
    machine that was described. Returns the inventory's path, and the nodes.

    Raises :class:`LabUsageError` before anything is made, :class:`LabError` when one cannot be:
    none of them is left then, whatever the error or signal.
    """
    shapes = _shapes(wish)
    kubelet = kubelets.kubelet(wish.kubelet)
    tools.need(tools.QEMU, tools.QEMU_IMG, tools.SSH_KEYGEN)
    image = images.ready_image(lambda stage: say("", stage))
    if wish.cgroup == 1 and not image.cgroup_v1:
        raise LabUsageError(
            f"no cgroup v1: kernel {image.kernel} with systemd {image.systemd} has none for cpusets"
        )
    plans = [Plan(shape, image, kubelet, wish.settings, wish.accel, wish.oci) for shape in shapes]
    with _reserved(wish, len(plans)) as fresh:
        path = (wish.inventory or fresh[0].folder / INVENTORY).absolute()
        made = _all_up(fresh, plans, wish, path, say)
        nodes.write_inventory(path, made)
    return path, made


def _shapes(wish: Wish) -> list[machines.Machine]:
    if not wish.specs:
        raise LabUsageError("name a machine, such as 2s-2n-8c-smt2")
    if wish.name and len(wish.specs) > 1:
        raise LabUsageError("--name is for one node; several machines were named")
    if wish.inventory is not None and not wish.inventory.absolute().parent.is_dir():
        raise LabUsageError(f"no folder for the inventory: {wish.inventory}")
    ways(wish.accel)
    runtime.known(wish.oci)
    return [machines.machine(spec, memory=wish.memory, cgroup=wish.cgroup) for spec in wish.specs]


@contextmanager
def _reserved(wish: Wish, count: int) -> Iterator[list[Node]]:
    """Folders for that many nodes, held; gone again where the block raises."""
    fresh: list[Node] = []
    try:
        for _ in range(count):
            fresh.append(nodes.reserve(wish.name))
        yield fresh
    except BaseException:
        for node in fresh:
            snapshots.remove(node.folder)
        raise


def _all_up(
    fresh: Sequence[Node], plans: Sequence[Plan], wish: Wish, inventory: Path, say: Say
) -> list[Node]:
    """Make each node in a thread of its own; the first failure, or a signal, cancels the others."""
    cancelled = threading.Event()

    def stop() -> None:
        if cancelled.is_set():
            raise CalledOff

    def make(node: Node, wanted: Plan) -> Node:
        watch = Watch.for_boot(
            wanted.machine.layout.cpus,
            say=lambda stage: say(node.name, stage),
            stop=stop,
            deadline=wish.deadline,
        )
        try:
            with nodes.held(node):
                return _up(node, wanted, wish, inventory, watch)
        except BaseException:
            cancelled.set()
            raise

    with ThreadPoolExecutor(len(fresh)) as pool:
        futures = [pool.submit(make, *pair) for pair in zip(fresh, plans, strict=True)]
        try:
            # Polled: a signal is seen at once, and not only when a node is ready.
            while not all(each.done() for each in futures):
                time.sleep(0.05)
        except BaseException:
            cancelled.set()
            raise
    failures = [error for each in futures if (error := each.exception()) is not None]
    for error in failures:
        if not isinstance(error, CalledOff):
            raise error
    return [each.result() for each in futures]


def _up(node: Node, wanted: Plan, wish: Wish, inventory: Path, watch: Watch) -> Node:
    record = Record(
        spec=wanted.machine.spec,
        memory=wanted.machine.memory,
        cgroup=wanted.machine.cgroup,
        kubelet=str(wanted.kubelet.path),
        version=wanted.kubelet.version,
        image=wanted.image.folder.name,
        port=0,
        accel=wish.accel,
        inventory=str(inventory),
        made=wanted.machine.spec,
        settings=dict(wish.settings),
        oci=wish.oci,
    )
    kept = None if wish.fresh else snapshots.snapshot(wanted, node.folder, watch)
    if kept is not None:
        record = msgspec.structs.replace(record, snapshot=kept.key)
        try:
            return _from_snapshot(node, record, wanted, kept, watch)
        except snapshots.DoesNotLoad as error:
            watch.say(f"the snapshot cannot be used, and is made again: {error}")
            snapshots.forget(kept)
            kept = snapshots.snapshot(wanted, node.folder, watch)
            return _from_snapshot(node, record, wanted, kept, watch)
    return _from_nothing(node, record, wanted, watch)


def _from_snapshot(
    node: Node, record: Record, wanted: Plan, kept: snapshots.Snapshot, watch: Watch
) -> Node:
    def start(port: int) -> None:
        snapshots.start(kept, wanted, node.folder, port=port, watch=watch)

    def settle(door: guest.Door, watch: Watch) -> None:
        with door.opened(watch.until, watch.stop) as shell:
            snapshots.require_kubelet(door.name, shell, watch)

    return _ready(_start_on_free_port(node, record, start), watch, settle)


def _from_nothing(node: Node, record: Record, wanted: Plan, watch: Watch) -> Node:
    def start(port: int) -> None:
        snapshots.boot_first(node.folder, wanted, keyring.read(node.folder), port, watch)

    def settle(door: guest.Door, watch: Watch) -> None:
        snapshots.settle(door, wanted.machine.layout.spec, watch)

    return _ready(_start_on_free_port(node, record, start), watch, settle)


def _ready(node: Node, watch: Watch, settle: Callable[[guest.Door, Watch], None]) -> Node:
    """The running node, once ``settle`` has returned; where that raises, its QEMU is ended."""
    watch = watch.while_running(node.folder)
    try:
        settle(node.door, watch)
    except BaseException:
        process.end(node.folder)
        raise
    watch.say("ready")
    return node.written(msgspec.structs.replace(node.recorded(), ready=True))


def _start_on_free_port(node: Node, record: Record, start: Callable[[int], None]) -> Node:
    """Start on a free port; try another where a program takes it before QEMU does."""
    for attempt in range(1, _PORTS + 1):
        port = boot.free_port()
        keyring.make(node.folder, port=port)
        made = node.written(msgspec.structs.replace(record, port=port))
        try:
            start(port)
        except LabError as error:
            if boot.PORT_TAKEN not in str(error) or attempt == _PORTS:
                raise
        else:
            return made
    raise AssertionError


def down(names: Sequence[str] = (), *, everything: bool = False) -> list[str]:
    """Remove nodes with all that belongs to them; returns their names. Raises
    :class:`LabUsageError` where one does not exist: nothing is changed then."""
    if not names and not everything:
        raise LabUsageError("name a node, or give --all")
    gone = nodes.all_nodes() if everything else [nodes.named(name) for name in dict.fromkeys(names)]
    for node in gone:
        snapshots.remove(node.folder)
        if node.folder.exists():
            raise LabError(f"{node.name} cannot be removed: {node.folder}")
    _rewrite_inventories(gone)
    return [node.name for node in gone]


def _rewrite_inventories(gone: Sequence[Node]) -> None:
    """What is left of each inventory that named one of them."""
    for path in {Path(node.record.inventory) for node in gone if node.record is not None}:
        if path.parent.is_dir():
            _rewrite(path)


def _rewrite(inventory: Path) -> None:
    listed = [
        node
        for node in nodes.all_nodes()
        if node.record and node.record.ready and node.record.inventory == str(inventory)
    ]
    nodes.write_inventory(inventory, listed)


@dataclass(frozen=True, slots=True)
class Rebooted:
    """How a reboot ended: the node, and what its kubelet complains of (``""``: it is ready)."""

    node: Node
    refusal: str


def reboot(
    name: str,
    *,
    spec: str = "",
    hard: bool = False,
    kubelet: bool = True,
    for_a_while: bool = False,
    deadline: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Rebooted:
    """Shut the node down and boot it again, as the machine ``spec`` if one is named: that is the
    CPU upgrade. ``hard`` cuts the power instead. A kubelet that refuses to run on the new machine
    is a result, not an error; without ``kubelet`` the kubelet is not waited for. ``for_a_while``:
    its record and its inventory keep the machine that it was before, until it is booted as that
    (:func:`was`).

    Raises :class:`LabError` where the guest does not boot, or shows another machine: the node is
    down then, and another reboot may help.
    """
    node = nodes.named(name)
    record = node.recorded(ready=True)
    wanted = machines.machine(spec or record.spec, memory=record.memory, cgroup=record.cgroup)
    image = images.kept(record.image)
    watch = Watch.for_boot(wanted.layout.cpus, say=say, deadline=deadline)
    with nodes.held(node):
        _halt(node, watch, hard=hard)
        (node.folder / INITRD).unlink(missing_ok=True)
        (node.folder / INITRD).write_bytes(plan.initrd(wanted, image))
        another = wanted.spec != record.spec
        original = record.original or record.spec
        if not for_a_while or wanted.spec == original:
            original = ""
        record = msgspec.structs.replace(
            record, spec=wanted.spec, memory=wanted.memory, original=original
        )
        node = node.written(record)
        _rewrite(Path(record.inventory))
        boot.boot(
            node.folder, wanted, kernel=image.vmlinuz, port=record.port, accel=record.accel,
            watch=watch, again=True,
        )  # fmt: skip
        watch = watch.while_running(node.folder)
        refusal = _await_kubelet(node, watch, kubelet=kubelet)
        # An earlier boot that failed may have recorded this machine without comparing it.
        if another or kubelet:
            _compare(node, wanted, watch)
    return Rebooted(node, refusal)


def was(name: str) -> str:
    """The machine that this node has to be booted as, because a run ended while it was another one
    or while it was off; ``""`` where it need not be. Raises :class:`LabUsageError` where no lab
    node has this name, or a run works on it."""
    node = nodes.named(name)
    if node.state is nodes.State.BUSY:
        raise LabUsageError(f"{name} is busy: another run works on it")
    record = node.recorded(ready=True)
    if record.original or node.state is nodes.State.DOWN:
        return record.original or record.spec
    return ""


def reset(
    name: str, *, deadline: float | None = None, say: Callable[[str], None] = lambda _: None
) -> Node:
    """Make the node as it was when it was new: its own machine, kubelet and settings, an empty
    disk, new keys. Its name and its place in the inventory stay. Raises :class:`LabUsageError`
    before anything is changed, and :class:`LabError` where it does not boot: it is incomplete
    then."""
    node = nodes.named(name)
    record = node.recorded()
    spec = record.made or record.original or record.spec
    wish = Wish(
        specs=[spec],
        kubelet=Path(record.kubelet),
        settings=record.settings,
        oci=record.oci,
        accel=record.accel,
        fresh=not record.snapshot,
    )
    shape = machines.machine(spec, memory=record.memory, cgroup=record.cgroup)
    kubelet = kubelets.kubelet(wish.kubelet)
    image = images.kept(record.image)
    wanted = Plan(shape, image, kubelet, wish.settings, wish.accel, wish.oci)
    watch = Watch.for_boot(shape.layout.cpus, say=say, deadline=deadline)
    with nodes.held(node):
        process.end(node.folder)
        made = _up(node, wanted, wish, Path(record.inventory), watch)
    _rewrite(Path(record.inventory))
    return made


def _await_kubelet(node: Node, watch: Watch, *, kubelet: bool) -> str:
    """Wait until SSH works and the kubelet is ready or has given up; its error then."""
    with node.door.opened(watch.until, watch.stop) as shell:
        if not kubelet:
            return ""
        watch.say("waiting for the kubelet")
        return guest.refusal(shell, watch.until, watch.stop)


def _compare(node: Node, wanted: machines.Machine, watch: Watch) -> None:
    watch.say("comparing its machine with the description")
    if different := guest.difference(node.door, wanted.layout.spec):
        process.end(node.folder)
        raise LabError(f"{node.name}: {different}")


def _halt(node: Node, watch: Watch, *, hard: bool) -> None:
    if not process.alive(node.folder):
        return
    if not hard:
        watch.say("shutting it down")
        try:
            with node.door.opened(time.monotonic() + _SHUTDOWN, watch.stop) as shell:
                guest.power_off(shell)
        except LabError:
            watch.say("it does not answer: cutting the power")
        else:
            if not process.gone(node.folder, deadline=_SHUTDOWN, stop=watch.stop):
                watch.say("it does not shut down: cutting the power")
    process.end(node.folder)


def clean() -> list[Path]:
    """Remove the snapshots and images that no node needs; returns what was removed. What is needed
    later is made again."""
    records = [node.record for node in nodes.all_nodes() if node.record is not None]
    needed = {record.image for record in records} | {record.snapshot for record in records}
    removed = []
    for folder in (*places.images().iterdir(), *places.snapshots().iterdir()):
        if folder.name in needed or not folder.is_dir():
            continue
        process.end(folder)
        shutil.rmtree(folder, ignore_errors=True)
        removed.append(folder)
    return removed
