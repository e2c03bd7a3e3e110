"""A lab node as QEMU's command line. Pure.

What belongs here: which devices a node has, and how a layout of
:mod:`topologies.capturing.layout` becomes one with memory and a disk. What never does: starting
anything (:mod:`hil.lab.process`).

Paths are relative: QEMU runs in the node's folder, because the name of a unix socket may have no
more than 107 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hil.lab import housekeeping, initramfs
from hil.lab.errors import LabUsageError
from hil.lab.tools import QEMU
from topologies.capturing import BadTarget
from topologies.capturing.boards import X86
from topologies.capturing.layout import Layout, layout
from topologies.errors import one_line

OVERLAY: Final = "overlay.qcow2"
PAYLOAD: Final = "payload.tar"
INITRD: Final = "initrd"
CONSOLE: Final = "console.log"
MONITOR: Final = "qmp.sock"

#: MiB of a node, and what each CPU adds beyond the first sixteen.
MEMORY: Final = 2048
_MEMORY_PER_CPU: Final = 24
_SMALL: Final = 16

# What is expensive under emulation. norandmaps: the emulator translates code for each address that
# it runs at, so a program at another address in every process costs several times as much. highres:
# setting a timer and its expiry leave translated code, and Go's runtime asks for thousands of short
# sleeps. lsm, psi, init_on_alloc, numa_balancing, cgroup.memory: they cost work at each call, page
# or fault, and no measurement here depends on them.
_FAST: Final = (
    "norandmaps", "highres=off", "preempt=none", "lsm=capability", "psi=0", "init_on_alloc=0",
    "numa_balancing=disable", "cgroup.memory=nokmem",
)  # fmt: skip
# no_timer_check: the kernel panics ("IO-APIC + timer doesn't work") where four ticks do not come
# within 60 ms of its own start, as on a busy host.
_KERNEL: Final = (
    "console=ttyS0", "net.ifnames=0", "quiet", "loglevel=4", "panic=0", "mitigations=off",
    "nowatchdog", "no_timer_check", "tsc=reliable", "audit=0", "random.trust_cpu=on",
    "systemd.show_status=0", "systemd.log_target=journal", *_FAST, *housekeeping.KERNEL,
)  # fmt: skip
_CGROUP: Final = {
    1: ("systemd.unified_cgroup_hierarchy=0", "systemd.legacy_systemd_cgroup_controller=1"),
    2: ("systemd.unified_cgroup_hierarchy=1",),
}


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine to boot: ``layout`` with at least ``memory`` MiB, and its cgroup version."""

    layout: Layout
    memory: int
    cgroup: int = 2

    @property
    def spec(self) -> str:
        """What the user asked for, in its usual form."""
        return self.layout.text

    @property
    def shape(self) -> tuple[str, ...]:
        """QEMU's arguments for CPUs, NUMA nodes and memory."""
        return _with_memory(self.layout.arguments, self.memory)

    @property
    def kernel_words(self) -> str:
        """The kernel's command line."""
        # Words of the layout decide which CPUs come online.
        own = self.layout.kernel or initramfs.KERNEL
        return " ".join((*_KERNEL, *_CGROUP[self.cgroup], *own))


def machine(spec: str, *, memory: int | None = None, cgroup: int = 2) -> Machine:
    """The machine that ``spec`` means (a description, or QEMU's own options). Raises
    :class:`LabUsageError` for what cannot be a lab node."""
    try:
        wanted = layout(spec)
    except BadTarget as error:
        raise LabUsageError(f"not a lab machine: {one_line(str(error))}") from error
    if wanted.board is not X86:
        raise LabUsageError(f"not a lab machine: {wanted.text}: the lab boots only x86 machines")
    if wanted.plug:
        raise LabUsageError(
            f"not a lab machine: {wanted.text}: the lab boots no machine with gaps between its "
            "CPU ids"
        )
    if cgroup not in _CGROUP:
        raise LabUsageError(f"cgroup version 1 or 2, not {cgroup}")
    least = MEMORY + _MEMORY_PER_CPU * max(0, wanted.cpus - _SMALL)
    if memory is not None and memory < MEMORY // 2:
        raise LabUsageError(f"{memory} MiB are too few for a node: {MEMORY // 2} at least")
    return Machine(wanted, memory or least, cgroup)


def arguments(
    which: Machine,
    *,
    kernel: str,
    port: int,
    accelerator: str,
    incoming: int | None = None,
    words: Sequence[str] = (),
) -> list[str]:
    """QEMU's command line for one node, to be run in its folder. ``port`` is where 127.0.0.1
    forwards to its sshd; ``incoming`` is a descriptor from which to load the state of a machine
    that ran with the same arguments; ``words`` are more for the kernel."""
    return [
        QEMU, "-nodefaults", "-no-user-config", "-display", "none",
        "-machine", X86.machine, "-accel", accelerator,
        *which.shape,
        "-qmp", f"unix:{MONITOR},server=on,wait=off",
        "-chardev", f"file,id=console,path={CONSOLE},append=on", "-serial", "chardev:console",
        # Nothing waits for the host's disk: a lab node need not survive a crash of the host.
        "-drive", f"file={OVERLAY},format=qcow2,if=none,id=root,cache=unsafe,discard=unmap",
        "-device", "virtio-blk-pci,drive=root,num-queues=1",
        "-drive", f"file={PAYLOAD},format=raw,if=none,id=payload,readonly=on",
        "-device", "virtio-blk-pci,drive=payload,num-queues=1",
        # The guest reaches no network.
        "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-device", "virtio-net-pci,netdev=net,romfile=",
        "-kernel", kernel, "-initrd", INITRD, "-append", " ".join((which.kernel_words, *words)),
        *(() if incoming is None else ("-incoming", f"fd:{incoming}")),
    ]  # fmt: skip


def _with_memory(arguments: Sequence[str], wanted: int) -> tuple[str, ...]:
    """``arguments`` with at least ``wanted`` MiB, spread evenly over memory backends whose sizes
    are the same and whose sum is ``-m``; left alone where the user shaped memory otherwise."""
    sizes = [re.search(r",size=(\d+)M$", word) for word in arguments]
    backends = [int(found[1]) for found in sizes if found]
    place = arguments.index("-m") + 1
    plain = re.fullmatch(r"(\d+)M", arguments[place])
    if plain is None or len(set(backends)) > 1:
        return tuple(arguments)
    if not backends:
        return _replaced(arguments, place, f"{max(wanted, int(plain[1]))}M")
    if sum(backends) != int(plain[1]):
        return tuple(arguments)
    each = max(backends[0], -(-wanted // len(backends) // 32) * 32)
    args = _replaced(arguments, place, f"{each * len(backends)}M")
    return tuple(re.sub(r"^(memory-backend-ram,.*,size=)\d+M$", rf"\g<1>{each}M", x) for x in args)


def _replaced(arguments: Sequence[str], place: int, value: str) -> tuple[str, ...]:
    return (*arguments[:place], value, *arguments[place + 1 :])
