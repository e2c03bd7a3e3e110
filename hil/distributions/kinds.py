"""The distributions themselves, and by what each is recognised.

What belongs here: what is peculiar to a distribution, and the POSIX scripts of a kubelet as a
service of systemd. What never does: running them, and what becomes of settings
(:mod:`hil.distributions.settings`). In a crash loop a unit is ``activating (auto-restart)``, and
``failed`` once its start limit is reached; a start by hand is refused then until ``reset-failed``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import yaml

from hil.changes import Change, WriteFile
from hil.distributions import settings
from hil.inspection import KubeletFacts, NodeFacts, kubelet_of
from hil.shell import NodeUnfit, NodeUsageError
from reference.steps import KubeletConfig


def _by_file(facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
    """A drop-in where the kubelet reads a folder of them, else its file."""
    kubelet = kubelet_of(facts)
    flags = sorted(settings.deciding_flags() & set(kubelet.flags))
    if flags:
        raise NodeUnfit(
            f"{facts.name}: --{flags[0]} on its command line overrides every configuration file"
        )
    if kubelet.config_dir:
        path = f"{kubelet.config_dir.rstrip('/')}/{settings.DROP_IN}.conf"
        return (WriteFile(path, settings.patch(config).encode()),)
    if not kubelet.config_path:
        raise NodeUnfit(f"{facts.name}: its kubelet has no configuration file to change")
    try:
        text = settings.rewritten(kubelet.config_text, config)
    except ValueError as error:
        raise NodeUnfit(f"{facts.name}: {kubelet.config_path}: {error}") from error
    return (WriteFile(kubelet.config_path, text.encode()),)


def _rancher(folder: str) -> Callable[[NodeFacts, KubeletConfig], tuple[Change, ...]]:
    """k3s and RKE2 hand flags through; a file of their folder adds to what the others say."""

    def changes(facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
        text = yaml.safe_dump({"kubelet-arg+": settings.flags_of(config)})
        path = f"{folder}/config.yaml.d/{settings.DROP_IN}.yaml"
        return (WriteFile(path, text.encode(), mode=0o600),)

    return changes


_MICROK8S_ARGUMENTS: Final = "/var/snap/microk8s/current/args/kubelet"


def _microk8s(facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
    """One file of flags; those that decide CPUs are replaced."""
    flags = {
        name: value
        for name, value in kubelet_of(facts).flags.items()
        if name not in settings.deciding_flags()
    }
    lines = [f"--{name}={value}" for name, value in flags.items()]
    lines += [f"--{flag}" for flag in settings.flags_of(config)]
    text = "".join(f"{line}\n" for line in lines)
    return (WriteFile(_MICROK8S_ARGUMENTS, text.encode()),)


def _owned(by: str) -> Callable[[NodeFacts, KubeletConfig], tuple[Change, ...]]:
    """Somebody else writes the kubelet's configuration, and would again."""

    def changes(facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
        raise NodeUnfit(f"{facts.name}: its kubelet's configuration belongs to {by}")

    return changes


#: The process of that name in the unit's cgroup, by its number and start.
_CHILD: Final = r"""for p in /proc/[0-9]*; do
  read -r c <"$p/comm" && [ "$c" = kubelet ] && grep -q @UNIT@ "$p/cgroup" || continue
  s=$(cat "$p/stat") && s=${s##*)} && set -- $s && echo "${p##*/} ${20}"
done 2>/dev/null | head -n 1
"""


@dataclass(frozen=True, slots=True)
class Distribution:
    """One kind of node: scripts and changes for its kubelet. Scripts raise
    :class:`hil.shell.NodeUnfit` when they are asked for on a node without a service manager that is
    known here.

    ``configure`` makes the changes after which the kubelet, started again, has a configuration; it
    raises :class:`hil.shell.NodeUnfit` where files cannot do that on this distribution.
    ``watched`` are files and folders beside those that decide the kubelet's configuration.
    ``child``: the kubelet is a child of the unit's program, so that the unit tells nothing of it.
    """

    name: str
    recognised: Callable[[NodeFacts, KubeletFacts | None], bool]
    configure: Callable[[NodeFacts, KubeletConfig], tuple[Change, ...]] = _by_file
    child: bool = False
    watched: tuple[str, ...] = ()

    def stop(self, facts: NodeFacts) -> str:
        """Script: stop the kubelet, and whatever it lives in, and wait for that."""
        return f"systemctl stop {_unit_of(facts)}"

    def start(self, facts: NodeFacts) -> str:
        """Script: start it; a start limit that was reached is forgotten first."""
        unit = _unit_of(facts)
        return f"systemctl reset-failed {unit} 2>/dev/null; systemctl start {unit}"

    def kill(self, facts: NodeFacts) -> str:
        """Script: SIGKILL for the kubelet's process alone; the service manager does as it does."""
        unit = _unit_of(facts)
        if not self.child:
            return f"systemctl kill --signal=KILL --kill-who=main {unit}"
        return f"pid=$({_child(unit)}); kill -9 ${{pid%% *}}"

    def identity(self, facts: NodeFacts) -> str:
        """Script that prints one line that names the running process; nothing where it is down, or
        waits to be started again."""
        unit = _unit_of(facts)
        if self.child:
            return _child(unit)
        return (
            f'[ "$(systemctl show -p SubState --value {unit})" = running ] && '
            f"systemctl show -p InvocationID --value {unit}"
        )


def _unit_of(facts: NodeFacts) -> str:
    """The unit, quoted."""
    unit = kubelet_of(facts).unit
    if not facts.systemd or not unit:
        raise NodeUnfit(f"{facts.name}: its kubelet is not a systemd service")
    return shlex.quote(unit)


def _child(unit: str) -> str:
    return _CHILD.replace("@UNIT@", unit)


def _unit(*names: str) -> Callable[[NodeFacts, KubeletFacts | None], bool]:
    return lambda facts, kubelet: kubelet is not None and kubelet.unit in names


def _is_openshift(facts: NodeFacts, kubelet: KubeletFacts | None) -> bool:
    return "/etc/machine-config-daemon/currentconfig" in facts.places


def _is_kubeadm(facts: NodeFacts, kubelet: KubeletFacts | None) -> bool:
    files = facts.units[kubelet.unit].files if kubelet and kubelet.unit in facts.units else {}
    named = any(path.endswith("/10-kubeadm.conf") for path in (*files, *facts.places))
    return named or "/var/lib/kubelet/kubeadm-flags.env" in facts.places


_KINDS: Final = (
    Distribution(
        "microk8s",
        _unit("snap.microk8s.daemon-kubelite.service"),
        _microk8s,
        watched=(_MICROK8S_ARGUMENTS,),
    ),
    Distribution(
        "k3s",
        _unit("k3s.service", "k3s-agent.service"),
        _rancher("/etc/rancher/k3s"),
        watched=("/etc/rancher/k3s",),
    ),
    Distribution(
        "rke2",
        _unit("rke2-server.service", "rke2-agent.service"),
        _rancher("/etc/rancher/rke2"),
        child=True,
        watched=("/etc/rancher/rke2",),
    ),
    Distribution(
        "k0s",
        _unit("k0scontroller.service", "k0sworker.service"),
        _owned("k0s, which writes it at each start: give it a worker profile"),
        child=True,
        watched=("/etc/k0s",),
    ),
    Distribution(
        "openshift",
        _is_openshift,
        _owned("the Machine Config Operator: give it a KubeletConfig"),
        watched=("/etc/kubernetes/kubelet.conf",),
    ),
    Distribution(
        "kubeadm",
        _is_kubeadm,
        watched=(
            "/var/lib/kubelet/kubeadm-flags.env",
            "/etc/default/kubelet",
            "/etc/sysconfig/kubelet",
        ),
    ),
    Distribution("standalone", lambda facts, kubelet: True),
)

NAMES: Final = tuple(kind.name for kind in _KINDS)


def distribution_of(facts: NodeFacts, *, named: str = "") -> Distribution:
    """The distribution of a node, by what is on it; ``named`` (of the inventory) instead.

    Raises :class:`hil.shell.NodeUsageError` for a name of none.
    """
    for kind in _KINDS:
        if kind.name == named.lower() or (not named and kind.recognised(facts, facts.kubelet)):
            return kind
    raise NodeUsageError(f"{facts.name}: distribution {named!r}: it is one of {', '.join(NAMES)}")
