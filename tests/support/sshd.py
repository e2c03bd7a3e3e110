"""An SSH server of one's own on this host: own port, own keys, own folder; for tests and
benchmarks of what goes over SSH. Needs ``sshd`` (Debian: openssh-server) and root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hil.transport import NodeAddress
from tests.support import lacking
from tests.support.carrying import free_port

_DIE_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15, 0, 0, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


#: Who logs in where an :class:`Operator` is asked for; not root, and root by sudo.
OPERATOR = "operator"
#: Before a server starts, in a mount namespace of its own: who there is, and what sudo permits.
_HAVE_AN_OPERATOR = """
cd "$1" && shift
mkdir -p /run/sudo
for name in passwd shadow sudoers; do mount --bind $name /etc/$name || exit; done
for place in /run/sudo /var/lib/sudo /mnt; do mount -t tmpfs none $place || exit; done
cp authorized_keys /mnt && chmod 711 /mnt || exit
exec "$@"
"""


#: Mounts and processes: a kubelet of this host is none of that node's.
_ITS_OWN = ("--mount", "--pid", "--fork", "--mount-proc", "--kill-child")


@dataclass(frozen=True, slots=True)
class Operator:
    """A login that is not root: its password, what its entry in sudoers permits, and the ``PATH``
    that sudo gives to root."""

    password: str
    permits: str = "(ALL:ALL) ALL"
    path: str = os.defpath

    def write(self, folder: Path) -> None:
        """The files below ``/etc`` that a server with it sees."""
        line = self.password.encode()
        hashed = subprocess.run(
            ["openssl", "passwd", "-6", "-stdin"], input=line, capture_output=True, check=True
        ).stdout.decode()
        rest = {
            "passwd": f"{OPERATOR}:x:64242:64242::/:/bin/sh\n",
            "shadow": f"{OPERATOR}:{hashed.strip()}:19000:0:99999:7:::\n",
        }
        for name, text in rest.items():
            there = Path("/etc", name).read_text()
            kept = [one for one in there.splitlines(True) if not one.startswith(f"{OPERATOR}:")]
            (folder / name).write_text("".join(kept) + text)
        (folder / "shadow").chmod(0o640)
        sudoers = folder / "sudoers"
        sudoers.write_text(f"Defaults secure_path={self.path}\n{OPERATOR} ALL={self.permits}\n")
        sudoers.chmod(0o440)


class OwnSshd:
    """One running server. ``key`` logs in as ``user``; ``known_hosts`` knows its host key.
    ``force_command`` is run whatever is asked for; ``path`` is the ``PATH`` of what is run.
    ``operator``: who logs in instead of root, in a server with accounts of its own. ``sessions``:
    how many a connection may have at a time. ``root``: who logs in has to be root."""

    def __init__(
        self,
        folder: Path,
        *,
        force_command: str = "",
        path: str = "",
        operator: Operator | None = None,
        sessions: int = 50,
        root: bool = True,
    ) -> None:
        program = lacking.program("sshd")
        lacking.program("ssh-keygen")
        if root and os.geteuid() != 0:
            lacking.skip("root", "an SSH server of one's own")
        for one in ("sudo", "unshare", "openssl") if operator else ():
            lacking.program(one)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.user = OPERATOR if operator else pwd.getpwuid(os.geteuid()).pw_name
        self.key = self.new_key("client")
        self.host_key = self.new_key("host")
        self.known_hosts = folder / "known_hosts"
        self.log = folder / "log"
        authorized = folder / "authorized_keys"
        authorized.write_text(self.key.with_suffix(".pub").read_text())
        keys = Path("/mnt/authorized_keys") if operator else authorized
        home = Path("/") if operator else folder
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.port = free_port()
        config = folder / "config"
        config.write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.host_key}\n"
            f"PidFile none\nAuthorizedKeysFile {keys}\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin prohibit-password\nPrintMotd no\nMaxStartups 200\n"
            f"MaxSessions {sessions}\n"
            # What a login shell reads at home is not what is measured.
            f"LogLevel VERBOSE\nSetEnv HOME={home}{path and f' PATH={path}'}\n"
            + (f"ForceCommand {force_command}\n" if force_command else "")
        )
        self.remember(self.host_key)
        command = [program, "-D", "-f", str(config), "-E", str(self.log)]
        if operator:
            operator.write(folder)
            unshare = [str(shutil.which("unshare")), *_ITS_OWN]
            script = [*unshare, "sh", "-c", _HAVE_AN_OPERATOR, "sh", str(folder)]
            command = [*script, *command]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, *command],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait()

    @property
    def url(self) -> str:
        """How the project names it."""
        return f"ssh://{self.user}@127.0.0.1:{self.port}"

    def address(self, name: str = "node1") -> NodeAddress:
        """Of a node of this name."""
        return NodeAddress(name, self.url, identity=(self.key,), known_hosts=self.known_hosts)

    def connections(self) -> list[int]:
        """Process ids of the server's connections."""
        pids = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                words = stat.read_text().rpartition(")")[2].split()
                if int(words[1]) == self.process.pid:
                    pids.append(int(stat.parent.name))
        return pids

    def cut(self) -> None:
        for pid in self.connections():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        self.cut()
        self.process.terminate()
        self.process.wait(timeout=10)

    def new_key(self, name: str, *, kind: str = "ed25519", passphrase: str = "") -> Path:
        """In the server's folder, which has its public half, too."""
        path = self.folder / name
        words = ["-q", "-t", kind, "-N", passphrase, "-C", name, "-f", str(path)]
        subprocess.run(["ssh-keygen", *words], check=True)
        return path

    def remember(self, key: Path) -> None:
        """The file of known hosts says from now on that this is the server's key."""
        public = " ".join(key.with_suffix(".pub").read_text().split()[:2])
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {public}\n")

    def _wait(self) -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        raise AssertionError(f"sshd: {self.log.read_text() if self.log.exists() else 'no log'}")


def own_sshd(folder: Path, **how: Any) -> contextlib.closing[OwnSshd]:
    """A server of this kind while the block runs; without what it takes, the test skips."""
    return contextlib.closing(OwnSshd(folder, **how))
