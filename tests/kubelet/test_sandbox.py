"""The sandbox, with small programs in the place of kubelets."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from errno import EINVAL, EPERM
from pathlib import Path
from typing import IO, Any

import pytest

import topologies
from conformance.subject import SubjectLostError, SubjectSetupError
from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.huge_pages import with_huge_pages_of_all
from conformance.subjects.kubelet.inside import __file__ as inside_file
from conformance.subjects.kubelet.inside import calls, namespaces, root
from conformance.subjects.kubelet.sandbox import AREA, STATE_DIR, Sandbox
from tests.kubelet.conftest import Script
from tests.support import lacking

PATIENCE = 30.0
DENIED = "Operation not permitted"
ALLOW = f"{DENIED}: run it as root, or allow user namespaces: sysctl"


class Inside:
    """A sandbox, with waiting."""

    def __init__(self, script: Script, **how: Any) -> None:
        self.bell = Bell()
        self.sandbox = Sandbox(self.bell, **how)
        self.sandbox.await_birth()
        self._script = script

    def start(
        self, program: str | Path, *arguments: str, cgroups: Sequence[str] | None = None
    ) -> None:
        """Start a program, or Python's code."""
        path = program if isinstance(program, Path) else self._script(program)
        self.sandbox.start([str(path), *arguments], os.environ, cgroups=cgroups)

    def run(self, program: str, *arguments: str, cgroups: Sequence[str] | None = None) -> str:
        """What a program says; it has to end by itself."""
        self.start(program, *arguments, cgroups=cgroups)
        self.until(lambda: not self.sandbox.running)
        assert self.sandbox.log is not None
        return self.sandbox.log.excerpt(tail=400)

    def begin(self, program: str | Path) -> None:
        """Start a program, and wait until it has written the file ``ready``."""
        self.start(program)
        self.until(lambda: self.sandbox.path(f"{AREA}/ready").exists())

    def bind(self, machine: str, number: int) -> None:
        """Show this machine, the first or another one, to what is run from now on."""
        folder = f"{AREA}/machines/{number}"
        topologies.write(topologies.machine(machine).tree, self.sandbox.path(folder))
        self.sandbox.bind_machine(folder)

    def until(self, condition: Callable[[], bool]) -> None:
        assert self.bell.until(condition, 30), "it did not come to pass"


@contextmanager
def made(script: Script, **how: bool) -> Iterator[Inside]:
    """One, where it can be made."""
    try:
        one = Inside(script, **how)
    except SubjectSetupError as error:
        lacking.skip("sandbox", error)
    yield one
    one.sandbox.close()


@pytest.fixture(params=[False, True], ids=["as-is", "user-namespace"])
def inside(request: pytest.FixtureRequest, script: Script) -> Iterator[Inside]:
    with made(script, user_namespace=request.param) as one:
        yield one


@pytest.fixture
def with_machine(script: Script) -> Iterator[Inside]:
    """One that shows a machine."""
    with made(script) as one:
        one.bind("1s-1n-4c-smt1", 0)
        yield one


@pytest.fixture
def with_cgroups(with_machine: Inside) -> Inside:
    """One that shows a machine, and hears the calls of its programs."""
    if not calls.can_be_heard():
        lacking.skip("seccomp")
    return with_machine


def test_a_program_runs_and_its_end_is_known(inside: Inside) -> None:
    """What it writes to the tmpfs is seen by the runner."""
    inside.run(f"open('{STATE_DIR}/cpu_manager_state', 'w').write('text')")
    assert inside.sandbox.path(f"{STATE_DIR}/cpu_manager_state").read_text() == "text"
    said = inside.run("import sys; print('hello'); sys.exit(3)")
    assert (said, inside.sandbox.exit_status) == ("hello", 3)
    inside.run("import os; os.kill(os.getpid(), 9)")
    assert inside.sandbox.exit_status == -9, "a signal's number"


def test_one_program_at_a_time(inside: Inside, tmp_path: Path) -> None:
    """And one that can be executed. To close the sandbox twice is to close it once."""
    with pytest.raises(SubjectLostError, match="cannot be executed: No such file"):
        inside.start(tmp_path / "absent")
    assert not inside.sandbox.running
    inside.start("import signal; signal.pause()")
    with pytest.raises(SubjectLostError, match="a kubelet is running"):
        inside.start("import signal; signal.pause()")
    inside.sandbox.close()
    inside.sandbox.close()
    assert not inside.sandbox.running
    assert inside.sandbox.lost


def test_nobody_on_the_host_is_written_to(inside: Inside, tmp_path: Path) -> None:
    places = [str(tmp_path / "x"), "/usr/x", "/etc/x", "/proc/sys/kernel/hostname"]
    said = inside.run(
        "import sys\n"
        "for place in sys.argv[1:]:\n"
        "    try: open(place, 'w').write('x')\n"
        "    except OSError as error: print(place, error.errno)\n",
        *places,
    )
    assert len(said.splitlines()) == len(places), said
    assert not (tmp_path / "x").exists()


def test_kernel_settings_are_private(inside: Inside) -> None:
    names = [name for name in root.PRIVATE_SETTINGS if Path("/proc/sys", name).exists()]
    readable = [name for name in names if os.access(Path("/proc/sys", name), os.R_OK)]
    before = {name: Path("/proc/sys", name).read_text() for name in readable}
    said = inside.run(
        "import sys\n"
        "for place in sys.argv[1:]:\n"
        "    open(place, 'w').write('7')\n"
        "    print(open(place).read())\n",
        *[f"/proc/sys/{name}" for name in names],
    )
    assert said.split() == ["7"] * len(names)
    after = {name: Path("/proc/sys", name).read_text() for name in readable}
    assert after == before
    assert names


def test_the_hosts_services_are_out_of_reach(inside: Inside) -> None:
    said = inside.run(
        "import os, socket\n"
        "print(os.listdir('/run'), sorted(os.listdir('/proc/sys/net')) != [])\n"
        "print([name for _, name in socket.if_nameindex()])\n"
        "socket.create_server(('127.0.0.1', 10250)).close()\n"
    )
    listing, devices = said.splitlines()
    assert listing == "[] True"
    assert "lo" in devices
    assert "eth" not in devices


def test_a_socket_of_the_sandbox_reaches_its_programs(inside: Inside) -> None:
    inside.begin(
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 10255)) as server:\n"
        f"    open('{AREA}/ready', 'w').close()\n"
        "    server.accept()[0].sendall(b'hi')\n"
    )
    with inside.sandbox.socket() as ours:
        ours.settimeout(PATIENCE)
        ours.connect(("127.0.0.1", 10255))
        assert ours.recv(10) == b"hi"


def test_killing_reaches_what_a_wrapper_started(inside: Inside) -> None:
    inside.begin(
        "import os, signal, sys\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"    open('{AREA}/ready', 'w').close()\n"
        "    signal.pause()\n"
        "signal.pause()\n"
    )
    inside.sandbox.kill()
    inside.until(lambda: not inside.sandbox.running)
    assert inside.sandbox.exit_status == -9
    alone = inside.run(
        "import os; print(sorted(int(name) for name in os.listdir('/proc') if name.isdigit())[:2])"
    )
    assert alone.startswith("[1, "), alone


def test_terminating_reaches_the_child_of_a_shell(inside: Inside, tmp_path: Path) -> None:
    program = tmp_path / "wrapper.sh"
    program.write_text(
        f"#!/bin/sh\n(trap 'echo bye; exit' TERM; : >{AREA}/ready; read x </{AREA}/p)\n"
    )
    program.chmod(0o755)
    os.mkfifo(inside.sandbox.path(f"{AREA}/p"))
    inside.begin(program)
    inside.sandbox.terminate()
    inside.until(lambda: not inside.sandbox.running)
    assert inside.sandbox.log is not None


def test_a_machine_takes_the_place_of_the_hosts(inside: Inside, script: Script) -> None:
    program = (
        "import os\n"
        "print(open('/sys/devices/system/cpu/online').read().strip(),\n"
        "      len(os.listdir('/sys/devices/system/node')) > 0,\n"
        "      open('/proc/cpuinfo').read().count('processor\t'))\n"
    )
    for number, (spec, online, cpus) in enumerate(
        [("1s-1n-4c-smt1", "0-3", 4), ("2s-2n-8c-smt2", "0-15", 16)]
    ):
        inside.bind(spec, number)
        assert inside.run(program) == f"{online} True {cpus}"


def test_the_hosts_huge_pages_are_out_of_sight(inside: Inside) -> None:
    """And the machine shows those of its NUMA nodes together."""
    folder = "/sys/kernel/mm/hugepages"
    assert inside.run(f"import os; print(os.listdir('{folder}'))") == "[]"
    machine = topologies.machine("2s-2n-8c-smt2-128mib-hugepages-2Mi-16,8")
    tree = with_huge_pages_of_all(machine.tree)
    topologies.write(tree, inside.sandbox.path(f"{AREA}/machines/0"))
    inside.sandbox.bind_machine(f"{AREA}/machines/0")
    name = f"{folder}/hugepages-2048kB/nr_hugepages"
    assert inside.run(f"print(open('{name}').read().strip())") == "24"


def test_more_huge_pages_than_the_host_has_memory_for_are_none() -> None:
    tree = topologies.machine("2s-2n-8c-smt2-128mib-hugepages-1Gi-0,999999").tree
    whole = with_huge_pages_of_all(tree)
    assert whole["sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"] == "0\n"
    plain = topologies.machine("2s-2n-8c-smt2").tree
    assert with_huge_pages_of_all(plain) is plain


@pytest.mark.needs("sandbox")
def test_a_process_that_the_kernel_does_not_end_is_told(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody waits for it for ever."""
    sandbox = Inside(script).sandbox
    process = sandbox._process

    class Unkillable:
        pid = process.pid

        def ends_within(self, seconds: float) -> bool:
            return False

        def kill(self) -> None:
            """As if it were waiting in the kernel."""

    monkeypatch.setattr(sandbox, "_process", Unkillable())
    with pytest.raises(OSError, match=f"process {process.pid} is there 30 s after SIGKILL"):
        sandbox.close()
    assert process.ends_within(30)


def test_mounts_can_be_made_read_only_one_by_one(script: Script) -> None:
    """What kernels without ``mount_setattr`` get; the others never come here by themselves."""
    program = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "import syscalls as init\n"
        "init.mount('t', '/pinproof/tmp', 'tmpfs')\n"
        "import os; os.mkdir('/pinproof/tmp/a b')\n"
        "init.mount('t', '/pinproof/tmp/a b', 'tmpfs', 2)\n"
        "init.read_only_one_by_one('/pinproof/tmp')\n"
        "for place in ('/pinproof/tmp/x', '/pinproof/tmp/a b/x'):\n"
        "    try: open(place, 'w')\n"
        "    except OSError as error: print(error.strerror)\n"
    )
    with made(script) as inside:
        said = inside.run(program, str(Path(inside_file).parent))
    assert said.splitlines() == ["Read-only file system"] * 2


def _mounted(at: str) -> dict[str, str]:
    return {"self/mountinfo": f"36 35 98:0 / {at} rw,noatime shared:1 - ext4 /dev/vda rw\n"}


@pytest.mark.parametrize(
    ("error", "files", "says"),
    [
        (EPERM, {"sys/user/max_user_namespaces": "0\n"}, f"{ALLOW} user.max_user_namespaces=10000"),
        (EPERM, {"sys/kernel/unprivileged_userns_clone": "0\n"},
         f"{ALLOW} kernel.unprivileged_userns_clone=1"),
        (EPERM, {"sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"},
         f"{ALLOW} kernel.apparmor_restrict_unprivileged_userns=0 "
         "(or an AppArmor profile with userns)"),
        (EPERM, {"containerenv": "", **_mounted("/")},
         f"{DENIED}: the container forbids them: start it with --privileged, or with --cap-add="),
        (EPERM, _mounted("/proc"),
         f"{DENIED}: an ordinary user has none in a chroot: run it as root, or outside"),
        (EPERM, _mounted("/"),
         f"{DENIED}: run it as root, or where user namespaces are allowed"),
        (EINVAL, {}, "Invalid argument"),
    ],
    ids=["none may be", "not for users", "AppArmor", "container", "chroot", "else", "no right"],
)  # fmt: skip
def test_refused_namespaces_are_told_with_what_permits_them(
    error: int, files: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The setting that forbids them is named. What is no matter of rights has no advice."""

    def refuse(flags: int) -> None:
        raise OSError(error, os.strerror(error))

    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(namespaces, "_PROC", tmp_path)
    monkeypatch.setattr(namespaces, "_CONTAINER", (tmp_path / "containerenv",))
    monkeypatch.setattr(namespaces, "unshare", refuse)
    with pytest.raises(namespaces.Refused) as caught:
        namespaces.enter(user=False)
    said = str(caught.value)
    assert said.startswith(f"namespaces: {says}")
    assert said == f"namespaces: {says}" or error == EPERM


def test_cgroups_are_the_sandboxs_own(with_cgroups: Inside) -> None:
    """The calls are those that Go's library makes; Python's makes them with ``dir_fd``."""
    program = (
        "import ctypes, os, struct\n"
        "def kind(path):\n"
        "    found = ctypes.create_string_buffer(120)\n"
        "    libc = ctypes.CDLL(None, use_errno=True)\n"
        "    return '' if libc.statfs(path, found) else hex(struct.unpack('=15Q', found.raw)[0])\n"
        "root, pods = '/sys/fs/cgroup', '/sys/fs/cgroup/kubepods'\n"
        "here = os.open('/', os.O_RDONLY)\n"
        "def tried(call, *words):\n"
        "    try: call(*words, dir_fd=here)\n"
        "    except OSError as error: return error.strerror\n"
        "print(kind(root.encode()), kind(b'/etc') != '0x63677270', repr(kind(pods.encode())))\n"
        "print(tried(os.mkdir, pods), tried(os.mkdir, pods), tried(os.mkdir, root + '/no/such'))\n"
        "print(open(pods + '/memory.max').read())\n"
        "print(open(pods + '/cgroup.controllers').read().strip())\n"
        "print(tried(os.mkdir, pods + '/pod1'), tried(os.rmdir, pods))\n"
        "print(tried(os.rmdir, pods + '/pod1'), tried(os.rmdir, pods), os.path.exists(pods))\n"
        "print(tried(os.mkdir, '/pinproof/tmp/a'), tried(os.rmdir, '/pinproof/tmp/a'))\n"
    )
    assert with_cgroups.run(program, cgroups=()).splitlines() == [
        "0x63677270 True ''",
        "None File exists No such file or directory",
        "max",
        "cpuset cpu io memory pids",
        "None Device or resource busy",
        "None None False",
        "None None",
    ]


def test_a_write_to_a_cgroup_replaces_what_it_had(with_cgroups: Inside) -> None:
    """As runc's library writes: opened by ``openat2`` below the root cgroup, and not truncated. The
    end of what was longer stayed, and a kubelet of 1.37 took a pod of 2 CPUs for one of 20."""
    program = (
        "import ctypes, os, struct\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "root = os.open('/sys/fs/cgroup', os.O_PATH)\n"
        "def opened(name, flags, folder=root):\n"
        "    return libc.syscall(437, folder, name, struct.pack('=3Q', flags, 0, 0), 24)\n"
        "def written(name, text):\n"
        "    file = opened(name, os.O_WRONLY)\n"
        "    os.write(file, text)\n"
        "    os.close(file)\n"
        "    return os.read(opened(name, os.O_RDONLY), 99).decode()\n"
        "weight = b'kubepods/cpu.weight'\n"
        "print(written(weight, b'118'), written(weight, b'79'))\n"
        "most = b'kubepods/cpu.max'\n"
        "print(written(most, b'300000 100000'), written(most, b'max'))\n"
        "print(opened(b'kubepods/none', os.O_WRONLY), ctypes.get_errno())\n"
        "print(opened(b'/pinproof/none', os.O_WRONLY), ctypes.get_errno())\n"
        "os.chdir('/pinproof/tmp')\n"
        "open('here', 'w').write('as it was')\n"
        "print(opened(b'here', os.O_WRONLY, -100) > 0, open('here').read())\n"
    )
    said = with_cgroups.run(program, cgroups=["kubepods"])
    assert said.splitlines() == ["118 79", "300000 100000 max", "-1 2", "-1 2", "True as it was"]


def test_own_cgroups_are_seen_by_who_needs_them_and_stay(with_machine: Inside) -> None:
    """A kubelet of 1.20 cannot start over them, and the one of 1.36 that follows needs them."""
    run, pods = with_machine.run, "/sys/fs/cgroup/kubepods"
    seen = f"import os; print(sorted(os.listdir('/sys/fs/cgroup')), os.path.exists({pods!r}))"
    hosts = run(seen)
    run(f"import os; os.mkdir({pods!r})", cgroups=())
    assert run(seen, cgroups=()) != hosts
    assert run(seen) == hosts
    assert run(seen, cgroups=()).rstrip().endswith("True")
    with_machine.bind("1s-1n-4c-smt2", 1)
    assert run(seen, cgroups=()).rstrip().endswith("False"), "it has booted"
    found = "import os; print(sorted(os.listdir('/sys/fs/cgroup/kubepods/burstable/pod1')))"
    assert "cpu.weight" in run(found, cgroups=["kubepods/burstable/pod1"])


def test_a_program_that_ends_while_its_call_is_read_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its memory was opened, and is empty now. Pid 1 read it for ever: 1 of 80 stops of 1.37.0."""
    program = subprocess.Popen(["/bin/sleep", "60"])

    def opened_and_ended(*args: Any, **kwargs: Any) -> IO[bytes]:
        memory: IO[bytes] = open(*args, **kwargs)  # noqa: PTH123, SIM115  - as pid 1 does
        program.kill()
        program.wait()
        return memory

    monkeypatch.setattr(calls, "open", opened_and_ended, raising=False)
    with pytest.raises(ProcessLookupError):
        calls.text_at(program.pid, 0x1000)
