"""A node made of files: a folder that looks like the root of a node with a kubelet, and stand-ins
for the programs that would act on it. For tests and benchmarks of what is done to nodes, without
one. ``gather(shell, root=…)`` and ``Guarded`` work below such a folder; the node has methods for
them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import topologies
from hil.inspection import NodeFacts, gather
from hil.safety import Guarded, Risk, left_by_a_run, restore_node
from hil.transport.local import LocalShell

MACHINE = "2s-2n-16c-smt2"
_CONFIG_PATH = "/var/lib/kubelet/config.yaml"
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: 0,16
staticPodPath: /etc/kubernetes/manifests
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
"""
UNIT = """\
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
"""
PINNED = "5f3a0c1e-0000-4000-8000-000000000001"

#: Keeps the kubelet's state in one file: its start's number while it runs.
_SYSTEMCTL = r"""#!/bin/sh
run=@ROOT@/fake/kubelet
echo "$*" >>@ROOT@/fake/calls
verb=$1; [ $# -gt 0 ] && shift
[ "$1" != --no-block ] || shift
start() {
  echo $(($(cat @ROOT@/fake/starts) + 1)) >@ROOT@/fake/starts
  cp @ROOT@/fake/starts $run
}
case $verb:$1 in
  is-failed:* | is-active:pinproof-* | start:pinproof-*) exit 1 ;;
  *:kubelet.service | show:* | --*) ;;
  *) exit 0 ;;
esac
case $verb in
  --version) echo "systemd 252 (252.39-1)" ;;
  start) [ -f $run ] || start ;;
  stop) rm -f $run ;;
  restart) rm -f $run; start ;;
  show)
    value= ; names= ; units=
    while [ $# -gt 0 ]; do
      case $1 in
        -p) names=$2; shift ;;
        --value) value=1 ;;
        --no-pager) ;;
        *) units="$units $1" ;;
      esac
      shift
    done
    [ -f $run ] && sub=running active=active id=start-$(cat $run) pid=100 ||
      { sub=dead active=inactive id= pid=0; }
    for unit in $units; do
      case $unit in
        kubelet.service)
          for name in $(echo $names | tr , ' '); do
            case $name in
              Id) v=$unit ;; LoadState) v=loaded ;; ActiveState) v=$active ;; SubState) v=$sub ;;
              FragmentPath) v=/etc/systemd/system/kubelet.service ;;
              DropInPaths) v=/etc/systemd/system/kubelet.service.d/10-kubeadm.conf ;;
              MainPID) v=$pid ;; NRestarts) v=0 ;; InvocationID) v=$id ;;
              ExecStart) v='{ path=/usr/bin/kubelet ; argv[]=@COMMAND@ ; ignore_errors=no }' ;;
              EnvironmentFiles) v='@FLAGS@ (ignore_errors=yes)' ;;
              *) v= ;;
            esac
            [ ! -f @ROOT@/fake/show/$name ] || v=$(cat @ROOT@/fake/show/$name)
            [ -n "$value" ] && echo "$v" || echo "$name=$v"
          done
          ;;
        *) echo "Id=$unit"; echo LoadState=not-found ;;
      esac
      echo
    done
    ;;
esac
exit 0
"""


class FakeNode:
    """A fresh one below ``root``."""

    def __init__(self, root: Path, machine: str = MACHINE) -> None:
        self.root = root
        tree = topologies.machine(machine).tree
        # Most files of a machine tell of caches, and nobody asks for them here.
        few = {path: text for path, text in tree.items() if "/cache/" not in path}
        topologies.write(topologies.Tree(few), root)
        self.cpus = len(list((root / "sys/devices/system/cpu").glob("cpu[0-9]*")))
        for cpu in range(1, self.cpus):
            self.file(f"/sys/devices/system/cpu/cpu{cpu}/online", "1\n")
        self._kernel()
        self._kubelet()
        self._programs()

    def file(self, path: str, text: str, mode: int = 0o644) -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)
        return place

    def service(self, name: str, **shown: str) -> None:
        """Its kubelet's service has this name, and ``systemctl show`` these values for it."""
        systemctl = self.root / "fake/bin/systemctl"
        systemctl.write_text(systemctl.read_text().replace("kubelet.service", name))
        for key, value in shown.items():
            self.file(f"/fake/show/{key}", value)

    def lacks(self, *paths: str) -> None:
        for path in paths:
            (self.root / path.lstrip("/")).unlink()

    def process(
        self, command: str, cgroup: str, *, program: str, name: str = "kubelet", pid: int = 4242
    ) -> None:
        """A process of a program runs on it, with this command line (a NUL after each word)."""
        for file, text in {
            "comm": f"{name}\n",
            "cmdline": command,
            "stat": f"{pid} ({name}) S 1 " + "0 " * 17 + f"{pid} 0\n",
            "cgroup": f"0::{cgroup}\n",
        }.items():
            self.file(f"/proc/{pid}/{file}", text)
        (self.root / f"proc/{pid}/exe").symlink_to(program)
        self.file("/proc/uptime", "65.00 1.00\n")

    @property
    def environment(self) -> dict[str, str]:
        """In which its programs are found first."""
        return {**os.environ, "PATH": f"{self.root}/fake/bin:{os.environ['PATH']}"}

    def shell(self, name: str = "fake") -> LocalShell:
        return LocalShell(name, environment=self.environment)

    def content(self) -> dict[str, tuple[int, bytes]]:
        """All its files with mode and content, but for the records of the stand-ins."""
        return {
            str(path.relative_to(self.root)): (path.stat().st_mode, path.read_bytes())
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not path.is_relative_to(self.root / "fake")
        }

    def facts(self, **how: Any) -> NodeFacts:
        """What it is, as :func:`gather` finds out."""
        return gather(self.shell(), root=str(self.root), **how)

    def run(
        self, risk: Risk, *, facts: NodeFacts | None = None, settle: float = 0, **how: Any
    ) -> Guarded:
        """A run on it that has not begun; its owner's name begins with ``test``."""
        found = facts or self.facts()
        return Guarded(self.shell(), found, risk, "test", settle=settle, **how)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Its files are as before when the block ends, also by an error."""
        before = self.content()
        try:
            yield
        finally:
            assert self.content() == before

    @contextmanager
    def guarded(self, risk: Risk = Risk.CPU_OFFLINE, **how: Any) -> Iterator[Guarded]:
        """A :meth:`run` on it, after which its files are as before."""
        with self.unchanged(), self.run(risk, **how) as begun:
            yield begun

    def dies(self, patience: float = 4, risk: Risk = Risk.CPU_OFFLINE) -> Guarded:
        """A run that takes it, and of which nothing is heard from then on."""
        run = Guarded(self.shell(), self.facts(), risk, "dead", patience=patience, settle=0)
        try:
            run.__enter__()
        finally:
            run._over.set()
        return run

    def restore(self, *, force: bool = False) -> bool:
        return restore_node(self.shell(), root=str(self.root), force=force)

    def left_by_a_run(self) -> list[str]:
        return left_by_a_run(self.shell(), root=str(self.root))

    @property
    def starts(self) -> int:
        return int((self.root / "fake/starts").read_text())

    @property
    def running(self) -> bool:
        return (self.root / "fake/kubelet").exists()

    def _kernel(self) -> None:
        self.file("/proc/sys/kernel/osrelease", "6.12.1-fake\n")
        self.file("/proc/sys/kernel/hostname", "fake\n")
        self.file("/proc/sys/kernel/random/boot_id", "00000000-0000-4000-8000-00000000b007\n")
        self.file("/proc/cmdline", "quiet isolcpus=31\n")
        (self.root / "run/systemd/system").mkdir(parents=True)
        mount = "/sys/fs/cgroup"
        self.file(f"{mount}/cgroup.controllers", "cpuset cpu memory\n")
        pod = f"{mount}/kubepods.slice/kubepods-pod{PINNED.replace('-', '_')}.slice"
        self.file(f"{mount}/kubepods.slice/cpuset.cpus", "\n")
        self.file(f"{pod}/cpuset.cpus", "\n")
        self.file(f"{pod}/cri-containerd-abc.scope/cpuset.cpus", "2-3\n")

    def _kubelet(self) -> None:
        self.file("/var/lib/kubelet/config.yaml", CONFIG, 0o600)
        self.file("/var/lib/kubelet/kubeadm-flags.env", 'KUBELET_KUBEADM_ARGS="--v=2"\n')
        state = {
            "policyName": "static",
            "defaultCpuSet": "0-1,4-31",
            "entries": {PINNED: {"main": "2-3"}},
            "checksum": 0,  # it is not checked
        }
        self.file("/var/lib/kubelet/cpu_manager_state", json.dumps(state), 0o600)
        (self.root / f"var/lib/kubelet/pods/{PINNED}").mkdir(parents=True)
        (self.root / f"var/log/pods/kube-system_pinned_{PINNED}").mkdir(parents=True)
        self.file("/etc/systemd/system/kubelet.service", UNIT)
        self.file("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "[Service]\n")
        self.file("/etc/kubernetes/manifests/own.yaml", "kind: Pod\n", 0o600)
        self.file("/usr/bin/kubelet", "#!/bin/sh\necho Kubernetes v1.36.4\n", 0o755)

    def _programs(self) -> None:
        self.file("/fake/starts", "1\n")
        self.file("/fake/kubelet", "1\n")
        systemctl = (
            _SYSTEMCTL.replace("@ROOT@", str(self.root))
            .replace("@COMMAND@", f"/usr/bin/kubelet --config={_CONFIG_PATH} $KUBELET_KUBEADM_ARGS")
            .replace("@FLAGS@", "/var/lib/kubelet/kubeadm-flags.env")
        )
        self.file("/fake/bin/systemctl", systemctl, 0o755)
        self.file("/fake/bin/systemd-detect-virt", "#!/bin/sh\necho none\nexit 1\n", 0o755)
        self.file("/fake/bin/containerd", "#!/bin/sh\necho containerd x v1.7.2 y\n", 0o755)

    def remove(self) -> None:
        shutil.rmtree(self.root)
