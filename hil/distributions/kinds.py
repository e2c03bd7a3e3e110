"""The distributions themselves, and by what each is recognised.

What belongs here: what is peculiar to a distribution. What never does: what all share
(:mod:`hil.distributions.service`, :mod:`hil.distributions.settings`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import yaml

from hil.changes import Change, WriteFile
from hil.distributions import service, settings
from hil.distributions.distribution import Distribution, Locations
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


@dataclass(frozen=True, slots=True)
class _Kind:
    """A distribution. ``child``: the kubelet is a child of the unit's program, so that the unit
    tells nothing of it; ``log``: where its own words go instead of the journal."""

    name: str
    recognised: Callable[[NodeFacts, KubeletFacts | None], bool]
    changes: Callable[[NodeFacts, KubeletConfig], tuple[Change, ...]] = _by_file
    child: bool = False
    log: str = ""
    files: tuple[str, ...] = ()

    def locate(self, facts: NodeFacts) -> Locations:
        """As :meth:`Distribution.locate`."""
        kubelet = kubelet_of(facts)
        return Locations(
            unit=kubelet.unit,
            config=kubelet.config_path,
            config_dir=kubelet.config_dir,
            root_dir=kubelet.root_dir,
            state=kubelet.state_path,
            manifests=kubelet.manifests,
            endpoint=facts.runtime.endpoint,
        )

    def watched(self, facts: NodeFacts) -> tuple[str, ...]:
        """As :meth:`Distribution.watched`."""
        return self.files

    def restart(self, facts: NodeFacts) -> str:
        """As :meth:`Distribution.restart`."""
        return service.restart(facts)

    def stop(self, facts: NodeFacts) -> str:
        """As :meth:`Distribution.stop`."""
        return service.stop(facts)

    def start(self, facts: NodeFacts) -> str:
        """As :meth:`Distribution.start`."""
        return service.start(facts)

    def kill(self, facts: NodeFacts) -> str:
        """As :meth:`Distribution.kill`."""
        return service.kill(facts, child=self.child)

    def identity(self, facts: NodeFacts) -> str:
        """As :meth:`Distribution.identity`."""
        return service.identity(facts, child=self.child)

    def health(self, facts: NodeFacts) -> str:
        """As :meth:`Distribution.health`."""
        return service.health(facts, child=self.child)

    def evidence(self, facts: NodeFacts) -> str:
        """As :meth:`Distribution.evidence`."""
        return service.evidence(facts, log=self.log)

    def configure(self, facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
        """As :meth:`Distribution.configure`."""
        return self.changes(facts, config)


def _unit(*names: str) -> Callable[[NodeFacts, KubeletFacts | None], bool]:
    return lambda facts, kubelet: kubelet is not None and kubelet.unit in names


def _is_openshift(facts: NodeFacts, kubelet: KubeletFacts | None) -> bool:
    return "/etc/machine-config-daemon/currentconfig" in facts.places


def _is_kubeadm(facts: NodeFacts, kubelet: KubeletFacts | None) -> bool:
    files = facts.units[kubelet.unit].files if kubelet and kubelet.unit in facts.units else {}
    named = any(path.endswith("/10-kubeadm.conf") for path in (*files, *facts.places))
    return named or "/var/lib/kubelet/kubeadm-flags.env" in facts.places


_KINDS: Final = (
    _Kind(
        "microk8s",
        _unit("snap.microk8s.daemon-kubelite.service"),
        _microk8s,
        files=(_MICROK8S_ARGUMENTS,),
    ),
    _Kind(
        "k3s",
        _unit("k3s.service", "k3s-agent.service"),
        _rancher("/etc/rancher/k3s"),
        files=("/etc/rancher/k3s",),
    ),
    _Kind(
        "rke2",
        _unit("rke2-server.service", "rke2-agent.service"),
        _rancher("/etc/rancher/rke2"),
        child=True,
        log="/var/lib/rancher/rke2/agent/logs/kubelet.log",
        files=("/etc/rancher/rke2",),
    ),
    _Kind(
        "k0s",
        _unit("k0scontroller.service", "k0sworker.service"),
        _owned("k0s, which writes it at each start: give it a worker profile"),
        child=True,
        files=("/etc/k0s",),
    ),
    _Kind(
        "openshift",
        _is_openshift,
        _owned("the Machine Config Operator: give it a KubeletConfig"),
        files=("/etc/kubernetes/kubelet.conf",),
    ),
    _Kind(
        "kubeadm",
        _is_kubeadm,
        files=(
            "/var/lib/kubelet/kubeadm-flags.env",
            "/etc/default/kubelet",
            "/etc/sysconfig/kubelet",
        ),
    ),
    _Kind("standalone", lambda facts, kubelet: True),
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
