"""The distributions themselves, and by what each is recognised.

What belongs here: what is peculiar to a distribution. What never does: how a kubelet's settings are
written (:mod:`hil.distributions.configuring`). What is on the node decides; where two kinds fit,
the first one counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hil.distributions.configuring import by_microk8s, by_microshift, by_rancher, owned
from hil.distributions.distribution import Distribution
from hil.inspection import KubeletFacts, NodeFacts
from hil.inspection.located_kubelet import MICROK8S_ARGUMENTS
from hil.shell import NodeUsageError


def _unit(*names: str) -> Callable[[NodeFacts, KubeletFacts | None], bool]:
    return lambda facts, kubelet: kubelet is not None and kubelet.unit in names


def _os(name: str) -> Callable[[NodeFacts, KubeletFacts | None], bool]:
    """By ``ID`` of /etc/os-release: these systems have one way to run a kubelet."""
    return lambda facts, kubelet: facts.os_id == name


def _reads(place: str, *configs: str) -> Callable[[NodeFacts, KubeletFacts | None], bool]:
    """By a place and the kubelet's file: what an installer left there may be unused."""
    return lambda facts, kubelet: (
        kubelet is not None and place in facts.places and kubelet.config_path in configs
    )


def _is_gke(facts: NodeFacts, kubelet: KubeletFacts | None) -> bool:
    return kubelet is not None and kubelet.config_path == "/home/kubernetes/kubelet-config.yaml"


def _is_kubeadm(facts: NodeFacts, kubelet: KubeletFacts | None) -> bool:
    files = facts.units[kubelet.unit].files if kubelet and kubelet.unit in facts.units else {}
    named = any(path.endswith("/10-kubeadm.conf") for path in (*files, *facts.places))
    return named or "/var/lib/kubelet/kubeadm-flags.env" in facts.places


_KINDS: Final = (
    Distribution(
        "talos",
        _os("talos"),
        owned(
            "Talos, which makes it of the machine configuration: set machine.kubelet.extraConfig"
        ),
    ),
    Distribution(
        "bottlerocket",
        _os("bottlerocket"),
        owned("Bottlerocket, which makes it of its settings: set settings.kubernetes"),
        watched=("/etc/kubernetes/kubelet",),
    ),
    Distribution(
        "microshift",
        _unit("microshift.service"),
        by_microshift,
        watched=("/etc/microshift",),
    ),
    Distribution(
        "microk8s",
        _unit("snap.microk8s.daemon-kubelite.service"),
        by_microk8s,
        watched=(MICROK8S_ARGUMENTS,),
    ),
    Distribution(
        "k3s",
        _unit("k3s.service", "k3s-agent.service"),
        by_rancher("/etc/rancher/k3s"),
        watched=("/etc/rancher/k3s",),
    ),
    Distribution(
        "rke2",
        _unit("rke2-server.service", "rke2-agent.service"),
        by_rancher("/etc/rancher/rke2"),
        child=True,
        watched=("/etc/rancher/rke2",),
    ),
    Distribution(
        "k0s",
        _unit("k0scontroller.service", "k0sworker.service"),
        owned(
            "k0s, which writes it at each start: give it a worker profile, or --kubelet-extra-args"
        ),
        child=True,
        watched=("/etc/k0s",),
    ),
    Distribution(
        "openshift",
        lambda facts, _: "/etc/machine-config-daemon/currentconfig" in facts.places,
        owned("the Machine Config Operator: give it a KubeletConfig"),
        watched=("/etc/kubernetes/kubelet.conf",),
    ),
    Distribution(
        "eks",
        _reads("/etc/eks/kubelet/environment", "/etc/kubernetes/kubelet/config.json"),
        watched=("/etc/eks/kubelet/environment",),
        at_boot="nodeadm writes it at each boot",
    ),
    Distribution(
        "gke",
        _is_gke,
        watched=("/etc/default/kubelet",),
        at_boot="GKE's configure-helper.sh writes it at each boot",
    ),
    Distribution(
        "aks",
        _reads("/opt/azure/containers", "/etc/default/kubeletconfig.json", ""),
        watched=("/etc/default/kubelet",),
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


def distribution_of(facts: NodeFacts) -> Distribution:
    """The distribution of a node: the one that its inventory names, else by what is on it.

    Raises :class:`hil.shell.NodeUsageError` for an unknown name.
    """
    named = facts.distribution
    for kind in _KINDS:
        if kind.name == named.lower() or (not named and kind.recognised(facts, facts.kubelet)):
            return kind
    raise NodeUsageError(f"{facts.name}: distribution {named!r}: it is one of {', '.join(NAMES)}")
