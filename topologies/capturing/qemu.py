"""Captures a machine that need not exist: QEMU boots it, and a real kernel shows its tree.

Each attempt starts one QEMU without network, disk or display; its first serial line is a pipe. QEMU
is killed when the guest's data is complete, and when this process ends. KVM is used where it works:
if a guest under KVM is not up within seconds, the emulator is used, and this process does not try
KVM again. The emulator runs a thread for each CPU. If the guest's CPUs wait for each other until it
hangs, as on a loaded host, the next attempt runs one thread for all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from topologies.capturing import acpi, guest
from topologies.capturing.boards import X86
from topologies.capturing.captured import Capture, captured
from topologies.capturing.errors import BadTarget, CaptureError
from topologies.capturing.expected import differences
from topologies.capturing.kernels import Parts, parts
from topologies.capturing.layout import MODEL, Layout, Place, layout
from topologies.capturing.running import TookTooLong, chunks, last_lines, started
from topologies.capturing.stream import MAX_STREAM

#: Bytes that firmware and kernel may write before the guest, where they share its line.
_MOST_PREAMBLE: Final = 1 << 20

#: Seconds after which an emulated guest counts as hung: on an idle host it is up in a tenth.
_PATIENCE: Final = 20.0
_PATIENCE_PER_CPU: Final = 0.5

#: The same for KVM: where it works, no host is so loaded that a guest takes longer.
_PATIENCE_KVM: Final = 5.0
_PATIENCE_KVM_PER_CPU: Final = 0.03

#: Words that switch off what takes long under emulation: the kernel's own page tables (the
#: emulator's TLB has no tags and is emptied on every system call: reading the tree takes twice as
#: long), tests of ciphers, a search for BIOS disks. They change nothing that a kubelet reads; of
#: the tree they change ``vulnerabilities/meltdown``.
_FASTER: Final = ("nopti", "cryptomgr.notests", "edd=off")

#: Accelerators that have failed in this process.
_given_up: Final[set[str]] = set()

_Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to run the guest, and within how many seconds it must be up."""

    accelerator: str
    patience: float
    name: str


class _Failed(Exception):
    """An attempt failed; ``silent`` where the guest never came up."""

    def __init__(self, reason: str, *, silent: bool = False) -> None:
        self.silent = silent
        super().__init__(reason)


def capture_qemu(
    spec: str,
    *,
    kernel: str | os.PathLike[str] | None = None,
    deadline: float | None = None,
    accel: str = "auto",
    say: _Say = lambda _: None,
) -> Capture:
    """The tree that a Debian kernel shows of the machine ``spec``: a description
    (``2s-2n-8c-smt2``), or QEMU's own options (``-smp 4,sockets=2 -numa …``), after the name of
    an architecture other than x86 (``arm64 -smp 4``).

    ``kernel`` is a kernel to boot instead of Debian's; ``deadline`` is for the whole boot, in
    seconds (default: by the number of CPUs); ``accel`` is ``auto``, ``kvm`` or ``tcg``; ``say`` is
    called with each stage. The capture has a warning where the kernel shows another machine than
    was described. Raises :class:`BadTarget`, :class:`CaptureError`.
    """
    wanted = layout(spec)
    where = f"qemu:{wanted.text}"
    board = wanted.board
    if shutil.which(board.program) is None:
        missing = f"there is no {board.program}: apt-get install {board.package}"
        raise CaptureError(where, missing)
    boot_files = parts(say, board)
    if kernel is not None:
        boot_files = replace(boot_files, kernel=Path(kernel))
        if not boot_files.kernel.is_file():
            raise BadTarget(where, f"kernel {boot_files.kernel}: no such file")
    ways = _ways(accel, wanted)
    usual = (120 if board is X86 else 300) + 3.0 * wanted.cpus
    until = time.monotonic() + (deadline or usual)
    data = _first_that_works(wanted, boot_files, ways, until, say, where)
    capture = captured(data, where=where, source=f"captured with QEMU ({wanted.text})")
    warning = differences(capture.tree, wanted.spec) if wanted.spec else ""
    warnings = (*((warning,) if warning else ()), *capture.warnings)
    return replace(capture, shape=wanted.spec, warnings=warnings)


def _ways(accel: str, wanted: Layout) -> tuple[_Way, ...]:
    cpus = wanted.cpus
    kvm = _Way("kvm", _PATIENCE_KVM + _PATIENCE_KVM_PER_CPU * cpus, "KVM")
    threaded = _Way("tcg,thread=multi", _PATIENCE + _PATIENCE_PER_CPU * cpus, "emulation")
    single = _Way("tcg,thread=single", float("inf"), "emulation in one thread")
    # To unplug a CPU, QEMU waits for the CPU's thread: a single thread would wait for itself.
    # A guest's CPUs that wait for each other have been seen on x86 alone.
    never_single = wanted.unplug or wanted.board is not X86
    emulated = (replace(threaded, patience=float("inf")),) if never_single else (threaded, single)
    if accel == "kvm":
        return (kvm,)
    if accel == "tcg" or (accel == "auto" and wanted.board is not X86):
        return emulated
    if accel != "auto":
        raise BadTarget("with QEMU", f"accel is auto, kvm or tcg, not {accel!r}")
    return (kvm, *emulated) if "kvm" not in _given_up and has_kvm() else emulated


def has_kvm() -> bool:
    """Whether KVM may work: its device may be there on a CPU without virtualisation."""
    try:
        flags = re.search(r"^flags\s*:.*\b(vmx|svm)\b", Path("/proc/cpuinfo").read_text(), re.M)
    except (OSError, ValueError):
        return False
    return flags is not None and os.access("/dev/kvm", os.R_OK | os.W_OK)


def _first_that_works(
    wanted: Layout, boot_files: Parts, ways: tuple[_Way, ...], until: float, say: _Say, where: str
) -> bytes:
    failed: _Failed | None = None
    for way in ways:
        say(f"booting {wanted.cpus} CPUs ({way.name})")
        try:
            with tempfile.TemporaryDirectory(prefix="pinproof-qemu-") as folder:
                return _Attempt(wanted, boot_files, way, until, say, Path(folder)).run()
        except _Failed as error:
            failed = error
            if not error.silent or time.monotonic() >= until:
                break
            if way.accelerator == "kvm":
                _given_up.add("kvm")
    raise CaptureError(where, str(failed))


class _Attempt:
    """One guest, from boot to its last byte."""

    def __init__(
        self, wanted: Layout, boot_files: Parts, way: _Way, until: float, say: _Say, folder: Path
    ) -> None:
        self._wanted = wanted
        self._boot_files = boot_files
        self._way = way
        self._until = until
        self._say = say
        self._folder = folder
        self._buffer = b""
        self._up = False

    def run(self) -> bytes:
        plug = range(self._wanted.booted, self._wanted.cpus)
        image = guest.initramfs(
            self._boot_files.busybox.read_bytes(),
            board=self._wanted.board,
            plug=plug,
            unplug=self._wanted.unplug,
            offline=self._wanted.offline,
            table=acpi.madt(self._wanted.table) if self._wanted.table else b"",
        )
        (self._folder / "initrd").write_bytes(image)
        own_end, qemu_end = socket.socketpair()
        errors = os.open(self._folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            command = self._command(qemu_end.fileno())
            with (
                contextlib.closing(_Monitor(own_end)) as monitor,
                started(command, stderr=errors, pass_fds=[qemu_end.fileno()]) as process,
            ):
                qemu_end.close()
                assert process.stdout is not None
                return self._listen(process.stdout.fileno(), monitor)
        except (BrokenPipeError, ConnectionError) as error:
            raise _Failed(self._reason()) from error
        finally:
            qemu_end.close()
            os.close(errors)

    def _command(self, monitor: int) -> list[str]:
        board = self._wanted.board
        words = [f"console={board.console}", "quiet", "panic=-1", *self._wanted.kernel]
        words += ["loglevel=1"] if board.shares_line else _FASTER
        console = [] if board.shares_line else ["-serial", f"file:{self._folder / 'console'}"]
        return [
            board.program, "-nodefaults", "-no-user-config", "-display", "none", "-nic", "none",
            "-no-reboot", "-machine", board.machine, "-accel", self._way.accelerator,
            "-chardev", f"socket,id=qmp,fd={monitor}", "-mon", "chardev=qmp,mode=control",
            "-chardev", "stdio,id=data,signal=off", "-serial", "chardev:data", *console,
            "-kernel", str(self._boot_files.kernel), "-initrd", str(self._folder / "initrd"),
            "-append", " ".join(words),
            *self._wanted.arguments,
        ]  # fmt: skip

    def _listen(self, descriptor: int, monitor: _Monitor) -> bytes:
        self._chunks = chunks(descriptor, min(self._until, time.monotonic() + self._way.patience))
        try:
            if self._wanted.board.shares_line:
                self._skip_to(guest.UP)
            else:
                self._expect(guest.UP)
            self._up = True
            self._chunks = chunks(descriptor, self._until)
            self._say("the kernel is up")
            self._plug(monitor)
            self._expect(guest.DATA)
            self._say("reading its tree")
            return self._unpack()
        except TookTooLong:
            what = "was not read in time" if self._up else "was not up in time"
            raise _Failed(f"the guest {what}", silent=not self._up) from None

    def _read_chunk(self) -> None:
        chunk = next(self._chunks, b"")
        if not chunk:
            raise _Failed(self._reason(), silent=self._way.accelerator == "kvm" and not self._up)
        self._buffer += chunk

    def _expect(self, line: bytes) -> None:
        while b"\n" not in self._buffer:
            self._read_chunk()
            if len(self._buffer) > 1 << 16:
                break
        said, _, self._buffer = self._buffer.partition(b"\n")
        if said.strip() != line:
            raise _Failed(f"the guest said {said[:80]!r} instead of {line.decode()}")

    def _skip_to(self, line: bytes) -> None:
        """Skip all that firmware and kernel write before it."""
        mark, skipped = b"\n" + line + b"\n", 0
        while mark not in self._buffer:
            kept = self._buffer[-len(mark) :]
            skipped += len(self._buffer) - len(kept)
            if skipped > _MOST_PREAMBLE:
                raise _Failed(f"the guest did not say {line.decode()}")
            self._buffer = kept
            self._read_chunk()
        self._buffer = self._buffer.partition(mark)[2]

    def _plug(self, monitor: _Monitor) -> None:
        cpu = self._wanted.booted
        for run in self._wanted.plug:
            for number, place in enumerate(run, cpu):
                monitor.plug(place, number)
            for _ in run:
                self._expect(b"%s %d" % (guest.PLUGGED, cpu))
                cpu += 1
            self._say(f"{cpu} of {self._wanted.cpus} CPUs are in")
        self._expect(guest.IN)
        for cpu in self._wanted.unplug:
            monitor.unplug(cpu)

    def _unpack(self) -> bytes:
        unpacker = zlib.decompressobj(wbits=31)
        data = bytearray()
        try:
            while not unpacker.eof:
                while not self._buffer:
                    self._read_chunk()
                data += unpacker.decompress(self._buffer, MAX_STREAM + 1 - len(data))
                self._buffer = unpacker.unconsumed_tail
                if len(data) > MAX_STREAM:
                    break
        except zlib.error as error:
            raise _Failed(f"the guest's data is damaged: {error}") from error
        return bytes(data)

    def _reason(self) -> str:
        """QEMU's last error, else the last line of the guest's console."""
        said = [line for line in last_lines(self._folder / "stderr") if "warning:" not in line]
        said = said or last_lines(self._folder / "console")[-1:]
        return (
            said[-1].removeprefix(f"{self._wanted.board.program}: ")
            if said
            else "QEMU ended without a message"
        )


class _Monitor:
    """QEMU's machine protocol (QMP), as far as plugging CPUs in and out needs it."""

    _TIMEOUT: Final = 30.0

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(self._TIMEOUT)
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._ready = False

    def close(self) -> None:
        self._lines.close()
        self._connection.close()

    def plug(self, place: Place, cpu: int) -> None:
        driver = f"{MODEL}-x86_64-cpu"
        self._call("device_add", driver=driver, id=f"cpu{cpu}", **place.properties())

    def unplug(self, cpu: int) -> None:
        self._call("device_del", id=f"cpu{cpu}")

    def _call(self, command: str, **arguments: object) -> None:
        if not self._ready:
            self._ready = True
            self._call("qmp_capabilities")
        message = {"execute": command, "arguments": arguments}
        self._connection.sendall(json.dumps(message).encode() + b"\n")
        for line in self._lines:
            answer = json.loads(line)
            if "error" in answer:
                raise _Failed(f"QEMU: {answer['error'].get('desc', 'refused')}")
            if "return" in answer:
                return
        raise ConnectionResetError
