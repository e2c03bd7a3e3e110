"""What is asked of a node: two POSIX scripts, and the records that they print.

A stream opens with ``pinproof-facts 1`` and ends with ``end``; between them each line is a record:
its kind, its key and its value, the latter two as base64. So nothing that a file holds or a program
prints can look like anything else, and what is cut off or made up is seen.

The first script asks what needs no knowledge of the node, the second where the first one's answers
lead to.
"""

from __future__ import annotations

import base64
import binascii
import shlex
from collections.abc import Iterable
from typing import Final

from topologies.capturing.script import script as capture_script

FIRST: Final = "pinproof-facts 1"
LAST: Final = "end"
#: Bytes that are read of any one file.
LARGEST: Final = 1 << 20
#: Bytes of a whole answer: a machine of 8192 CPUs has a capture of some 40 MiB.
LIMIT: Final = 128 << 20
DEADLINE: Final = 60.0

#: Services that a kubelet may live in, those beside it, and what removes state files at boot.
UNITS: Final = (
    "kubelet.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
    "snap.microk8s.daemon-kubelite.service",
    "microshift.service",
    "containerd.service",
    "crio.service",
    "kubelet-cleanup.service",
)
_SHOWN: Final = (
    "Id,LoadState,ActiveState,SubState,FragmentPath,DropInPaths,MainPID,NRestarts,ExecStart,"
    "Environment,EnvironmentFiles"
)
#: Files and folders whose being there tells a flavour.
PLACES: Final = (
    "/etc/kubernetes/kubelet.conf",
    "/etc/kubernetes/bootstrap-kubelet.conf",
    "/etc/kubernetes/manifests/kube-apiserver.yaml",
    "/etc/machine-config-daemon/currentconfig",
    "/etc/rancher/k3s",
    "/etc/rancher/rke2",
    "/etc/k0s",
    "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/var/lib/rancher/k3s",
    "/var/lib/rancher/rke2",
    "/var/lib/k0s",
    "/var/snap/microk8s/current",
    "/var/lib/pinproof/journal",
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
)

_COMMON: Final = r"""R=@ROOT@
rec() {
  printf '%s ' "$1"; printf %s "$2" | base64 | tr -d '\n'
  printf ' '; base64 | tr -d '\n'; echo
}
file() { [ -f "$R$1" ] && [ -r "$R$1" ] && head -c @LARGEST@ "$R$1" | rec file "$1"; }
have() { command -v "$1" >/dev/null 2>&1; }
bounded() { if have timeout; then timeout -k 1 15 "$@"; else "$@"; fi; }
"""

_ONE: Final = r"""
echo '@FIRST@'
set --
for f in @VALUES@; do [ -r "$R$f" ] && set -- "$@" "$R$f"; done
{ awk 'FNR == 1 { print FILENAME "=" $0 }' "$@"; echo "arch=$(uname -m)"; } | rec text values
for f in @PLACES@; do [ -e "$R$f" ] && echo "$f"; done | rec text places
for t in @TOOLS@; do have "$t" && echo "$t"; done | rec text tools
df -Pk "$R/" "$R/var/lib" "$R/var/lib/kubelet" 2>/dev/null | rec text df
grep -E ' - cgroup2? ' "$R/proc/self/mountinfo" 2>/dev/null | rec text mounts
for p in "$R"/proc/[0-9]*; do
  c=; read -r c 2>/dev/null <"$p/comm" || continue
  case $c in
    kubelet|kubelite|k3s*|k0s*|rke2*|microshift|hyperkube|containerd|crio) ;;
    *) continue ;;
  esac
  n=${p##*/}
  [ -s "$p/cmdline" ] || continue
  cat "$p/cmdline" | rec cmdline "$n"
  { echo "comm=$c"; echo "exe=$(readlink "$p/exe")"; echo "stat=$(cat "$p/stat")"
    echo "cgroup=$(sed -n 's/^\(0:\|[0-9]*:name=systemd\):*//p' "$p/cgroup" | tail -n 1)"
  } | rec process "$n"
done 2>/dev/null
if have systemctl && [ -d "$R/run/systemd/system" ]; then
  systemctl --version 2>/dev/null | head -n 1 | rec text systemd
  u=$(bounded systemctl show --no-pager -p @SHOWN@ @UNITS@ 2>/dev/null)
  printf '%s\n' "$u" | rec text units
  printf '%s\n' "$u" |
    sed -n 's/^FragmentPath=//p; s/^DropInPaths=//p; s/^EnvironmentFiles=\([^ ]*\).*/\1/p' |
    tr ' ' '\n' | sort -u | while read -r f; do [ -z "$f" ] || file "$f"; done
fi
( set -- "$R/"
@CAPTURE@
) | rec text capture
echo '@LAST@'
"""

_TWO: Final = r"""
echo '@FIRST@'
for f in @FILES@; do file "$f"; done
for d in @FOLDERS@; do
  [ -d "$R$d" ] && find "$R$d" -type f -name '*.[cy][oa][nm][fl]' 2>/dev/null | sort |
    while read -r f; do file "${f#"$R"}"; done
done
for x in @PROGRAMS@; do
  if have "$x"; then bounded "$x" --version </dev/null 2>&1 | head -n 5 | rec version "$x"; fi
done
@RUNTIME@
for d in @LISTED@; do [ -d "$R$d" ] && ls -1 "$R$d" | rec list "$d"; done
for f in @FILES@; do
  [ -e "$R$f" ] && stat -c %Y "$R$f" 2>/dev/null | rec mtime "$f"
done
date +%s | rec text now
echo '@LAST@'
"""


class NoRecords(Exception):
    """The bytes are no whole stream of records; ``str()`` says why."""


def first_script(root: str) -> str:
    """What needs no knowledge of the node; ``root`` is where its ``/`` lies."""
    return _filled(
        _COMMON + _ONE,
        root,
        VALUES=" ".join(_VALUES),
        PLACES=" ".join(PLACES),
        TOOLS=" ".join(TOOLS),
        SHOWN=_SHOWN,
        UNITS=" ".join(UNITS),
        CAPTURE=capture_script(),
    )


def second_script(
    root: str,
    *,
    files: Iterable[str],
    folders: Iterable[str] = (),
    programs: Iterable[str] = (),
    listed: Iterable[str] = (),
    endpoint: str = "",
) -> str:
    """Content and time of ``files``, content of the ``*.conf`` and ``*.yaml`` in ``folders``, what
    ``programs`` say of their version, the names in ``listed`` folders, and the version of the
    runtime at ``endpoint``."""
    asked = (
        f"have crictl && bounded crictl --runtime-endpoint {shlex.quote(endpoint)} version "
        "</dev/null 2>/dev/null | rec text runtime"
        if endpoint
        else ":"
    )
    return _filled(
        _COMMON + _TWO,
        root,
        FILES=_words(files),
        FOLDERS=_words(folders),
        PROGRAMS=_words(programs),
        LISTED=_words(listed),
        RUNTIME=asked,
    )


def _words(texts: Iterable[str]) -> str:
    return " ".join(shlex.quote(text) for text in dict.fromkeys(texts) if text)


def _filled(template: str, root: str, **values: str) -> str:
    values |= {
        "ROOT": shlex.quote(root.rstrip("/")),
        "FIRST": FIRST,
        "LAST": LAST,
        "LARGEST": str(LARGEST),
    }
    for key, value in values.items():
        template = template.replace(f"@{key}@", value)
    return template


class Records:
    """A stream, read: the values of a kind by their keys."""

    def __init__(self, data: bytes) -> None:
        """Raises :class:`NoRecords`."""
        self._found: dict[str, dict[str, bytes]] = {}
        lines = data.splitlines()
        if FIRST.encode() not in lines[:1]:
            raise NoRecords("it does not begin as an answer does")
        if lines[-1] != LAST.encode():
            raise NoRecords("it was cut off")
        for line in lines[1:-1]:
            self._keep(line)

    def _keep(self, line: bytes) -> None:
        words = line.split(b" ")
        if len(words) != 3:
            raise NoRecords(f"not a record: {line[:80]!r}")
        try:
            key, value = (base64.b64decode(word, validate=True) for word in words[1:])
        except binascii.Error:
            raise NoRecords(f"not a record: {line[:80]!r}") from None
        kind = self._found.setdefault(words[0].decode("ascii", "replace"), {})
        kind[key.decode("utf-8", "surrogateescape")] = value

    def data(self, kind: str, key: str) -> bytes:
        """``b""`` where there is none."""
        return self._found.get(kind, {}).get(key, b"")

    def text(self, key: str, kind: str = "text") -> str:
        """``""`` where there is none."""
        return self.data(kind, key).decode("utf-8", "surrogateescape")

    def lines(self, key: str, kind: str = "text") -> list[str]:
        """Of a text, without empty ones."""
        return [line for line in self.text(key, kind).splitlines() if line]

    def all(self, kind: str) -> dict[str, str]:
        """Texts by key."""
        found = self._found.get(kind, {})
        return {key: value.decode("utf-8", "surrogateescape") for key, value in found.items()}
