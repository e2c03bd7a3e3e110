"""Machines that QEMU boots: what goes wrong with a false QEMU, and what a real kernel shows."""

from __future__ import annotations

import gzip
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import topologies
from tests.support import lacking
from topologies.capturing import BadTarget, Capture, CaptureError, capture_qemu
from topologies.capturing.expected import differences
from topologies.capturing.kernels import parts
from topologies.capturing.layout import layout
from topologies.capturing.scope import is_file, is_link

CPU = "sys/devices/system/cpu"
SPEC = "1s-1n-2c-smt1"
#: What a guest says before its data, in a shell's words.
HEAD = "echo up; echo in; echo data"


# --- a false QEMU ----------------------------------------------------------------------------


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH, and a cache with kernels to boot."""
    for architecture in ("", "arm64"):
        parts_of = tmp_path / "cache/pinproof/kernels" / architecture / "linux-image-1"
        parts_of.mkdir(parents=True)
        for name in ("vmlinuz", "busybox"):
            (parts_of / name).write_bytes(b"none")
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def pretend(programs: Path, body: str, name: str = "qemu-system-x86_64") -> None:
    program = programs / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def stream(spec: str, arch: str = "x86_64") -> bytes:
    """What a guest of this description would send."""
    lines = ["pinproof-capture 1", "kernel 6.1.0", f"arch {arch}"]
    links = []
    for path, text in topologies.load(spec).items():
        if is_link(path):
            links.append(f" l 1 0 0 0 {path} -> {text}")
        elif is_file(path):
            lines += [f"F {path}", *(f" {line}" for line in text.splitlines())]
    return "\n".join([*lines, "L", *links, "end", ""]).encode()


def answering(programs: Path, spec: str = SPEC, body: str = "SEND; exec sleep 600") -> None:
    """A false QEMU that does this; ``SEND`` is a whole answer of a guest of this description."""
    sent = programs.with_name("sent")
    sent.write_bytes(b"up\nin\ndata\n" + gzip.compress(stream(spec)))
    pretend(programs, body.replace("SEND", f"cat {sent}"))


def test_a_capture_ends_with_the_data_not_with_qemu(programs: Path) -> None:
    answering(programs)
    made = capture_qemu(SPEC, accel="tcg")
    assert (made.warnings, made.shape) == ((), SPEC)
    assert made.source == f"captured with QEMU ({SPEC}), Linux 6.1.0, x86_64"


def test_another_machine_than_described_is_one_warning(programs: Path) -> None:
    answering(programs, "1s-2n-2c-smt1")
    assert capture_qemu(SPEC, accel="tcg").warnings == (
        f"the kernel shows another machine than {SPEC}: NUMA nodes are 0-1, described 0 "
        "(and 3 more differences)",
    )
    answering(programs, "1s-1n-4c-smt1")
    assert capture_qemu(SPEC, accel="tcg").warnings == (
        f"the kernel shows another machine than {SPEC}: CPUs 0-3 are online, described 0-1",
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo 'qemu-system-x86_64: no such option' >&2", "no such option"),
        ("echo 'qemu-system-x86_64: warning: odd' >&2", "QEMU ended without a message"),
        ("printf '\\033[2Jhello\\n'", r"the guest said b'\x1b[2Jhello' instead of up"),
        ("yes | tr -d '\\n'", "instead of up"),
        (f"{HEAD}; echo garbage", "the guest's data is damaged"),
        ("echo up", "QEMU ended without a message"),
        (f"{HEAD}; echo hello | gzip", "it sent something other than a capture: 'hello'"),
        (f"{HEAD}; head -c 200000000 /dev/zero | gzip -1", "it sent more than 128 MiB"),
        ("echo up; exec sleep 600", "the guest was not read in time"),
    ],
    ids=["refusal", "silence", "greeting", "endless", "no gzip", "cut off", "no capture", "bomb",
         "hangs"],
)  # fmt: skip
def test_what_goes_wrong_is_one_line(body: str, said: str, programs: Path) -> None:
    pretend(programs, body)
    with pytest.raises(CaptureError) as caught:
        capture_qemu(SPEC, accel="tcg", deadline=0.5 if "sleep" in body else None)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"cannot capture qemu:{SPEC}: ")
    assert str(caught.value).isprintable()


def test_a_guest_that_never_comes_up_is_tried_in_one_thread(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topologies.capturing.qemu._PATIENCE", 0.2)
    monkeypatch.setattr("topologies.capturing.qemu._PATIENCE_PER_CPU", 0.0)
    answering(programs, body='case "$*" in *thread=single*) SEND ;; esac; exec sleep 600')
    said: list[str] = []
    assert capture_qemu(SPEC, accel="tcg", say=said.append).warnings == ()
    assert said[:2] == ["booting 2 CPUs (emulation)", "booting 2 CPUs (emulation in one thread)"]


def test_cpus_that_are_plugged_out_have_threads_of_their_own(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU would wait in the one thread for that thread's end."""
    monkeypatch.setattr("topologies.capturing.qemu._PATIENCE", 0.0)
    monkeypatch.setattr("topologies.capturing.qemu._PATIENCE_PER_CPU", 0.0)
    pretend(programs, 'case "$*" in *thread=single*) echo no >&2; exit 1 ;; esac; exec sleep 600')
    with pytest.raises(CaptureError, match="the guest was not up in time"):
        capture_qemu("2s-2n-2c-smt1-cpustep2", accel="tcg", deadline=0.5)


@pytest.mark.parametrize("fails", ["echo KVM internal error >&2; exit 1", "exec sleep 600"])
def test_kvm_that_does_not_work_gives_way_to_the_emulator(
    fails: str, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it hangs, as where a hypervisor passes the device through and not what stands
    behind it. It is not tried twice in one process."""
    monkeypatch.setattr("topologies.capturing.qemu.has_kvm", lambda: True)
    monkeypatch.setattr("topologies.capturing.qemu._given_up", set())
    monkeypatch.setattr("topologies.capturing.qemu._PATIENCE_KVM", 0.2)
    answering(programs, body=f'case "$*" in *"-accel kvm"*) {fails} ;; esac; SEND')
    said: list[str] = []
    assert capture_qemu(SPEC, say=said.append).warnings == ()
    assert said[:2] == ["booting 2 CPUs (KVM)", "booting 2 CPUs (emulation)"]
    assert capture_qemu(SPEC, say=said.append).warnings == ()
    assert said.count("booting 2 CPUs (KVM)") == 1
    if "error" in fails:
        with pytest.raises(CaptureError, match="KVM internal error"):
            capture_qemu(SPEC, accel="kvm")


def test_what_is_missing_is_said_with_how_to_get_it(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(programs, "exit 1")
    with pytest.raises(BadTarget, match="kernel /nonexistent/bzImage: no such file"):
        capture_qemu(SPEC, kernel="/nonexistent/bzImage")
    with pytest.raises(BadTarget, match="accel is auto, kvm or tcg, not 'xen'"):
        capture_qemu(SPEC, accel="xen")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CaptureError) as caught:
        capture_qemu(SPEC)
    assert str(caught.value) == (
        f"cannot capture qemu:{SPEC}: there is no qemu-system-x86_64: "
        "apt-get install qemu-system-x86"
    )


def test_qemu_dies_with_a_runner_that_is_killed(programs: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "told"
    os.mkfifo(pipe)
    pretend(programs, f"echo $$ >{pipe}; exec sleep 600")
    capturing = f"capture_qemu({SPEC!r}, accel='tcg', deadline=600)"
    code = f"from topologies.capturing import capture_qemu; {capturing}"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # the runner's folder stays
    runner = subprocess.Popen([sys.executable, "-c", code], env=environment)
    with pipe.open() as stream:
        qemu = os.pidfd_open(int(stream.readline()))
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    try:
        assert select.select([qemu], [], [], 30)[0], "QEMU outlives its runner"
    finally:
        os.close(qemu)


def test_differences_are_told_by_what_a_kubelet_sees() -> None:
    tree = topologies.load("2s-2n-4c-smt2")
    assert differences(tree, "2s-2n-4c-smt2") == ""
    said = differences(tree, "2s-2n-4c-smt2-near")
    assert "the core of CPU 0 is 0,4, described 0-1 (and " in said
    said = differences(topologies.load("1s-1n-4c-smt2-l3x2-off1"), "1s-1n-4c-smt2-off1")
    assert "the L3 of CPU 0 is 0,4-5, described 0,2-7 (and " in said


ARM = "arm64 -smp 4,cores=4"


def arm(programs: Path, sent: bytes) -> None:
    """A false QEMU for ARM, which sends this."""
    programs.with_name("sent").write_bytes(sent)
    pretend(programs, f"cat {programs.parent}/sent; exec sleep 600", "qemu-system-aarch64")


@pytest.mark.parametrize("preamble", [b"", b"SLOF\r\nC0123\rup to date\nDebian 6.", b"x" * 300_000])
def test_what_firmware_says_on_the_one_line_is_passed_over(programs: Path, preamble: bytes) -> None:
    data = gzip.compress(stream("1s-1n-4c-smt1-arm64", "aarch64"))
    arm(programs, preamble + b"\nup\nin\ndata\n" + data)
    made = capture_qemu(ARM)
    assert (made.arch, made.warnings) == ("aarch64", ())
    assert made.source == f"captured with QEMU ({ARM}), Linux 6.1.0, aarch64"
    assert made.tree[f"{CPU}/online"] == "0-3\n"


def test_firmware_that_never_ends_is_given_up(programs: Path) -> None:
    arm(programs, b"x" * (1 << 21))
    with pytest.raises(CaptureError, match="the guest did not say up"):
        capture_qemu(ARM)


# --- a real one ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real() -> None:
    lacking.program("qemu-system-x86_64")
    try:
        parts()
    except CaptureError as error:
        lacking.skip("kernel", error)


def boot(spec: str) -> Capture:
    return capture_qemu(spec, accel="tcg", deadline=400)


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(
    "spec",
    [
        "2s-4n-4c-smt2-interleaved-l3s-mem1-off3",  # a table of CPUs of our own
        "2s-2n-2c-smt1-cpustep2-pkgstep2",  # a CPU plugged in and out
    ],
)
def test_a_real_kernel_shows_what_was_described(spec: str) -> None:
    made = boot(spec)
    assert made.warnings == ()
    assert made.left_out == ()
    assert made.arch == "x86_64"
    wanted = topologies.load(spec)
    for name in ("online", "present"):
        assert made.tree[f"{CPU}/{name}"] == wanted[f"{CPU}/{name}"]
    assert topologies.lint(made.tree) == []
    assert os.uname().nodename not in made.source


@pytest.mark.usefixtures("real")
def test_a_real_kernel_shows_what_qemu_was_told() -> None:
    made = boot("-smp 2,cores=1,threads=2 -nosmt")
    assert made.tree[f"{CPU}/online"] == "0\n"
    assert made.tree[f"{CPU}/smt/control"] == "off\n"
    assert (made.shape, made.source) == (
        "",
        f"captured with QEMU (-smp 2,cores=1,threads=2 -nosmt), Linux {made.kernel}, x86_64",
    )


@pytest.mark.parametrize(
    ("target", "arch"),
    [
        ("arm64 -smp 4,sockets=2,cores=2", "aarch64"),
        ("ppc64 -smp 4,sockets=2,cores=2", "ppc64le"),
        ("s390x -smp 4", "s390x"),
    ],
)
def test_a_real_kernel_of_another_architecture(target: str, arch: str) -> None:
    board = layout(target).board
    if shutil.which(board.program) is None:
        lacking.skip("board", f"{board.program} ({board.package})")
    try:
        parts(board=board)
    except CaptureError as error:
        lacking.skip("kernel", error)
    made = capture_qemu(target, deadline=400)
    assert (made.arch, made.warnings) == (arch, ())
    assert made.tree[f"{CPU}/online"] == "0-3\n"
    assert topologies.lint(made.tree) == []
