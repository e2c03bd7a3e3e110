"""What is asked of a node: POSIX scripts, and the records that they print.

A stream is records and an end. A record begins with a line of a token, its kind and its key; its
value is all bytes up to the next such line. The token is random for each question, so no file and
no program's output can look like a record, and an answer that is cut off or made up is noticed.
Programs write straight into the stream: each process costs a node under load or emulation time.

The first script asks what needs no knowledge of the node, the second where the first one's answers
lead to. Two more are asked where they are needed: a certificate asks what identifies the node, and
a probe with which configuration the kubelet runs.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from topologies.capturing.script import script as capture_script

#: Bytes that are read of any one file.
LARGEST: Final = 1 << 20
#: Bytes of a whole answer: a machine of 8192 CPUs has a capture of some 40 MiB.
LIMIT: Final = 128 << 20
DEADLINE: Final = 240.0
#: Seconds that one program may take to answer.
PATIENCE = 60

#: Units that a kubelet lives in, most telling first, and the program that holds it there.
HOLDER_OF_UNIT: Final = {
    "k3s.service": "k3s",
    "k3s-agent.service": "k3s",
    "rke2-server.service": "kubelet",
    "rke2-agent.service": "kubelet",
    "k0scontroller.service": "kubelet",
    "k0sworker.service": "kubelet",
    "snap.microk8s.daemon-kubelite.service": "kubelite",
    "microshift.service": "microshift",
    "kubelet.service": "kubelet",
}
#: These, the runtimes' units, and the unit that removes state files at boot.
UNITS: Final = (
    *HOLDER_OF_UNIT,
    "containerd.service",
    "crio.service",
    "kubelet-cleanup.service",
)
_SHOWN: Final = (
    "Id,LoadState,ActiveState,SubState,FragmentPath,DropInPaths,MainPID,NRestarts,ExecStart,"
    "Environment,EnvironmentFiles"
)
#: What a run puts on a node beside its changes: a folder, and units that end the run where it dies.
LEFTOVERS: Final = (
    "/var/lib/pinproof",
    "/run/pinproof-dead-man.sh",
    "/run/systemd/system/pinproof-dead-man.timer",
    "/run/systemd/system/pinproof-dead-man.service",
    # Up to 0.1 the timer was transient.
    "/run/systemd/transient/pinproof-dead-man.timer",
    "/run/systemd/transient/pinproof-dead-man.service",
    "/etc/systemd/system/pinproof-dead-man-boot.service",
    "/etc/systemd/system/multi-user.target.d/pinproof.conf",
)
#: Files and folders whose presence shows a distribution, leftovers of a run, or cgroups.
PLACES: Final = (
    "/etc/kubernetes/kubelet.conf",
    "/etc/kubernetes/bootstrap-kubelet.conf",
    "/etc/kubernetes/manifests/kube-apiserver.yaml",
    "/etc/machine-config-daemon/currentconfig",
    "/etc/eks/kubelet/environment",
    "/etc/rancher/k3s",
    "/etc/rancher/rke2",
    "/etc/k0s",
    "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "/opt/azure/containers",
    "/run/k0s/kubelet/config.yaml",
    "/var/lib/k0s/kubelet-config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/var/lib/rancher/k3s",
    "/var/lib/rancher/rke2",
    "/var/lib/k0s",
    "/var/snap/microk8s/current",
    *LEFTOVERS,
    "/sys/fs/cgroup/kubepods",
    "/sys/fs/cgroup/kubepods.slice",
    "/sys/fs/cgroup/cpuset/kubepods",
    "/sys/fs/cgroup/cpuset/kubepods.slice",
    "/sys/fs/cgroup/cpuset/cpuset.cpus",
    "/sys/fs/cgroup/cgroup.controllers",
    "/run/systemd/system",
)
TOOLS: Final = (
    "base64", "conmon", "containerd", "crictl", "crio", "crun", "ctr", "flock", "k0s", "k3s",
    "kubeadm", "kubectl", "microk8s", "rke2", "runc", "setsid", "sha256sum", "systemctl",
    "systemd-run", "timeout",
)  # fmt: skip
#: What firmware says of the machine and of itself (Linux, ``drivers/firmware/dmi-id.c``). Serial
#: numbers are asked for apart (:mod:`hil.inspection.marks`).
DMI: Final = (
    "sys_vendor", "product_name", "product_version", "board_vendor", "board_name",
    "bios_vendor", "bios_version", "bios_date",
)  # fmt: skip
_VALUES: Final = (
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/random/boot_id",
    "/proc/uptime",
    "/proc/cmdline",
    "/proc/sys/kernel/hostname",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/nohz_full",
    "/sys/fs/cgroup/cgroup.controllers",
    "/proc/device-tree/model",
    *(f"/sys/class/dmi/id/{name}" for name in DMI),
)

_COMMON: Final = r"""R=@ROOT@
T=@TOKEN@
rec() { printf '\n%s %s %s\n' "$T" "$1" "$2"; }
file() { [ -f "$R$1" ] && [ -r "$R$1" ] && rec file "$1" && head -c @LARGEST@ "$R$1"; }
have() { command -v "$1" >/dev/null 2>&1; }
bounded() { if have timeout; then timeout -k 1 @PATIENCE@ "$@"; else "$@"; fi; }
"""

_FIRST: Final = r"""
set --
for f in @VALUES@; do [ -r "$R$f" ] && set -- "$@" "$R$f"; done
rec text values; awk 'FNR == 1 { print FILENAME "=" $0 }' "$@"; echo "arch=$(uname -m)"
rec text places; for f in @PLACES@; do [ -e "$R$f" ] && echo "$f"; done
rec text tools; for t in @TOOLS@; do have "$t" && echo "$t"; done
file /etc/os-release
rec text virtual; have systemd-detect-virt && bounded systemd-detect-virt --vm 2>/dev/null
rec text df; df -Pk "$R/" "$R/var/lib" "$R/var/lib/kubelet" 2>/dev/null
for p in "$R"/proc/[0-9]*; do
  c=; read -r c <"$p/comm" || continue
  case $c in
    kubelet|kubelite|k3s*|k0s*|rke2*|microshift|hyperkube|containerd|crio) ;;
    *) continue ;;
  esac
  n=${p##*/}
  rec cmdline "$n"; cat "$p/cmdline"
  rec process "$n"
  echo "comm=$c"
  echo "exe=$(readlink "$p/exe")"
  read -r s <"$p/stat" && echo "stat=$s"
  while read -r g; do
    case $g in 0::*|*:name=systemd:*) echo "cgroup=${g#*:*:}" ;; esac
  done <"$p/cgroup"
done 2>/dev/null
if have systemctl && [ -d "$R/run/systemd/system" ]; then
  rec text systemd; systemctl --version 2>/dev/null
  u=$(bounded systemctl show --no-pager -p @SHOWN@ @UNITS@ 2>/dev/null)
  rec text units; printf '%s\n' "$u"
  printf '%s\n' "$u" |
    sed -n 's/^FragmentPath=//p; s/^DropInPaths=//p; s/^EnvironmentFiles=\([^ ]*\).*/\1/p' |
    tr ' ' '\n' | sort -u | while read -r f; do [ -z "$f" ] || file "$f"; done
fi
rec text capture
( set -- "$R/"
@CAPTURE@
)
rec end .
"""

_SECOND: Final = r"""
for f in @FILES@; do file "$f"; done
for d in @FOLDERS@; do
  [ -d "$R$d" ] && find "$R$d" -type f \( -name '*.conf' -o -name '*.yaml' \) 2>/dev/null |
    sort | while read -r f; do file "${f#"$R"}"; done
done
for x in @PROGRAMS@; do
  case $x in /*) y=$R$x ;; *) y=$x ;; esac
  have "$y" || continue
  # MicroShift has a command for it, and no flag.
  case $x in */microshift) a=version ;; *) a=--version ;; esac
  rec version "$x"; bounded "$y" $a </dev/null 2>&1
  # What timeout(1) ends with, also where it has to kill, and that of busybox.
  case $? in 124|137|143) rec slow "$x" ;; esac
done
x=@SUMMED@
case $x in /*) [ ! -f "$R$x" ] || { rec text digest; bounded sha256sum <"$R$x"; } ;; esac
@RUNTIME@
for d in @LISTED@; do [ -d "$R$d" ] && rec list "$d" && ls -1 "$R$d"; done
for f in @FILES@; do
  [ -e "$R$f" ] && rec mtime "$f" && stat -c %Y "$R$f" 2>/dev/null
done
rec text now; date +%s
rec end .
"""

_MARKS: Final = r"""
for f in @FILES@; do
  [ -e "$R$f" ] || continue
  if head -c 1 "$R$f" >/dev/null 2>&1; then file "$f"; else rec unread "$f"; echo yes; fi
done
set --
for f in "$R"/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do
  [ -r "$f" ] && set -- "$@" "$f"
done
rec text governors; [ $# = 0 ] || awk '{ print FILENAME "=" $0 }' "$@"
rec end .
"""

#: Where ``/configz`` refuses an anonymous client, it is asked with a certificate of the node, whose
#: key stays there. The kubelet's journal is read where that fails.
_RUNNING: Final = r"""
ask() { bounded curl -ksf --noproxy '*' --max-time 10 --max-filesize @LARGEST@ "$@" @URL@; }
a=
if have curl; then
  a=$(ask) || for c in @CERTIFICATES@; do
    k=$R${c#*:}; c=$R${c%:*}
    [ -r "$c" ] && [ -r "$k" ] && a=$(ask --cert "$c" --key "$k") && break
  done
fi
rec text configz; printf '%s' "$a"
case $a in
  '{'*) ;;
  *) have journalctl && rec text journal &&
    bounded journalctl --no-pager -q -b -o cat _PID=@PID@ |
    grep -e 'Creating Container Manager object' -e 'not available for exclusive' | tail -n 20 ;;
esac
rec end .
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A script, and the token that tells its records."""

    script: str
    token: str

    def read(self, data: bytes) -> Records:
        """Its answer; raises :class:`NoRecords`."""
        return Records(data, self.token)


class NoRecords(Exception):
    """The bytes are no whole stream of records; ``str()`` says why."""


def first_question(root: str) -> Question:
    """What needs no knowledge of the node; ``root`` is where its ``/`` lies."""
    return _filled(
        _COMMON + _FIRST,
        root,
        VALUES=" ".join(_VALUES),
        PLACES=" ".join(PLACES),
        TOOLS=" ".join(TOOLS),
        SHOWN=_SHOWN,
        UNITS=" ".join(UNITS),
        CAPTURE=capture_script(),
    )


def second_question(
    root: str,
    *,
    files: Iterable[str],
    folders: Iterable[str] = (),
    programs: Iterable[str] = (),
    summed: str = "",
    listed: Iterable[str] = (),
    endpoint: str = "",
) -> Question:
    """Content and time of ``files``, content of the ``*.conf`` and ``*.yaml`` in ``folders``, what
    ``programs`` say of their version, the SHA-256 of the program ``summed``, the names in
    ``listed`` folders, and the version of the runtime at ``endpoint``."""
    runtime = (
        "have crictl && rec text runtime && bounded crictl --runtime-endpoint "
        f"{shlex.quote(endpoint)} version </dev/null 2>/dev/null"
        if endpoint
        else ":"
    )
    return _filled(
        _COMMON + _SECOND,
        root,
        FILES=_words(files),
        FOLDERS=_words(folders),
        PROGRAMS=_words(programs),
        SUMMED=shlex.quote(summed),
        LISTED=_words(listed),
        RUNTIME=runtime,
    )


def marks_question(root: str, *, files: Iterable[str]) -> Question:
    """Content of ``files``, or that one cannot be read; and each CPU's governor."""
    return _filled(_COMMON + _MARKS, root, FILES=_words(files))


def running_question(root: str, *, url: str, pid: int, certificates: Iterable[str]) -> Question:
    """What the kubelet says at ``url``, its ``/configz``, to an anonymous client, else to one with
    one of the ``certificates`` (``CERTIFICATE:KEY``). Where it says nothing, what its process wrote
    into the journal about its configuration."""
    return _filled(
        _COMMON + _RUNNING,
        root,
        URL=shlex.quote(url),
        PID=str(pid),
        CERTIFICATES=_words(certificates),
    )


def _words(texts: Iterable[str]) -> str:
    return " ".join(shlex.quote(text) for text in dict.fromkeys(texts) if text)


def _filled(template: str, root: str, **values: str) -> Question:
    token = f"pinproof-{secrets.token_hex(16)}"
    values |= {
        "ROOT": shlex.quote(root.rstrip("/")),
        "TOKEN": token,
        "LARGEST": str(LARGEST),
        "PATIENCE": str(PATIENCE),
    }
    # In one pass: a value may hold what looks like a placeholder.
    script = re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], template)
    return Question(script, token)


class Records:
    """A stream, read: the values of a kind by their keys."""

    def __init__(self, data: bytes, token: str) -> None:
        """Raises :class:`NoRecords`."""
        self._found: dict[str, dict[str, bytes]] = {}
        before, *records = data.split(f"\n{token} ".encode())
        if before.strip() or not records:
            raise NoRecords(f"it does not start with the expected marker: {before[:80]!r}")
        if records[-1] != b"end .\n":
            raise NoRecords("it was cut off")
        for record in records[:-1]:
            head, _, value = record.partition(b"\n")
            kind, _, key = head.decode("utf-8", "surrogateescape").partition(" ")
            self._found.setdefault(kind, {})[key] = value

    def data(self, kind: str, key: str) -> bytes:
        """``b""`` where there is none."""
        return self._found.get(kind, {}).get(key, b"")

    def text(self, key: str, kind: str = "text") -> str:
        """``""`` where there is none."""
        return self.data(kind, key).decode("utf-8", "surrogateescape")

    def lines(self, key: str, kind: str = "text") -> list[str]:
        """The lines of a text, without empty ones."""
        return [line for line in self.text(key, kind).splitlines() if line]

    def all(self, kind: str) -> dict[str, str]:
        """Texts by key."""
        found = self._found.get(kind, {})
        return {key: value.decode("utf-8", "surrogateescape") for key, value in found.items()}
