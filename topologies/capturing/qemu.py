"""A machine that need not exist, booted in QEMU to see what a real kernel shows of it.

One attempt is one QEMU: without network, disk or display, its first serial line on our pipe. It is
killed as soon as the guest has said all, and with this process. Hardware virtualisation is taken
where the host has it and it works (a guest that is not up within seconds is given up for the
emulator, and this process does not try again); the emulator runs with a thread for each CPU, and
with one for all where a loaded host let the kernel's CPUs wait for each other until it hung.
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

#: How much firmware and kernel may say before the guest does, where they share a line with it.
_MOST_PREAMBLE: Final = 1 << 20

#: Within how many seconds the emulated guest is up, where it comes up at all: on an idle host it
#: takes a tenth of that.
_PATIENCE: Final = 20.0
_PATIENCE_PER_CPU: Final = 0.5

#: The same for hardware virtualisation, which is there or is not: no host is so loaded.
_PATIENCE_KVM: Final = 5.0
_PATIENCE_KVM_PER_CPU: Final = 0.03

#: What the kernel need not do, since time goes into it where each instruction is emulated: page
#: tables of its own on every system call (the emulator has no tags in its TLB and empties it each
#: time: reading the tree takes twice as long), tests of ciphers, a look for BIOS disks. Nothing
#: that a kubelet reads hangs on them; of the tree, ``vulnerabilities/meltdown`` does.
_SPARED: Final = ("nopti", "cryptomgr.notests", "edd=off")

#: Ways that have failed in this process.
_given_up: Final[set[str]] = set()

_Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to run the guest, and within how many seconds it must be up."""

    accelerator: str
    patience: float
    name: str


class _Failed(Exception):
    """An attempt came to nothing; ``silent`` where the guest never came up."""

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
    seconds (default: by the number of CPUs); ``accel`` is ``auto``, ``kvm`` or ``tcg``; ``say``
    hears of the progress. Where the kernel shows something else than was described, the capture
    has a warning that says so. Raises :class:`BadTarget`, :class:`CaptureError`.
    """
    wanted = layout(spec)
    where = f"qemu:{wanted.text}"
    board = wanted.board
    if shutil.which(board.program) is None:
        missing = f"there is no {board.program}: apt-get install {board.package}"
        raise CaptureError(where, missing)
    made_of = parts(say, board)
    if kernel is not None:
        made_of = replace(made_of, kernel=Path(kernel))
        if not made_of.kernel.is_file():
            raise BadTarget(where, f"no kernel: {made_of.kernel}")
    ways = _ways(accel, wanted)
    usual = (120 if board is X86 else 300) + 3.0 * wanted.cpus
    until = time.monotonic() + (deadline or usual)
    data = _first_that_works(wanted, made_of, ways, until, say, where)
    made = captured(data, where=where, source=f"captured with QEMU ({wanted.text})")
    warning = differences(made.tree, wanted.spec) if wanted.spec else ""
    warnings = (*((warning,) if warning else ()), *made.warnings)
    return replace(made, shape=wanted.spec, warnings=warnings)


def _ways(accel: str, wanted: Layout) -> tuple[_Way, ...]:
    cpus = wanted.cpus
    kvm = _Way("kvm", _PATIENCE_KVM + _PATIENCE_KVM_PER_CPU * cpus, "KVM")
    many = _Way("tcg,thread=multi", _PATIENCE + _PATIENCE_PER_CPU * cpus, "emulation")
    one = _Way("tcg,thread=single", float("inf"), "emulation in one thread")
    # A CPU's thread is waited for when the CPU is plugged out: with one for all, by itself.
    # The kernel's CPUs that wait for each other have been seen on x86 alone.
    patient = wanted.unplug or wanted.board is not X86
    emulated = (replace(many, patience=float("inf")),) if patient else (many, one)
    if accel == "kvm":
        return (kvm,)
    if accel == "tcg" or (accel == "auto" and wanted.board is not X86):
        return emulated
    if accel != "auto":
        raise BadTarget("with QEMU", f"accel is auto, kvm or tcg, not {accel!r}")
    return (kvm, *emulated) if "kvm" not in _given_up and has_kvm() else emulated


def has_kvm() -> bool:
    """Whether trying is worth the seconds: a device may be there without the CPU's help."""
    try:
        flags = re.search(r"^flags\s*:.*\b(vmx|svm)\b", Path("/proc/cpuinfo").read_text(), re.M)
    except (OSError, ValueError):
        return False
    return flags is not None and os.access("/dev/kvm", os.R_OK | os.W_OK)


def _first_that_works(
    wanted: Layout, made_of: Parts, ways: tuple[_Way, ...], until: float, say: _Say, where: str
) -> bytes:
    failed: _Failed | None = None
    for way in ways:
        say(f"booting {wanted.cpus} CPUs ({way.name})")
        try:
            with tempfile.TemporaryDirectory(prefix="pinproof-qemu-") as folder:
                return _Attempt(wanted, made_of, way, until, say, Path(folder)).run()
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
        self, wanted: Layout, made_of: Parts, way: _Way, until: float, say: _Say, folder: Path
    ) -> None:
        self._wanted = wanted
        self._made_of = made_of
        self._way = way
        self._until = until
        self._say = say
        self._folder = folder
        self._buffer = b""
        self._up = False

    def run(self) -> bytes:
        plug = range(self._wanted.booted, self._wanted.cpus)
        image = guest.initramfs(
            self._made_of.busybox.read_bytes(),
            board=self._wanted.board,
            plug=plug,
            unplug=self._wanted.unplug,
            offline=self._wanted.offline,
            table=acpi.madt(self._wanted.table) if self._wanted.table else b"",
        )
        (self._folder / "initrd").write_bytes(image)
        ours, theirs = socket.socketpair()
        errors = os.open(self._folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            command = self._command(theirs.fileno())
            with (
                contextlib.closing(_Monitor(ours)) as monitor,
                started(command, stderr=errors, pass_fds=[theirs.fileno()]) as process,
            ):
                theirs.close()
                assert process.stdout is not None
                return self._listen(process.stdout.fileno(), monitor)
        except (BrokenPipeError, ConnectionError) as error:
            raise _Failed(self._why()) from error
        finally:
            theirs.close()
            os.close(errors)

    def _command(self, monitor: int) -> list[str]:
        board = self._wanted.board
        words = [f"console={board.console}", "quiet", "panic=-1", *self._wanted.kernel]
        words += ["loglevel=1"] if board.shares_line else _SPARED
        console = [] if board.shares_line else ["-serial", f"file:{self._folder / 'console'}"]
        return [
            board.program, "-nodefaults", "-no-user-config", "-display", "none", "-nic", "none",
            "-no-reboot", "-machine", board.machine, "-accel", self._way.accelerator,
            "-chardev", f"socket,id=qmp,fd={monitor}", "-mon", "chardev=qmp,mode=control",
            "-chardev", "stdio,id=data,signal=off", "-serial", "chardev:data", *console,
            "-kernel", str(self._made_of.kernel), "-initrd", str(self._folder / "initrd"),
            "-append", " ".join(words),
            *self._wanted.arguments,
        ]  # fmt: skip

    def _listen(self, descriptor: int, monitor: _Monitor) -> bytes:
        self._heard = chunks(descriptor, min(self._until, time.monotonic() + self._way.patience))
        try:
            if self._wanted.board.shares_line:
                self._skip_to(guest.UP)
            else:
                self._expect(guest.UP)
            self._up = True
            self._heard = chunks(descriptor, self._until)
            self._say("the kernel is up")
            self._plug(monitor)
            self._expect(guest.DATA)
            self._say("reading its tree")
            return self._unpack()
        except TookTooLong:
            what = "was not read in time" if self._up else "was not up in time"
            raise _Failed(f"the guest {what}", silent=not self._up) from None

    def _more(self) -> None:
        chunk = next(self._heard, b"")
        if not chunk:
            raise _Failed(self._why(), silent=self._way.accelerator == "kvm" and not self._up)
        self._buffer += chunk

    def _expect(self, line: bytes) -> None:
        while b"\n" not in self._buffer:
            self._more()
            if len(self._buffer) > 1 << 16:
                break
        said, _, self._buffer = self._buffer.partition(b"\n")
        if said.strip() != line:
            raise _Failed(f"the guest said {said[:80]!r} instead of {line.decode()}")

    def _skip_to(self, line: bytes) -> None:
        """Past all that firmware and kernel say before it."""
        mark, skipped = b"\n" + line + b"\n", 0
        while mark not in self._buffer:
            kept = self._buffer[-len(mark) :]
            skipped += len(self._buffer) - len(kept)
            if skipped > _MOST_PREAMBLE:
                raise _Failed(f"the guest did not say {line.decode()}")
            self._buffer = kept
            self._more()
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
                    self._more()
                data += unpacker.decompress(self._buffer, MAX_STREAM + 1 - len(data))
                self._buffer = unpacker.unconsumed_tail
                if len(data) > MAX_STREAM:
                    break
        except zlib.error as error:
            raise _Failed(f"the guest's data is damaged: {error}") from error
        return bytes(data)

    def _why(self) -> str:
        """QEMU's last complaint, else the guest's."""
        said = [line for line in last_lines(self._folder / "stderr") if "warning:" not in line]
        said = said or last_lines(self._folder / "console")[-1:]
        return (
            said[-1].removeprefix(f"{self._wanted.board.program}: ")
            if said
            else "QEMU ended without a message"
        )


class _Monitor:
    """QEMU's machine protocol (QMP), as much of it as plugs CPUs in and out."""

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
