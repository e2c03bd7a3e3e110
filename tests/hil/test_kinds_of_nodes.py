"""Nodes as the documentation of EKS, GKE, AKS, Bottlerocket, Talos, MicroShift and k0s has them:
what is found there, what can be changed, and whether that lasts."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest
import yaml

from conformance.subject import Capability
from hil.abilities import capabilities, unable
from hil.distributions import Distribution, distribution_of
from hil.distributions.settings import DROP_IN
from hil.inspection import NodeFacts, gather, kubelet_of
from hil.inspection.kubelet import document, k0s_flags
from hil.safety import Risk, WriteFile
from hil.shell import NodeUnfit
from hil.subject import NodeSubject
from reference import CPUSet
from reference.steps import KubeletConfig
from tests.support.fakenode import FakeNode

STATIC = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0,16",
    "staticPodPath": "/etc/kubernetes/manifests",
}
NONE = KubeletConfig(policy="none")


def command(words: str) -> str:
    """A command as ``systemctl show -p ExecStart`` has it."""
    return f"{{ path={words.split()[0]} ; argv[]={words} ; ignore_errors=no }}"


def without_kubeadm(fake: FakeNode) -> None:
    fake.lacks(
        "/var/lib/kubelet/kubeadm-flags.env",
        "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
    )


def eks(fake: FakeNode, *, drop_ins: bool = True) -> None:
    """AL2023: nodeadm wrote the files; a user's settings are a drop-in."""
    without_kubeadm(fake)
    folder = "/etc/kubernetes/kubelet"
    extra = f" --config-dir={folder}/config.json.d" if drop_ins else ""
    fake.file(
        "/etc/eks/kubelet/environment",
        f"NODEADM_KUBELET_ARGS=--config={folder}/config.json --v=2{extra}\n",
    )
    fake.file(f"{folder}/config.json", json.dumps(STATIC, indent="\t"))
    if drop_ins:
        text = json.dumps({**STATIC, "topologyManagerPolicy": "restricted"})
        fake.file(f"{folder}/config.json.d/40-nodeadm.conf", text)
    fake.service(
        "kubelet.service",
        DropInPaths="",
        EnvironmentFiles="/etc/eks/kubelet/environment (ignore_errors=no)",
        ExecStart=command("/usr/bin/kubelet $NODEADM_KUBELET_ARGS"),
    )


def gke(fake: FakeNode) -> None:
    without_kubeadm(fake)
    fake.file("/home/kubernetes/bin/kubelet", "#!/bin/sh\necho Kubernetes v1.33.1-gke.5\n", 0o755)
    fake.file("/home/kubernetes/kubelet-config.yaml", yaml.safe_dump(STATIC))
    options = "--v=2 --config /home/kubernetes/kubelet-config.yaml"
    fake.file("/etc/default/kubelet", f'KUBELET_OPTS="{options}"\nKUBE_COVERAGE_FILE="/x"\n')
    fake.service(
        "kubelet.service",
        DropInPaths="",
        EnvironmentFiles="/etc/default/kubelet (ignore_errors=no)",
        ExecStart=command("/home/kubernetes/bin/kubelet $KUBELET_OPTS"),
    )


def aks(fake: FakeNode, *, escaped: bool = False) -> None:
    """The flag of the file comes from a drop-in's ``Environment``, which has a space."""
    without_kubeadm(fake)
    (fake.root / "opt/azure/containers").mkdir(parents=True)
    fake.file("/etc/default/kubelet", "KUBELET_FLAGS=--v=2 --max-pods=110\n")
    fake.file("/etc/default/kubeletconfig.json", json.dumps(STATIC, indent=4))
    drop_in = "/etc/systemd/system/kubelet.service.d/10-componentconfig.conf"
    fake.file(drop_in, "[Service]\n")
    flag = "KUBELET_CONFIG_FILE_FLAGS=--config /etc/default/kubeletconfig.json"
    fake.service(
        "kubelet.service",
        DropInPaths=drop_in,
        Environment=flag.replace(" ", r"\x20") if escaped else f'A=b "{flag}"',
        EnvironmentFiles="/etc/default/kubelet (ignore_errors=no)",
        ExecStart=command("/usr/local/bin/kubelet $KUBELET_CONFIG_FILE_FLAGS $KUBELET_FLAGS"),
    )
    fake.file("/usr/local/bin/kubelet", "#!/bin/sh\necho Kubernetes v1.33.1\n", 0o755)


def bottlerocket(fake: FakeNode) -> None:
    without_kubeadm(fake)
    fake.file("/etc/os-release", 'NAME=Bottlerocket\nID=bottlerocket\nVERSION="1.20.0"\n')
    fake.file("/etc/kubernetes/kubelet/config", yaml.safe_dump(STATIC))
    words = "/usr/bin/kubelet --config /etc/kubernetes/kubelet/config --root-dir /var/lib/kubelet"
    fake.service("kubelet.service", DropInPaths="", EnvironmentFiles="", ExecStart=command(words))


def talos(fake: FakeNode) -> None:
    """No systemd; the kubelet runs in a container, and its program is no file of the host."""
    without_kubeadm(fake)
    fake.lacks("/usr/bin/kubelet")
    fake.file("/etc/os-release", 'NAME="Talos"\nID=talos\nVERSION_ID=v1.11.0\n')
    (fake.root / "run/systemd/system").rmdir()
    fake.file("/etc/kubernetes/kubelet.yaml", yaml.safe_dump(STATIC))
    program = fake.file("/in-a-container/kubelet", "#!/bin/sh\necho Kubernetes v1.34.1\n", 0o755)
    words = "/usr/local/bin/kubelet\0--config=/etc/kubernetes/kubelet.yaml\0"
    fake.process(words, "/podruntime/kubelet", program=str(program))


def microshift(fake: FakeNode) -> None:
    without_kubeadm(fake)
    text = "#!/bin/sh\n[ $1 = version ] && echo MicroShift Version: 4.18.1 && exit\nexit 1\n"
    fake.file("/usr/bin/microshift", text, 0o755)
    default = {**STATIC, "cpuManagerPolicy": "none", "maxPods": 250}
    fake.file("/var/lib/microshift/resources/kubelet/config/config.yaml", yaml.safe_dump(default))
    fake.file(
        "/etc/microshift/config.yaml",
        "dns: {baseDomain: a.example}\nkubelet: {cpuManagerPolicy: static, failSwapOn: false}\n",
    )
    fake.service(
        "microshift.service",
        DropInPaths="",
        EnvironmentFiles="",
        ExecStart=command("/usr/bin/microshift run"),
    )


def k0s(fake: FakeNode) -> None:
    """Stopped: nothing but the unit tells what the kubelet would be started with."""
    without_kubeadm(fake)
    fake.file("/var/lib/k0s/kubelet-config.yaml", yaml.safe_dump(STATIC))
    fake.file("/var/lib/k0s/kubelet/cpu_manager_state", '{"entries": {}}')
    unit = "/etc/systemd/system/k0sworker.service"
    extra = '"--kubelet-extra-args=--reserved-cpus=0-1,16-17 --v=4"'
    line = f"ExecStart=/usr/local/bin/k0s worker --config=/etc/k0s/k0s.yaml {extra}"
    fake.file(unit, f"[Service]\n{line}\n")
    fake.service(
        "k0sworker.service",
        FragmentPath=unit,
        DropInPaths="",
        EnvironmentFiles="",
        ExecStart=command(line.partition("=")[2].replace('"', "")),
    )


#: Maker of the node, the kubelet's file, its release.
KINDS = {
    "eks": (eks, "/etc/kubernetes/kubelet/config.json", "1.36"),
    "gke": (gke, "/home/kubernetes/kubelet-config.yaml", "1.33"),
    "aks": (aks, "/etc/default/kubeletconfig.json", "1.33"),
    "bottlerocket": (bottlerocket, "/etc/kubernetes/kubelet/config", "1.36"),
    "talos": (talos, "/etc/kubernetes/kubelet.yaml", "1.34"),
    "microshift": (
        microshift, "/var/lib/microshift/resources/kubelet/config/config.yaml", "1.31",
    ),
}  # fmt: skip


def found(fake: FakeNode) -> tuple[NodeFacts, Distribution]:
    facts = gather(fake.shell(), root=str(fake.root))
    return facts, distribution_of(facts)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_known_by_what_is_on_it(fake: FakeNode, kind: str) -> None:
    """And its kubelet's file, policy, state and release are found."""
    make, path, release = KINDS[kind]
    make(fake)
    facts, distribution = found(fake)
    kubelet = kubelet_of(facts)
    assert distribution.name == kind
    assert (kubelet.config_path, kubelet.release) == (path, release)
    assert (kubelet.policy, kubelet.config.reserved_system_cpus) == ("static", CPUSet([0, 16]))
    assert kubelet.state_path == "/var/lib/kubelet/cpu_manager_state"
    assert facts.oddities == ()


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (eks, f"/etc/kubernetes/kubelet/config.json.d/{DROP_IN}.conf"),
        (partial(eks, drop_ins=False), "/etc/kubernetes/kubelet/config.json"),
        (gke, "/home/kubernetes/kubelet-config.yaml"),
        (aks, "/etc/default/kubeletconfig.json"),
        (microshift, "/etc/microshift/config.yaml"),
    ],
)
def test_where_a_configuration_is_changed(
    fake: FakeNode, make: Callable[[FakeNode], None], path: str
) -> None:
    """The node that has the change has the configuration."""
    make(fake)
    facts, distribution = found(fake)
    (change,) = distribution.configure(facts, NONE)
    assert isinstance(change, WriteFile)
    assert change.path == path
    if path.endswith(".json"):
        assert json.loads(change.content)["staticPodPath"] == "/etc/kubernetes/manifests"
    fake.file(path, change.content.decode())
    again, _ = found(fake)
    assert kubelet_of(again).config.policy == "none"
    assert again.oddities == ()


def test_what_else_microshift_is_told_stays(fake: FakeNode) -> None:
    microshift(fake)
    facts, distribution = found(fake)
    (change,) = distribution.configure(facts, NONE)
    assert isinstance(change, WriteFile)
    content = document(change.content.decode())
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
    assert kubelet.flags == {
        "config": "/etc/default/kubeletconfig.json", "v": "2", "max-pods": "110",
    }  # fmt: skip


def test_k0s_hands_extra_arguments_through(fake: FakeNode) -> None:
    """Its own ``--config`` is not the kubelet's."""
    k0s(fake)
    facts, distribution = found(fake)
    kubelet = kubelet_of(facts)
    assert distribution.name == "k0s"
    assert (kubelet.config_path, kubelet.policy) == ("/var/lib/k0s/kubelet-config.yaml", "static")
    assert kubelet.config.reserved_system_cpus == CPUSet([0, 1, 16, 17])
    assert kubelet.state_path == "/var/lib/k0s/kubelet/cpu_manager_state"
    assert k0s_flags(["ExecStart=/k0s worker \\\n  --kubelet-extra-args '--a=1 --b'\n"]) == {
        "a": "1", "b": "true",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("make", "cannot"),
    [
        (eks, {}),
        (
            partial(eks, drop_ins=False),
            {Capability.REBOOT: "nodeadm writes it at each boot"},
        ),
        (gke, {Capability.REBOOT: "GKE's configure-helper.sh writes it at each boot"}),
        (aks, {}),
        (microshift, {}),
        (
            bottlerocket,
            {
                Capability.CONFIGURE: "its kubelet's configuration belongs to Bottlerocket, "
                "which makes it of its settings: set settings.kubernetes"
            },
        ),
        (
            k0s,
            {
                Capability.CONFIGURE: "its kubelet's configuration belongs to k0s, which writes "
                "it at each start: give it a worker profile, or --kubelet-extra-args"
            },
        ),
    ],
)
def test_what_cannot_be_done_has_a_reason(
    fake: FakeNode, make: Callable[[FakeNode], None], cannot: dict[Capability, str]
) -> None:
    make(fake)
    facts, _ = found(fake)
    assert unable(facts) == cannot
    able = capabilities(facts, Risk.REBOOT, boots=True, server=True)
    assert not able & cannot.keys()
    assert Capability.RESTART in able


def test_a_kubelet_that_no_service_holds_stays_up(fake: FakeNode) -> None:
    """Talos. Pods come and go there; nothing stops or configures the kubelet."""
    talos(fake)
    facts, _ = found(fake)
    why = "its kubelet is not a systemd service"
    cannot = unable(facts)
    assert {cannot[one] for one in (Capability.RESTART, Capability.REBOOT)} == {why}
    able = capabilities(facts, Risk.REBOOT, boots=True, server=True)
    assert {Capability.PODS, Capability.CPUSETS, Capability.STATE_FILE} <= able
    assert not able & {Capability.RESTART, Capability.CONFIGURE, Capability.EDIT_STATE}


def test_a_node_that_keeps_its_configuration_is_judged_by_it(reachable: FakeNode) -> None:
    """Whatever may be done to it; and what it lacks is told with the reason."""
    bottlerocket(reachable)
    subject = NodeSubject.open("local:?max-risk=kubelet-restart")
    try:
        config = subject.own_config(subject.machines[0].name)
        assert config is not None
        assert config.policy == "static"
        assert Capability.RESTART in subject.capabilities
        assert "Bottlerocket" in subject.lacking[Capability.CONFIGURE]
    finally:
        subject.close()


@pytest.mark.parametrize(
    ("make", "file", "name"),
    [
        (eks, "/var/lib/kubelet/kubeadm-flags.env", "eks"),
        (gke, "/var/lib/kubelet/kubeadm-flags.env", "gke"),
        (k0s, "/var/lib/kubelet/kubeadm-flags.env", "k0s"),
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
    reachable: FakeNode, says: Callable[..., tuple[int, str, str]]
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
