"""Facts: what a node is, out of two round trips; and nodes that are odd, hostile or not there."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from conformance.kubelets.configuration import merged
from conformance.kubelets.settings import deciding
from hil.distributions import distribution_of
from hil.distributions.settings import DROP_IN, patch, rewritten
from hil.inspection import (
    NodeFacts,
    Survival,
    Workload,
    gather,
    kubelet_answer,
    kubelet_of,
    released,
    script,
)
from hil.inspection.kubelet import document, environment_of, expanded, flags_of, with_flags
from hil.inspection.node import Firmware, RuntimeFacts
from hil.inspection.paths import KubeletPaths
from hil.inspection.script import NoRecords, first_question, second_question
from hil.safety import WriteFile
from hil.shell import Done, NodeUnfit
from hil.transport.local import LocalShell
from reference import CPUSet
from reference.steps import KubeletConfig
from tests.support.fakenode import CONFIG, PINNED, FakeNode

CONFIG_PATH = "/var/lib/kubelet/config.yaml"
SOCKET = "unix:///run/containerd/containerd.sock"
SMALL_NODE = True


def test_a_node_is_known_after_two_round_trips(fake: FakeNode) -> None:
    shell = fake.shell()
    before = fake.content()
    facts = gather(shell, root=str(fake.root))
    assert shell.trips == 2
    assert fake.content() == before
    assert (facts.hostname, facts.kernel, facts.systemd) == ("fake", "6.12.1-fake", 252)
    assert (facts.online, facts.command_line) == (CPUSet(range(8)), "quiet isolcpus=31")
    assert (facts.cgroup.version, facts.cgroup.driver, facts.cgroup.cpuset) == (2, "systemd", True)
    assert facts.runtime == RuntimeFacts("containerd", "v1.7.2", SOCKET)
    assert len([path for path in facts.machine.tree if path.endswith("/topology/core_id")]) == 8
    assert {"base64", "flock", "setsid", "sha256sum"} <= facts.tools
    assert facts.workloads == (Workload(PINNED, "kube-system", "pinned", CPUSet([2, 3])),)
    kubelet = kubelet_of(facts)
    assert (kubelet.version, kubelet.release) == ("v1.36.4", "1.36")
    assert (kubelet.unit, kubelet.binary) == ("kubelet.service", "/usr/bin/kubelet")
    program = (fake.root / "usr/bin/kubelet").read_bytes()
    assert kubelet.digest == f"sha256:{hashlib.sha256(program).hexdigest()}"
    assert kubelet.flags == {"config": CONFIG_PATH, "v": "2"}
    assert kubelet.config_text == CONFIG
    assert kubelet.config == KubeletConfig(reserved_system_cpus=CPUSet([0, 16]))
    assert kubelet.manifests == "/etc/kubernetes/manifests"
    assert json.loads(kubelet.state_file or "")["policyName"] == "static"
    assert facts.oddities == ()


def test_a_running_kubelets_own_command_line_counts(fake: FakeNode) -> None:
    """Drop-ins in the order of their paths, then flags."""
    command = (
        f"/usr/bin/kubelet\0--config={CONFIG_PATH}\0--config-dir\0/etc/kubernetes/kubelet.conf.d\0"
        "--reserved-cpus=0-1,16-17\0--cpu-cfs-quota=false\0--feature-gates="
        "CPUManagerPolicyAlphaOptions=true,CPUManager=true,RotateKubeletServerCertificate=true\0"
    )
    _process(fake, 4242, command, "kubelet.service")
    folder = "/etc/kubernetes/kubelet.conf.d"
    restricted = "topologyManagerPolicy: restricted\n"
    fake.file(f"{folder}/20-b.conf", "cpuManagerPolicy: none\n")
    fake.file(f"{folder}/10-a.conf", f"cpuManagerPolicy: static\n{restricted}")
    fake.file(f"{folder}/ignored.txt", "cpuManagerPolicy: wrong\n")
    facts = fake.facts()
    kubelet = kubelet_of(facts)
    assert kubelet.process is not None
    assert (kubelet.process.pid, kubelet.process.age) == (4242, 22)
    assert list(kubelet.drop_ins) == [f"{folder}/10-a.conf", f"{folder}/20-b.conf"]
    assert kubelet.policy == "none"
    assert kubelet.config.topology_manager_policy == "restricted"
    assert kubelet.config.reserved_system_cpus == CPUSet([0, 1, 16, 17])
    assert not kubelet.config.cpu_cfs_quota
    # The model knows nothing of certificates, and the CPU manager is there anyway.
    assert kubelet.config.feature_gates == {"CPUManagerPolicyAlphaOptions": True}


_ROWS = """
reservedMemory:
- {numaNode: 0, limits: {memory: 1100Mi, hugepages-1Gi: 2Gi}}
- {numaNode: 1, limits: {memory: 1Gi}}
"""


@pytest.mark.parametrize(
    ("flags", "drop_in", "version", "reserved"),
    [
        ("", f"memoryManagerPolicy: Static{_ROWS}", "1.36.3", {0: "1100Mi", 1: "1Gi"}),
        ("--memory-manager-policy=Static\0--reserved-memory=0:hugepages-1Gi=2Gi,memory=1100Mi\0"
         "--reserved-memory\0001:memory=1Gi\0", "", "1.36.3", {0: "1100Mi", 1: "1Gi"}),
        ("--memory-manager-policy=Static\0", _ROWS, "1.36.3", {0: "1100Mi", 1: "1Gi"}),
        ("", f"memoryManagerPolicy: None{_ROWS}", "1.36.3", {}),
        ("", "memoryManagerPolicy: Static", "1.36.3", {}),
        # The model has the memory manager from 1.26 on.
        ("", f"memoryManagerPolicy: Static{_ROWS}", "1.25.3", {}),
    ],
)  # fmt: skip
def test_the_memory_manager_is_the_nodes(
    fake: FakeNode, flags: str, drop_in: str, version: str, reserved: dict[int, str]
) -> None:
    """With what it sets aside in each NUMA node, huge pages left out."""
    folder = "/etc/kubernetes/kubelet.conf.d"
    command = f"/usr/bin/kubelet\0--config={CONFIG_PATH}\0--config-dir={folder}\0{flags}"
    _process(fake, 4242, command, "kubelet.service")
    fake.file(f"{folder}/10-memory.conf", drop_in)
    fake.file("/usr/bin/kubelet", f"#!/bin/sh\necho Kubernetes v{version}\n", mode=0o755)
    config = kubelet_of(fake.facts()).config
    policy = "Static" if reserved else "None"
    assert (config.memory_manager_policy, config.reserved_memory) == (policy, reserved)


def test_another_process_of_that_program_is_not_the_kubelet(fake: FakeNode) -> None:
    others = [
        ("/usr/bin/kubelet\0--version\0", "ssh.service"),  # another run asks it, at the same time
        ("/usr/bin/kubelet\0--help\0", "ssh.service"),
        ("", "kubelet.service"),  # it has just been started, or just ended
        (f"/usr/bin/kubelet\0--config={CONFIG_PATH}\0--v=9\0", "docker.service"),
    ]
    _process(fake, 4242, f"/usr/bin/kubelet\0--config={CONFIG_PATH}\0--v=7\0", "kubelet.service")
    for number, (command, unit) in enumerate(others):
        _process(fake, 990 + number, command, unit)
        _process(fake, 5150 + number, command, unit)
    kubelet = kubelet_of(fake.facts())
    assert kubelet.process is not None
    assert kubelet.process.pid == 4242
    assert (kubelet.unit, kubelet.flags["v"]) == ("kubelet.service", "7")
    assert kubelet.manifests == "/etc/kubernetes/manifests"


def test_a_kubelet_that_is_only_asked_its_version_does_not_run(fake: FakeNode) -> None:
    """What its unit would start is what counts."""
    _process(fake, 5151, "/usr/bin/kubelet\0--version\0", "ssh.service")
    kubelet = kubelet_of(fake.facts())
    assert kubelet.process is None
    assert (kubelet.unit, kubelet.manifests) == ("kubelet.service", "/etc/kubernetes/manifests")


def _process(fake: FakeNode, pid: int, command: str, unit: str) -> None:
    fake.process(command, f"/system.slice/{unit}", pid=pid, program="/usr/bin/kubelet")


@pytest.mark.parametrize(("age", "reboot"), [(1000, Survival.UNKNOWN), (10_000, Survival.YES)])
def test_whether_the_state_survived_is_seen(fake: FakeNode, age: int, reboot: Survival) -> None:
    """A file that is older than what runs outlived its start. No kubelet runs here."""
    state = fake.root / "var/lib/kubelet/cpu_manager_state"
    then = state.stat().st_mtime - age
    os.utime(state, (then, then))
    fake.file("/proc/uptime", "5000.00 1.0\n")
    facts = fake.facts()
    assert (facts.survives_restart, facts.survives_reboot) == (Survival.UNKNOWN, reboot)


def test_a_unit_that_deletes_the_state_is_seen(fake: FakeNode) -> None:
    remove = "ExecStartPre=/bin/rm -f /var/lib/kubelet/cpu_manager_state"
    fake.file("/etc/systemd/system/kubelet.service", f"[Service]\n{remove}\n")
    facts = fake.facts()
    assert facts.survives_restart is facts.survives_reboot is Survival.NO


def test_oddities_are_told_and_do_not_stop(fake: FakeNode) -> None:
    """A kubelet may run on settings that its files do not have any more."""
    fake.file(CONFIG_PATH, "a: [unclosed\n\x1b[2J")
    fake.file("/var/lib/kubelet/cpu_manager_state", "\xff not JSON")
    oddities = "\n".join(fake.facts().oddities)
    assert f"{CONFIG_PATH}: not YAML" in oddities
    assert "cpu_manager_state: no state file that can be read" in oddities
    assert "\x1b" not in oddities


def test_a_node_without_a_kubelet(fake: FakeNode) -> None:
    fake.file("/fake/bin/systemctl", "#!/bin/sh\nexit 1\n", 0o755)
    facts = fake.facts()
    assert facts.kubelet is None
    with pytest.raises(NodeUnfit, match="fake: there is no kubelet on it"):
        kubelet_of(facts)


def test_what_the_user_says_goes_before_what_is_found(fake: FakeNode) -> None:
    fake.file("/data/kubelet/cpu_manager_state", '{"entries": {}}')
    paths = KubeletPaths(root_dir="/data/kubelet", manifests="/m", endpoint="unix:///x")
    facts = fake.facts(paths=paths)
    kubelet = kubelet_of(facts)
    assert kubelet.state_file == '{"entries": {}}'
    assert (kubelet.manifests, facts.runtime.endpoint) == ("/m", "unix:///x")


@pytest.mark.parametrize("answer", [b"", b"\x00\xff garbage\x1b[2J", b"\npinproof-x text a\n"])
def test_garbage_is_one_clear_line(answer: bytes) -> None:
    class Garbled(LocalShell):
        def run(self, script: str, **_: object) -> Done:
            return Done(0, answer, b"noise")

    message = "node1: its answer cannot be read: it does not start with"
    with pytest.raises(NodeUnfit, match=message) as caught:
        gather(Garbled("node1"))
    assert str(caught.value).isprintable()


def test_an_answer_that_was_cut_off_is_seen(fake: FakeNode) -> None:
    """Whatever the place; and a file cannot end it before its time."""
    question = second_question(str(fake.root), files=["/etc/x"])
    fake.file("/etc/x", f"\n{question.token[:-1]} end .\n\npinproof end .\n")
    answer = fake.shell().run(question.script).stdout
    records = question.read(answer)
    assert records.text("/etc/x", "file").endswith("pinproof end .\n")
    for cut in (len(answer) - 1, len(answer) - 6, len(answer) // 2):
        with pytest.raises(NoRecords):
            question.read(answer[:cut])


def test_hostile_paths_reach_no_shell(fake: FakeNode, tmp_path: Path) -> None:
    """A kubelet's command line is text of the node."""
    path = f"/etc/$(touch {tmp_path}/hacked); touch {tmp_path}/hacked'"
    question = second_question(str(fake.root), files=[path], programs=[path], endpoint=path)
    fake.shell().run(question.script)
    assert not (tmp_path / "hacked").exists()
    assert first_question("/a b'c").script.startswith("R='/a b'\"'\"'c'")


def test_a_commands_words() -> None:
    assert flags_of(["--a=1", "--b", "2", "x", "--c", "--d=", "-v=3"]) == {
        "a": "1", "b": "2", "c": "true", "d": "", "v": "3",
    }  # fmt: skip
    assert flags_of(["--feature-gates=A=true", "--feature-gates=B=false"]) == {
        "feature-gates": "A=true,B=false"
    }
    environment = environment_of(['# no\nA="--x=1 --y"\nB=z\n', "B=w"])
    assert expanded("/bin/k $A ${B} $C", environment) == ["/bin/k", "--x=1", "--y", "w"]


def test_settings_come_together_as_in_the_kubelet() -> None:
    first = {"featureGates": {"A": True}, "kubeReserved": {"cpu": "1"}, "x": 1}
    both = merged(first, {"featureGates": {"B": False}, "x": None})
    assert both == {"featureGates": {"A": True, "B": False}, "kubeReserved": {"cpu": "1"}}
    flags = {"feature-gates": "B=true", "cpu-manager-policy": "static", "kube-reserved": "cpu=2"}
    config = deciding(with_flags(both, flags))
    assert config.feature_gates == {"A": True, "B": True}
    assert (config.policy, config.kube_reserved) == ("static", "2")
    with pytest.raises(ValueError, match="reservedSystemCPUs"):
        deciding({"reservedSystemCPUs": "a"})
    with pytest.raises(ValueError, match="not a mapping"):
        document("- a")


def test_flavours_are_recognised_by_what_is_there(fake: FakeNode, described: NodeFacts) -> None:
    assert distribution_of(described).name == "kubeadm"
    drop_in = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf"
    fake.service("kubelet.service", DropInPaths="")
    fake.lacks(drop_in, "/var/lib/kubelet/kubeadm-flags.env")
    assert distribution_of(fake.facts()).name == "standalone"
    fake.file("/etc/machine-config-daemon/currentconfig", "{}")
    assert distribution_of(fake.facts()).name == "openshift"


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("k3s-agent.service", "k3s"),
        ("rke2-server.service", "rke2"),
        ("k0sworker.service", "k0s"),
        ("snap.microk8s.daemon-kubelite.service", "microk8s"),
    ],
)
def test_distributions_with_units_of_their_own(fake: FakeNode, unit: str, name: str) -> None:
    fake.service(unit)
    facts = fake.facts()
    distribution = distribution_of(facts)
    assert distribution.name == name
    assert kubelet_of(facts).unit == unit
    assert unit in distribution.start(facts)
    assert unit in distribution.kill(facts)


def test_k3s_takes_flags_from_its_own_files(fake: FakeNode) -> None:
    fake.service("k3s.service")
    fake.file("/etc/rancher/k3s/config.yaml", "kubelet-arg:\n- cpu-manager-policy=static\n")
    fake.file("/etc/rancher/k3s/config.yaml.d/a.yaml", "kubelet-arg+: [reserved-cpus=0]\n")
    facts = fake.facts()
    kubelet = kubelet_of(facts)
    assert kubelet.embedded
    assert kubelet.policy == "static"
    assert kubelet.config.reserved_system_cpus == CPUSet([0])
    (change,) = distribution_of(facts).configure(facts, KubeletConfig(policy="none"))
    assert isinstance(change, WriteFile)
    assert change.path == f"/etc/rancher/k3s/config.yaml.d/{DROP_IN}.yaml"
    assert b"cpu-manager-policy=none" in change.content
    fake.file("/etc/rancher/k3s/config.yaml.d/zzz.yaml", "kubelet-arg: [reserved-cpus=1]\n")
    facts = fake.facts()
    assert "overrides" in distribution_of(facts).cannot_configure(facts)


def test_a_folder_of_manifests_is_named_as_its_files_begin(fake: FakeNode) -> None:
    """Each manifest of ours is known by the folder that it is in."""
    config = (fake.root / CONFIG_PATH[1:]).read_text()
    fake.file(CONFIG_PATH, config.replace("kubernetes/manifests", "kubernetes//manifests/"))
    assert kubelet_of(fake.facts()).manifests == "/etc/kubernetes/manifests"


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("zzz.conf", "reservedSystemCPUs: '0'", "reservedSystemCPUs in {} overrides "),
        ("zz-pinproof.conf.d/a.conf", "cpuManagerPolicy: none", "cpuManagerPolicy in {} overrides"),
        ("zzz.conf", "evictionHard: {}", ""),
        ("99-own.conf", "cpuManagerPolicy: none", ""),
    ],
)
def test_a_drop_in_that_is_read_after_ours_is_told(
    fake: FakeNode, path: str, text: str, said: str
) -> None:
    """The kubelet would run with its settings, and be judged by ours."""
    folder = "/etc/kubernetes/kubelet.conf.d"
    command = f"/usr/bin/kubelet\0--config={CONFIG_PATH}\0--config-dir={folder}\0"
    _process(fake, 4242, command, "kubelet.service")
    fake.file(f"{folder}/{path}", text)
    facts = fake.facts()
    assert f"{folder}/{path}" in kubelet_of(facts).drop_ins
    told = distribution_of(facts).cannot_configure(facts)
    assert told.startswith(said.format(f"{folder}/{path}")) if said else not told


def test_a_configuration_is_changed_where_the_kubelet_reads_it(described: NodeFacts) -> None:
    options = {"full-pcpus-only": "true"}
    config = KubeletConfig(policy="none", policy_options=options, feature_gates={"B": False})
    (change,) = distribution_of(described).configure(described, config)
    assert isinstance(change, WriteFile)
    assert change.path == CONFIG_PATH
    settings = document(change.content.decode())
    assert deciding(settings) == config
    assert settings["staticPodPath"] == "/etc/kubernetes/manifests"
    kept = rewritten("systemReserved: {cpu: 1, memory: 1Gi}\nfeatureGates: {A: true}\n", config)
    assert document(kept)["systemReserved"] == {"memory": "1Gi"}
    assert document(kept)["featureGates"] == {"A": True, "B": False}
    assert deciding(merged({"reservedSystemCPUs": "0"}, document(patch(config)))) == config


def test_a_flag_that_goes_before_files_is_told(fake: FakeNode) -> None:
    flags = 'KUBELET_KUBEADM_ARGS="--cpu-manager-policy=static"\n'
    fake.file("/var/lib/kubelet/kubeadm-flags.env", flags)
    facts = fake.facts()
    with pytest.raises(NodeUnfit, match="--cpu-manager-policy on its command line"):
        distribution_of(facts).configure(facts, KubeletConfig())


def test_a_kubelet_that_is_started_again_is_another(fake: FakeNode, facts: NodeFacts) -> None:
    distribution, shell = distribution_of(facts), fake.shell()
    first = shell.run(distribution.identity(facts)).text
    shell.run(distribution.stop(facts))
    assert shell.run(distribution.identity(facts)).text == ""
    shell.run(distribution.start(facts))
    assert first != shell.run(distribution.identity(facts)).text != ""


def test_firmware_and_distribution_are_known(fake: FakeNode) -> None:
    """As a certificate names them; serial numbers are not asked for."""
    firmware = Firmware(
        sys_vendor="Dell Inc.",
        product_name="PowerEdge R760",
        bios_vendor="Dell",
        bios_version="2.3.5",
        bios_date="09/10/2024",
    )
    for name, text in (*asdict(firmware).items(), ("product_serial", "SECRET7")):
        fake.file(f"/sys/class/dmi/id/{name}", f"{text}\n")
    fake.file("/etc/os-release", 'NAME=x\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    facts = fake.facts()
    assert facts.os_release == "Debian GNU/Linux 12 (bookworm)"
    assert facts.firmware == firmware
    assert (facts.virtual, facts.emulated) == ("", "")
    assert "SECRET7" not in repr(facts)


@pytest.mark.parametrize(
    ("detected", "virtual"), [("exit 9", ""), ("echo kvm", "kvm")], ids=["nothing", "kvm"]
)
def test_a_node_without_firmware_still_has_facts(
    fake: FakeNode, detected: str, virtual: str
) -> None:
    (fake.root / "fake/bin/systemd-detect-virt").write_text(f"#!/bin/sh\n{detected}\n")
    fake.file("/proc/device-tree/model", "A board\0")
    facts = fake.facts()
    assert (facts.os_release, facts.virtual, facts.emulated) == ("", virtual, virtual)
    assert facts.firmware.product_name == "A board"


@pytest.mark.parametrize(
    ("vendor", "product", "virtual", "emulated"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "", "QEMU"),
        ("Dell Inc.", "PowerEdge R760", "kvm", "kvm"),
        ("VMware, Inc.", "VMware7,1", "vmware", "VMware"),
        ("Microsoft Corporation", "Virtual Machine", "microsoft", "Hyper-V"),
        ("Amazon EC2", "m7i.metal-24xl", "", ""),
    ],
)
def test_an_emulated_node_is_known_as_such(
    described: NodeFacts, vendor: str, product: str, virtual: str, emulated: str
) -> None:
    """By firmware, or by systemd where the firmware shows nothing."""
    firmware = Firmware(sys_vendor=vendor, product_name=product)
    assert replace(described, firmware=firmware, virtual=virtual).emulated == emulated


def test_two_looks_at_one_machine_find_one_machine(fake: FakeNode) -> None:
    """Whatever memory is free by then."""
    before = fake.facts().machine
    path = fake.root / "sys/devices/system/node/node0/meminfo"
    path.write_text(path.read_text().replace("MemFree:        14336000", "MemFree:        1"))
    assert fake.facts().machine.digest == before.digest


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("exec sleep 100", "did not say which release it is within 1 s: the node is overloaded"),
        ("trap : TERM; sleep 100 & wait; wait", "did not say which release it is within 1 s"),
        ("echo v1.x", "does not say which release it is: /usr/bin/kubelet --version says v1.x"),
        ("exit 3", "does not say which release it is: /usr/bin/kubelet --version says nothing"),
        ("", "does not say which release it is: /usr/bin/kubelet is not a program there"),
    ],
    ids=["slow", "slow to end", "another text", "nothing", "not there"],
)
def test_a_slow_kubelet_is_told_from_one_that_says_no_release(
    fake: FakeNode, program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "PATIENCE", 1)
    monkeypatch.setattr(kubelet_answer, "PATIENCE", 1)
    fake.file("/usr/bin/kubelet", f"#!/bin/sh\n{program}\n", 0o755)
    if not program:
        fake.lacks("/usr/bin/kubelet")
    with pytest.raises(NodeUnfit) as raised:
        released(fake.facts())
    assert str(raised.value).startswith(f"fake: its kubelet {said}")
