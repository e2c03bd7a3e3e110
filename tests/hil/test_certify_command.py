"""``pinproof certify``: what is certified, side by side, and what a certificate names of a node."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import topologies
from conformance.subject import SubjectInfo, SubjectUsageError
from hil.inspection import NodeFacts, kubelet_of
from hil.inspection.node import Firmware
from hil.shell import NodeUnfit
from pinproof import certifiable, certify, parallel
from pinproof.certify import _targets
from pinproof.cli import app
from pinproof.parallel import Job, run_each
from reports.certificate import Findings, encode, html, read
from tests.hil.conftest import Says
from tests.support.certificates import certificate, result, run
from tests.support.fakenode import FakeNode
from tests.support.until import until
from topologies.tree import Tree

INVENTORY = """
[[node]]
name = "node1"
url = "ssh://root@10.0.0.1"
[[node]]
name = "node2"
url = "ssh://root@10.0.0.2"
"""


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    path = tmp_path / "private" / "lab.toml"
    path.parent.mkdir()
    path.write_text(INVENTORY)
    return str(path)


def test_each_node_of_an_inventory_is_certified_by_itself(inventory: str) -> None:
    found = _targets([inventory], [], "max-risk=pods")
    assert [(one.name, one.folder, one.subject) for one in found] == [
        ("node1", "node1", f"node:{inventory}#node1?max-risk=pods"),
        ("node2", "node2", f"node:{inventory}#node2?max-risk=pods"),
    ]
    (chosen,) = _targets([f"{inventory}#node2"], [], "")
    assert (chosen.name, chosen.place) == ("node2", f"{inventory}#node2")
    (single,) = _targets(["ssh://root@node7"], [], "")
    assert (single.name, single.subject) == ("node7", "node:ssh://root@node7")


def test_each_machine_of_a_kubelet_is_certified_by_itself() -> None:
    found = _targets(["kubelet:/private/kubelet"], ["1s-1n-4c-smt1", "2s-2n-16c-smt2"], "")
    assert [(one.folder, one.words) for one in found] == [
        ("kubelet-kubelet-1s-1n-4c-smt1", ["--machine=1s-1n-4c-smt1"]),
        ("kubelet-kubelet-2s-2n-16c-smt2", ["--machine=2s-2n-16c-smt2"]),
    ]


@pytest.mark.parametrize(
    ("places", "machines", "options", "says"),
    [
        (["kubelet:1.36"], [], "", "name the machine that it is shown with --machine"),
        (["kubelet:1.36"], ["1s-1n-4c-smt1"], "max-risk=pods", "options of real nodes are not for"),
        (["ssh://a@b"], ["1s-1n-4c-smt1"], "", "--machine is for a kubelet"),
        (["ssh://a@b", "ssh://c@b"], [], "", "two certificates would go to the folder b"),
        (["INVENTORY#node3"], [], "", "has no node 'node3'"),
        (["gone.toml"], [], "", "gone.toml: No such file or directory"),
        (["reference"], [], "", "a node is ssh://"),
    ],
)
def test_what_cannot_be_certified_is_said(
    places: list[str], machines: list[str], options: str, says: str, inventory: str
) -> None:
    places = [one.replace("INVENTORY", inventory) for one in places]
    with pytest.raises(SubjectUsageError, match=says):
        _targets(places, machines, options)


def test_a_key_that_is_not_there_is_said_before_anything_runs(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["certify", "ssh://root@node7", "--sign", str(tmp_path / "key")])
    assert str(done.exception) == f"{tmp_path}/key: there is no such key"


def certified(fake: FakeNode) -> Findings:
    return certifiable.of_node(fake.facts())


def test_a_certificate_names_the_node(described: NodeFacts) -> None:
    firmware = Firmware(sys_vendor="QEMU", bios_vendor="SeaBIOS", bios_date="2014")
    facts = replace(described, firmware=firmware, os_release="Debian GNU/Linux 12")
    found = certifiable.of_node(facts)
    machine = found.machine
    assert machine.processor == "Described x86-64 processor"
    assert (machine.sockets, machine.numa_nodes, machine.cores, machine.cpus) == (2, 2, 16, 32)
    assert machine.threads_per_core == 2
    assert (found.firmware.vendor, found.firmware.firmware_vendor) == ("QEMU", "SeaBIOS")
    assert (found.system.emulated, found.system.os) == ("QEMU", "Debian GNU/Linux 12")
    assert (found.system.kernel, found.system.runtime) == ("6.12.1-fake", "containerd v1.7.2")
    assert found.kubelet.version == "v1.36.4"
    assert found.kubelet.digest.startswith("sha256:")
    assert found.configuration.settings["reservedSystemCPUs"] == "0,16"
    assert "staticPodPath" not in found.configuration.settings


def test_a_kubelet_that_does_not_say_its_release_is_not_certified(described: NodeFacts) -> None:
    """A busy node may not have had the time."""
    mute = replace(described, kubelet=replace(kubelet_of(described), release="", version=""))
    with pytest.raises(NodeUnfit, match="its kubelet does not say which release it is"):
        certifiable.of_node(mute)


@pytest.mark.parametrize("described", [True, False])
def test_what_nobody_gave_of_a_described_machine_is_not_certified(described: bool) -> None:
    """Its files name a processor and memory, because a kubelet and lscpu look for them."""
    machine = topologies.machine("1s-1n-4c-smt2")
    if not described:
        machine = replace(machine, tree=Tree({**machine.tree, "proc/version": "6.1"}))
    info = SubjectInfo(name="kubelet:x", release="1.36")
    found = certifiable.of_machine(machine, info).machine
    assert found.described == described
    known = (found.processor, found.microcode, found.memory, found.memory_by_node)
    assert known == ("", "", 0, {}) if described else all(known)


def test_what_a_node_says_need_not_be_text(fake: FakeNode, tmp_path: Path) -> None:
    """Bytes that are not UTF-8, and terminal commands, in every place that a node fills."""
    evil = b"a\xff\x1b[31m\xe2\x80\xae"
    for path in ("/proc/cmdline", "/sys/class/dmi/id/product_name", "/proc/sys/kernel/osrelease"):
        fake.file(path, "").write_bytes(evil)
    fake.file("/etc/os-release", "").write_bytes(b'PRETTY_NAME="' + evil + b'"\n')
    cpuinfo = fake.root / "proc/cpuinfo"
    cpuinfo.write_bytes(cpuinfo.read_bytes().replace(b"Described", evil))
    found = certified(fake)
    parts = ("machine", "firmware", "system", "configuration")
    whole = {part: getattr(found, part) for part in parts}
    statement = certificate(run(result("pass")), tmp_path, **whole)
    written = encode(statement).decode()
    assert read(written.encode()) == statement
    assert not {"\x1b", "\u202e"} & {*written}
    assert "\x1b" not in html(statement)


def test_a_certificate_lists_what_could_be_required(described: NodeFacts) -> None:
    """Every scenario of the catalogue that is not about another machine; those that do not apply
    with the reason. No container of a real node's pods ends: what runs there sleeps until it is
    killed."""
    found = certifiable.of_node(described)
    against = {one.id: one.against for one in found.promises}
    assert against["qos/fraction-shares"] == against["qos/whole-cpus-are-exclusive"] == ""
    assert "exit with a code of its own" in against["containers/ended-pod-returns-its-cpus"]
    assert any(reason.startswith("needs 4 NUMA nodes") for reason in against.values())
    assert "machine/cpu-upgrade-incident" not in against  # it is about a machine of its own
    assert {one.level for one in found.promises} == {"core", "extended"}


def test_every_setting_is_in_the_configurations_digest() -> None:
    """Not only those that decide CPUs; their order is not."""
    one = certifiable.configuration({"cpuManagerPolicy": "static", "maxPods": 110})
    two = certifiable.configuration({"maxPods": 111, "cpuManagerPolicy": "static"})
    same = certifiable.configuration({"maxPods": 110, "cpuManagerPolicy": "static"})
    assert one.settings == two.settings == {"cpuManagerPolicy": "static"}
    assert one.digest == same.digest != two.digest
    options = {"cpuManagerPolicyOptions": {"b": "true", "a": "false"}, "cpuCFSQuota": True}
    assert certifiable.configuration(options).settings == {
        "cpuManagerPolicy": "none (default)",
        "cpuManagerPolicyOptions": "a=false, b=true",
        "cpuCFSQuota": "true",
    }


def test_two_certificates_of_one_node_have_equal_hardware_digests(fake: FakeNode) -> None:
    """Whatever memory is free by then, and however many pages a boot left."""
    before = certified(fake)
    path = fake.root / "sys/devices/system/node/node0/meminfo"
    path.write_text("Node 0 MemTotal: 16383992 kB\nNode 0 MemFree: 1 kB\n")
    cpuinfo = fake.root / "proc/cpuinfo"
    cpuinfo.write_text(cpuinfo.read_text().replace("2000.000", "3500.123"))
    after = certified(fake)
    assert after.machine.hardware_digest == before.machine.hardware_digest
    assert after.machine.digest != before.machine.digest
    assert after.machine.memory != before.machine.memory


def script(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Jobs are this shell script instead of pinproof, in their folder; ``$1`` is a job's name."""

    def started(job: Job) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["/bin/sh", "-c", text, "sh", job.name], cwd=job.log.parent)

    monkeypatch.setattr(parallel, "_started", started)


def jobs(folder: Path, names: str) -> list[Job]:
    return [Job(name, [], folder / "log") for name in names]


def test_jobs_run_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each waits for the other, so one after the other would never end."""
    waits = 'touch "$1"; until [ -e a ] && [ -e b ]; do sleep .05; done'
    script(monkeypatch, f"{waits}; [ $1 = a ] || exit 4")
    ended: list[str] = []
    statuses = run_each(jobs(tmp_path, "ab"), 2, lambda job, status: ended.append(job.name))
    assert statuses == [0, 4]
    assert sorted(ended) == ["a", "b"]


def test_no_more_jobs_run_than_were_allowed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script(monkeypatch, "mkdir lock || exit 1; sleep .2; rmdir lock")
    assert run_each(jobs(tmp_path, "abc"), 1, lambda job, status: None) == [0, 0, 0]


def test_an_interrupt_waits_for_all_to_restore(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A signal to end goes on to every job, and each ends in its own time."""
    trap = 'trap \'sleep .3; touch "$1.restored"; exit 3\' INT; touch "$1"'
    script(monkeypatch, f"{trap}; while :; do sleep .05; done")

    def end() -> None:
        assert until(lambda: all((tmp_path / name).exists() for name in "ab"))
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end).start()
    with pytest.raises(KeyboardInterrupt):
        run_each(jobs(tmp_path, "ab"), 2, lambda job, status: None)
    assert (tmp_path / "a.restored").exists()
    assert (tmp_path / "b.restored").exists()


def test_an_interrupt_while_a_job_is_started_ends_that_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def started(job: Job) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen(["/bin/sleep", "1000"]))
        os.kill(os.getpid(), signal.SIGTERM)
        return begun[-1]

    monkeypatch.setattr(parallel, "_started", started)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_each(jobs(tmp_path, "ab"), 2, lambda job, status: None)
        (only,) = begun
        assert only.poll() == -signal.SIGINT
    finally:
        for process in begun:
            process.kill()
            process.wait()


def test_a_line_for_each_that_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "node1"
    folder.mkdir()
    statement = certificate(run(result("pass")), folder)
    (folder / certify.CERTIFICATE).write_bytes(encode(statement))
    certify._say_outcome(Job("node1", [], folder / certify.LOG), 0)
    said = capsys.readouterr()
    assert said.err.startswith("certificate of node7: SUCCESS: Every required scenario")
    assert said.out == f"{folder}/certificate.html\n"
    silent = tmp_path / "node2"
    silent.mkdir()
    (silent / certify.LOG).write_text("first\npinproof: node2: connection refused\x1b[31m\n")
    certify._say_outcome(Job("node2", [], silent / certify.LOG), 3)
    assert capsys.readouterr().err == (
        "node2: no certificate: pinproof: node2: connection refused (exit status 3)\n"
    )


def test_several_nodes_that_are_not_there_end_with_the_gravest_status(
    inventory: str, tmp_path: Path, says: Says
) -> None:
    path = Path(inventory)
    path.write_text(re.sub(r"10\.0\.0\.\d", "127.0.0.1:1", path.read_text()))
    report = tmp_path / "out"
    status, _, error = says("certify", inventory, "--report", str(report))
    assert status == 3
    first, *rest = error.splitlines()
    assert first == f"pinproof: 2 certificates; what is done goes to {report}/*/certify.log"
    assert sorted(line.partition(":")[0] for line in rest) == ["node1", "node2"]
    assert all("no certificate" in line for line in rest)
    assert (report / "node1/certify.log").stat().st_size
