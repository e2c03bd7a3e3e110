"""Nodes as the documentation of EKS, GKE, AKS, Bottlerocket, Talos, MicroShift and k0s has them:
what is found there, what can be changed, and whether that lasts; and nodes whose inventory names
their distribution."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.subject import Capability
from hil.abilities import capabilities, unable
from hil.distributions import Distribution, distribution_of
from hil.distributions.settings import DROP_IN
from hil.inspection import NodeFacts, kubelet_of
from hil.inspection.kubelet import document, k0s_flags
from hil.safety import Guarded, NotRestored, Risk, WriteFile
from hil.shell import NodeUnfit, NodeUsageError
from hil.subject import NodeSubject
from hil.transport import nodes
from pinproof.certifiable import of_node
from pinproof.probe import _probed
from reference import CPUSet
from reference.steps import KubeletConfig
from tests.hil.conftest import Says
from tests.support.fakenode import FakeNode

STATIC = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0,16",
    "staticPodPath": "/etc/kubernetes/manifests",
}
NONE = KubeletConfig(policy="none")
KUBEADM = (
    "/var/lib/kubelet/kubeadm-flags.env",
    "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
)
#: Where the kubelet's file is.
EKS = "/etc/kubernetes/kubelet/config.json"
GKE = "/home/kubernetes/kubelet-config.yaml"
AKS = "/etc/default/kubeletconfig.json"
MICROSHIFT = "/var/lib/microshift/resources/kubelet/config/config.yaml"


def start(
    fake: FakeNode,
    words: str,
    *,
    unit: str = "kubelet.service",
    drop_ins: str = "",
    environment_file: str = "",
    **shown: str,
) -> None:
    """The service of its kubelet, as ``systemctl show`` has it; nothing there is kubeadm's."""
    fake.lacks(*KUBEADM)
    fake.service(
        unit,
        DropInPaths=drop_ins,
        EnvironmentFiles=environment_file and f"{environment_file} (ignore_errors=no)",
        ExecStart=f"{{ path={words.split()[0]} ; argv[]={words} ; ignore_errors=no }}",
        **shown,
    )


def eks(fake: FakeNode, *, drop_ins: bool = True) -> None:
    """AL2023: nodeadm wrote the files; a user's settings are a drop-in."""
    environment, extra = "/etc/eks/kubelet/environment", ""
    fake.file(EKS, json.dumps(STATIC, indent="\t"))
    if drop_ins:
        extra = f" --config-dir={EKS}.d"
        text = json.dumps({**STATIC, "topologyManagerPolicy": "restricted"})
        fake.file(f"{EKS}.d/40-nodeadm.conf", text)
    fake.file(environment, f"NODEADM_KUBELET_ARGS=--config={EKS} --v=2{extra}\n")
    start(fake, "/usr/bin/kubelet $NODEADM_KUBELET_ARGS", environment_file=environment)


def gke(fake: FakeNode) -> None:
    fake.file("/home/kubernetes/bin/kubelet", "#!/bin/sh\necho Kubernetes v1.33.1-gke.5\n", 0o755)
    fake.file(GKE, yaml.safe_dump(STATIC))
    options = f'KUBELET_OPTS="--v=2 --config {GKE}"\nKUBE_COVERAGE_FILE="/x"\n'
    fake.file("/etc/default/kubelet", options)
    words = "/home/kubernetes/bin/kubelet $KUBELET_OPTS"
    start(fake, words, environment_file="/etc/default/kubelet")


def aks(fake: FakeNode, *, escaped: bool = False) -> None:
    """The flag of the file comes from a drop-in's ``Environment``, which has a space."""
    (fake.root / "opt/azure/containers").mkdir(parents=True)
    fake.file("/etc/default/kubelet", "KUBELET_FLAGS=--v=2 --max-pods=110\n")
    fake.file(AKS, json.dumps(STATIC, indent=4))
    drop_in = "/etc/systemd/system/kubelet.service.d/10-componentconfig.conf"
    fake.file(drop_in, "[Service]\n")
    flag = f"KUBELET_CONFIG_FILE_FLAGS=--config {AKS}"
    start(
        fake,
        "/usr/local/bin/kubelet $KUBELET_CONFIG_FILE_FLAGS $KUBELET_FLAGS",
        drop_ins=drop_in,
        environment_file="/etc/default/kubelet",
        Environment=flag.replace(" ", r"\x20") if escaped else f'A=b "{flag}"',
    )
    fake.file("/usr/local/bin/kubelet", "#!/bin/sh\necho Kubernetes v1.33.1\n", 0o755)


def bottlerocket(fake: FakeNode) -> None:
    fake.file("/etc/os-release", 'NAME=Bottlerocket\nID=bottlerocket\nVERSION="1.20.0"\n')
    fake.file("/etc/kubernetes/kubelet/config", yaml.safe_dump(STATIC))
    words = "/usr/bin/kubelet --config /etc/kubernetes/kubelet/config --root-dir /var/lib/kubelet"
    start(fake, words)


def talos(fake: FakeNode) -> None:
    """No systemd; the kubelet runs in a container, and its program is no file of the host."""
    fake.lacks("/usr/bin/kubelet", *KUBEADM)
    fake.file("/etc/os-release", 'NAME="Talos"\nID=talos\nVERSION_ID=v1.11.0\n')
    (fake.root / "run/systemd/system").rmdir()
    fake.file("/etc/kubernetes/kubelet.yaml", yaml.safe_dump(STATIC))
    program = fake.file("/in-a-container/kubelet", "#!/bin/sh\necho Kubernetes v1.34.1\n", 0o755)
    words = "/usr/local/bin/kubelet\0--config=/etc/kubernetes/kubelet.yaml\0"
    fake.process(words, "/podruntime/kubelet", program=str(program))


def microshift(fake: FakeNode) -> None:
    text = "#!/bin/sh\n[ $1 = version ] && echo MicroShift Version: 4.18.1 && exit\nexit 1\n"
    fake.file("/usr/bin/microshift", text, 0o755)
    default = {**STATIC, "cpuManagerPolicy": "none", "maxPods": 250}
    fake.file(MICROSHIFT, yaml.safe_dump(default))
    fake.file(
        "/etc/microshift/config.yaml",
        "dns: {baseDomain: a.example}\nkubelet: {cpuManagerPolicy: static, failSwapOn: false}\n",
    )
    start(fake, "/usr/bin/microshift run", unit="microshift.service")


def k0s(fake: FakeNode) -> None:
    """Stopped: nothing but the unit tells what the kubelet would be started with."""
    fake.file("/var/lib/k0s/kubelet-config.yaml", yaml.safe_dump(STATIC))
    fake.file("/var/lib/k0s/kubelet/cpu_manager_state", '{"entries": {}}')
    unit = "/etc/systemd/system/k0sworker.service"
    extra = '"--kubelet-extra-args=--reserved-cpus=0-1,16-17 --v=4"'
    line = f"ExecStart=/usr/local/bin/k0s worker --config=/etc/k0s/k0s.yaml {extra}"
    fake.file(unit, f"[Service]\n{line}\n")
    words = line.partition("=")[2].replace('"', "")
    start(fake, words, unit="k0sworker.service", FragmentPath=unit)


@dataclass(frozen=True, slots=True)
class Known:
    """What is found on a node that ``make`` makes: the kubelet's file, its release (``""``: its
    program is not there), and its state file; the file in which a configuration is ``changed``
    (``""``: in none); what cannot be done there."""

    make: Callable[[FakeNode], None]
    name: str
    config: str
    release: str
    changed: str
    cannot: Mapping[Capability, str] = field(default_factory=dict)
    reserved: str = "0,16"
    state: str = "/var/lib/kubelet/cpu_manager_state"


KINDS = (
    Known(eks, "eks", EKS, "1.36", f"{EKS}.d/{DROP_IN}.conf"),
    Known(
        partial(eks, drop_ins=False), "eks", EKS, "1.36", EKS,
        {Capability.REBOOT: "nodeadm writes it at each boot"},
    ),
    Known(
        gke, "gke", GKE, "1.33", GKE,
        {Capability.REBOOT: "GKE's configure-helper.sh writes it at each boot"},
    ),
    Known(aks, "aks", AKS, "1.33", AKS),
    Known(microshift, "microshift", MICROSHIFT, "1.31", "/etc/microshift/config.yaml"),
    Known(
        bottlerocket, "bottlerocket", "/etc/kubernetes/kubelet/config", "1.36", "",
        {
            Capability.CONFIGURE: "its kubelet's configuration belongs to Bottlerocket, which "
            "makes it of its settings: set settings.kubernetes"
        },
    ),
    Known(
        k0s, "k0s", "/var/lib/k0s/kubelet-config.yaml", "", "",
        {
            Capability.CONFIGURE: "its kubelet's configuration belongs to k0s, which writes it "
            "at each start: give it a worker profile, or --kubelet-extra-args"
        },
        reserved="0-1,16-17", state="/var/lib/k0s/kubelet/cpu_manager_state",
    ),
)  # fmt: skip


def found(fake: FakeNode) -> tuple[NodeFacts, Distribution]:
    facts = fake.facts()
    return facts, distribution_of(facts)


@pytest.mark.parametrize("known", KINDS, ids=lambda one: f"{one.name} {one.changed}".strip())
def test_a_kind_is_known_by_what_is_on_it(fake: FakeNode, known: Known) -> None:
    """Its kubelet's file, policy, state and release are found. What cannot be done has a reason. A
    node that has a change of the configuration has that configuration."""
    known.make(fake)
    facts, distribution = found(fake)
    kubelet = kubelet_of(facts)
    assert distribution.name == known.name
    assert (kubelet.config_path, kubelet.release) == (known.config, known.release)
    assert (kubelet.policy, kubelet.state_path) == ("static", known.state)
    assert kubelet.config.reserved_system_cpus == CPUSet.parse(known.reserved)
    assert facts.oddities == ()
    assert unable(facts) == known.cannot
    able = capabilities(facts, Risk.REBOOT, boots=True, server=True)
    assert not able & known.cannot.keys()
    assert Capability.RESTART in able
    if known.changed:
        change = changed(distribution, facts)
        assert change.path == known.changed
        if known.changed.endswith(".json"):
            assert json.loads(change.content)["staticPodPath"] == "/etc/kubernetes/manifests"
        fake.file(known.changed, change.content.decode())
        again, _ = found(fake)
        assert kubelet_of(again).config.policy == "none"
        assert again.oddities == ()


def changed(distribution: Distribution, facts: NodeFacts) -> WriteFile:
    """What gives its kubelet the configuration ``NONE``."""
    (change,) = distribution.configure(facts, NONE)
    assert isinstance(change, WriteFile)
    return change


def test_what_else_microshift_is_told_stays(fake: FakeNode) -> None:
    microshift(fake)
    facts, distribution = found(fake)
    content = document(changed(distribution, facts).content.decode())
    assert content["dns"] == {"baseDomain": "a.example"}
    assert content["kubelet"]["failSwapOn"] is False


def test_a_drop_in_of_microshift_overrides_its_file(fake: FakeNode) -> None:
    microshift(fake)
    path = "/etc/microshift/config.d/20-kubelet.yaml"
    fake.file(path, "kubelet: {reservedSystemCPUs: '0-1'}\n")
    facts, distribution = found(fake)
    assert kubelet_of(facts).config.reserved_system_cpus == CPUSet([0, 1])
    with pytest.raises(NodeUnfit, match=f"^fake: {path} overrides /etc/microshift/config.yaml$"):
        distribution.configure(facts, NONE)


@pytest.mark.parametrize("escaped", [False, True])
def test_a_flag_with_a_space_in_a_units_environment(fake: FakeNode, escaped: bool) -> None:
    """However systemctl writes it."""
    aks(fake, escaped=escaped)
    facts, _ = found(fake)
    kubelet = kubelet_of(facts)
    assert kubelet.flags == {"config": AKS, "v": "2", "max-pods": "110"}


def test_k0s_hands_extra_arguments_through() -> None:
    """Its own ``--config`` is not the kubelet's."""
    assert k0s_flags(["ExecStart=/k0s worker \\\n  --kubelet-extra-args '--a=1 --b'\n"]) == {
        "a": "1", "b": "true",
    }  # fmt: skip


def test_a_kubelet_that_no_service_holds_stays_up(fake: FakeNode) -> None:
    """Talos. Pods come and go there; nothing stops or configures the kubelet."""
    talos(fake)
    facts, distribution = found(fake)
    kubelet = kubelet_of(facts)
    assert distribution.name == "talos"
    assert (kubelet.config_path, kubelet.release) == ("/etc/kubernetes/kubelet.yaml", "1.34")
    assert (kubelet.policy, kubelet.config.reserved_system_cpus) == ("static", CPUSet([0, 16]))
    assert kubelet.state_path == "/var/lib/kubelet/cpu_manager_state"
    assert facts.oddities == ()
    why = "its kubelet is not a systemd service"
    cannot = unable(facts)
    assert {cannot[one] for one in (Capability.RESTART, Capability.REBOOT)} == {why}
    able = capabilities(facts, Risk.REBOOT, boots=True, server=True)
    assert {Capability.PODS, Capability.CPUSETS, Capability.STATE_FILE} <= able
    assert not able & {Capability.RESTART, Capability.CONFIGURE, Capability.EDIT_STATE}


def test_a_node_that_keeps_its_configuration_is_judged_by_it(reachable: FakeNode) -> None:
    """Whatever may be done to it; and what it lacks is told with the reason."""
    bottlerocket(reachable)
    with closing(NodeSubject.open("local:?max-risk=kubelet-restart")) as subject:
        config = subject.own_config(subject.machines[0].name)
        assert config is not None
        assert config.policy == "static"
        assert Capability.RESTART in subject.capabilities
        assert "Bottlerocket" in subject.lacking[Capability.CONFIGURE]


@pytest.mark.parametrize(
    ("make", "file", "name"),
    [
        (eks, KUBEADM[0], "eks"),
        (gke, KUBEADM[0], "gke"),
        (k0s, KUBEADM[0], "k0s"),
        (bottlerocket, "/etc/eks/kubelet/environment", "bottlerocket"),
        (microshift, "/etc/machine-config-daemon/currentconfig", "microshift"),
    ],
)
def test_a_node_that_resembles_two_kinds(
    fake: FakeNode, make: Callable[[FakeNode], None], file: str, name: str
) -> None:
    """What the kubelet reads goes before what lies about."""
    make(fake)
    fake.file(file, "")
    assert found(fake)[1].name == name


@pytest.mark.parametrize("file", ["/etc/eks/kubelet/environment", "/opt/azure/containers/x"])
def test_kubeadm_beside_what_another_kind_left_is_kubeadm(fake: FakeNode, file: str) -> None:
    fake.file(file, "")
    assert found(fake)[1].name == "kubeadm"


def test_probe_says_what_can_be_changed_and_whether_it_lasts(
    reachable: FakeNode, says: Says
) -> None:
    gke(reachable)
    status, out, _ = says("probe", "local:", "--json")
    (node,) = json.loads(out)
    assert (status, node["distribution"]) == (0, "gke")
    assert node["facts"]["configuration can be changed"] == "yes"
    lost = "no: GKE's configure-helper.sh writes it at each boot"
    assert node["facts"]["a changed configuration survives a reboot"] == lost
    reasons = node["scenarios"]["do not apply"].values()
    assert any("GKE's configure-helper.sh writes it at each boot" in one for one in reasons)


# ---- a name of the inventory --------------------------------------------------------------------


def inventory(folder: Path, distribution: str) -> str:
    """Of a node, on which everything is kubeadm's; the name is to be obeyed."""
    place = folder / "lab.toml"
    place.write_text(
        f'[[node]]\nname = "node7"\nurl = "ssh://root@n"\ndistribution = "{distribution}"\n'
        '[node.kubelet]\nunit = "kubelet.service"\n'
    )
    return str(place)


def test_the_subject_says_the_name(reachable: FakeNode, tmp_path: Path) -> None:
    with closing(NodeSubject.open(inventory(tmp_path, "K3s"))) as subject:
        assert subject.info.facts["distribution"] == "k3s"


def test_a_certificate_says_the_name(fake: FakeNode, tmp_path: Path) -> None:
    (address,) = nodes(inventory(tmp_path, "k3s"))
    system = of_node(fake.facts(paths=address.kubelet)).system
    assert system is not None
    assert system.distribution == "k3s"


def test_probe_says_the_name(reachable: FakeNode, tmp_path: Path) -> None:
    (address,) = nodes(inventory(tmp_path, "openshift"))
    probed: dict[str, Any] = _probed(address, Risk.REBOOT, {})
    assert probed["distribution"] == "openshift"
    reasons = probed["scenarios"]["do not apply"].values()
    assert any("the Machine Config Operator" in reason for reason in reasons)


def test_what_the_named_one_is_configured_by_is_watched(fake: FakeNode, tmp_path: Path) -> None:
    """A run that changes k3s's own file past the journal did not restore the node."""
    (address,) = nodes(inventory(tmp_path, "k3s"))
    place = fake.file("/etc/rancher/k3s/config.yaml", "kubelet-arg: []\n")
    facts = fake.facts(paths=address.kubelet)
    with (
        pytest.raises(NotRestored, match=r"/etc/rancher/k3s/config\.yaml"),
        Guarded(fake.shell(), facts, Risk.KUBELET_RESTART, settle=0),
    ):
        place.write_text("kubelet-arg: [v=9]\n")


def test_a_name_of_none_is_refused(described: NodeFacts) -> None:
    said = "distribution 'k9s': it is one of talos, bottlerocket"
    with pytest.raises(NodeUsageError, match=said):
        distribution_of(replace(described, distribution="k9s"))
