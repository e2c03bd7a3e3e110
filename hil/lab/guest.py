"""A lab node seen over SSH: whether its kubelet is ready, its machine, and its identity."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hil.lab import keys as keyring
from hil.lab import names
from hil.lab.errors import LabError
from hil.lab.kubelet import STATE
from hil.lab.payload import Keys
from hil.lab.recipe import tar
from hil.shell import NodeTimeout, NodeUnreachable, Shell
from hil.transport import NodeAddress, connect
from topologies.capturing import BadTarget, CaptureError, capture_ssh
from topologies.capturing.expected import differences
from topologies.errors import one_line

#: A kubelet that was started this often within a boot has failed.
_STARTS: Final = 3
_POLL: Final = 0.5
#: How often the guest checks before it answers: a round trip costs it more than a check.
_LOOKS: Final = 6
#: Texts in a kubelet's last error, which differ by release.
_ENDS: Final = (
    "Failed to start ContainerManager",
    '"command failed" err=',
    '"Failed to run kubelet"',
    "failed to run Kubelet",
)
_COMMAND: Final = 60.0

#: A kubelet that waits for its runtime is healthy, and refuses its state file only then. The device
#: manager is started after the CPU manager (``pkg/kubelet/cm/container_manager_linux.go``), and the
#: kernel lists its socket only while the process that made it lives.
_PAST_CPU_MANAGER: Final = "/device-plugins/kubelet.sock"
#: Busybox's wget dies of its own timeout under emulation.
_KUBELET: Final = f"""
healthz() {{
  timeout 10 bash -c 'exec 3<>/dev/tcp/127.0.0.1/10248 &&
    printf "GET /healthz HTTP/1.0\\r\\n\\r\\n" >&3 && tail -n 1 <&3' 2>/dev/null
}}
for look in $(seq {_LOOKS}); do
  if grep -q {_PAST_CPU_MANAGER} /proc/net/unix && [ -s {STATE} ] && [ "$(healthz)" = ok ]
  then echo ready; exit; fi
  sleep {_POLL}
done
if [ "$(systemctl show -P NRestarts kubelet)" -ge {_STARTS} ]; then
  echo failing
  journalctl -u kubelet -o cat -n 200 --no-pager
else
  echo waiting
fi
"""

#: On stdin are the files that give the node its identity.
_BECOME: Final = """
set -e
date -u -s "@{now}" >/dev/null
tar -xf - -C / --no-same-owner
hostname "$(cat /etc/hostname)"
cat /run/pinproof-seed >/dev/urandom
rm -f /run/pinproof-seed
# Who pulls the plug next finds the same node again.
sync
kill -HUP "$(cat /run/sshd.pid)"
"""


@dataclass(frozen=True, slots=True)
class Door:
    """How a guest is reached: its forwarded port, and the folder that has the keys."""

    name: str
    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"ssh://root@127.0.0.1:{self.port}"

    @property
    def address(self) -> NodeAddress:
        """For :mod:`hil.transport`."""
        return NodeAddress(
            name=self.name,
            url=self.url,
            identity=(self.folder / keyring.LOGIN,),
            known_hosts=self.folder / keyring.KNOWN_HOSTS,
        )

    @contextmanager
    def opened(self, until: float, stop: Callable[[], None]) -> Iterator[Shell]:
        """A shell, tried until ``until`` (of ``time.monotonic``): sshd may not listen yet while
        QEMU accepts connections for it."""
        while True:
            stop()
            try:
                shell = connect(self.address)
                break
            except NodeUnreachable as error:
                if time.monotonic() > until:
                    raise LabError(f"{self.name}: no SSH connection: {error}") from error
            time.sleep(_POLL)
        with closing(shell):
            yield shell


def refusal(shell: Shell, until: float, stop: Callable[[], None]) -> str:
    """``""`` once the kubelet is ready; its error in one line, once it has failed several times.
    Raises :class:`LabError` where neither happened by ``until``."""
    while True:
        stop()
        try:
            said, _, log = shell.run(_KUBELET, deadline=_COMMAND).text.partition("\n")
        except NodeTimeout as error:
            if time.monotonic() > until:
                raise LabError(str(error)) from error
            continue
        if said == "ready":
            return ""
        if said == "failing":
            return _fatal_line(log)
        if time.monotonic() > until:
            raise LabError(f"{shell.name}: its kubelet was not ready in time")
        time.sleep(_POLL)


def _fatal_line(log: str) -> str:
    """The error with which the kubelet ended, from the end of its log."""
    lines = [line for line in log.splitlines() if line.strip()]
    for sign in _ENDS:
        found = [line for line in lines if sign in line]
        if found:
            return one_line(found[-1])
    errors = [line for line in lines if line[:1] in "EF"] or lines
    return one_line(errors[-1]) if errors else "it says nothing"


def difference(door: Door, spec: str) -> str:
    """``""`` where the guest's kernel shows the machine that ``spec`` describes, else one line."""
    if not spec:
        return ""
    known_hosts = door.folder / keyring.KNOWN_HOSTS
    key = door.folder / keyring.LOGIN
    try:
        capture = capture_ssh(door.url, known_hosts=known_hosts, key=key, deadline=180)
    except (BadTarget, CaptureError) as error:
        raise LabError(f"{door.name}: its machine cannot be read: {error}") from error
    return differences(capture.tree, spec)


def become(shell: Shell, keys: Keys, hostname: str) -> None:
    """Give the guest, which came out of a snapshot, its own keys, name, time and randomness. Its
    sshd shows the new key from then on."""
    files = {
        **keys.files(),
        **names.files(hostname),
        "run/pinproof-seed": (secrets.token_bytes(64), 0o600),
    }
    script = _BECOME.replace("{now}", f"{time.time():.3f}")
    done = shell.run(script, stdin=tar(files, {}), deadline=_COMMAND)
    if done.status:
        why = one_line(done.stderr.decode("utf-8", "replace").strip())
        raise LabError(f"{shell.name}: its host name cannot be set: {why}")


def prepare_to_sleep(shell: Shell) -> None:
    """Write everything to disk, and drop what memory holds of it."""
    shell.run("sync; echo 3 >/proc/sys/vm/drop_caches; sync", deadline=_COMMAND)


def power_off(shell: Shell) -> None:
    shell.run("systemctl --no-block poweroff", deadline=_COMMAND)
