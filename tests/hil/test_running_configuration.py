"""The configuration that a kubelet runs with, beside the one that is written on the node."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hil.inspection import NodeFacts
from hil.inspection.running import Compared, compare
from hil.shell import NodeUnreachable
from tests.hil.conftest import Says
from tests.support.fakenode import FakeNode

CONFIG_PATH = "/var/lib/kubelet/config.yaml"
OPTIONS = "cpuManagerPolicyOptions"
WRITTEN = """\
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
cpuManagerReconcilePeriod: 5s
reservedSystemCPUs: 0,16
topologyManagerPolicy: restricted
topologyManagerScope: pod
kubeReserved: {cpu: 500m, memory: 1Gi}
"""
RUNS = {
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "cpuManagerReconcilePeriod": "5000ms",
    "reservedSystemCPUs": "0-0,16",
    "topologyManagerPolicy": "restricted",
    "topologyManagerScope": "pod",
    "memoryManagerPolicy": "None",
    "kubeReserved": {"cpu": "500m", "memory": "2Gi"},
}
#: As an unmodified kubelet 1.36.4 wrote them into the journal of a node of the lab.
LOG = (
    'I1127 04:52:13.853914     281 container_manager_linux.go:278] "Creating Container Manager '
    'object based on Node Config" nodeConfig={"NodeName":"n","ReservedSystemCPUs":{},"System'
    'Reserved":{"cpu":"1"},"CPUManagerPolicy":"static","CPUManagerPolicyOptions":{"full-pcpus-only":"true"}'
    ',"TopologyManagerScope":"pod","CPUManagerReconcilePeriod":5000000000,"MemoryManagerPolicy":'
    '"None","CPUCFSQuotaPeriod":100000000,"TopologyManagerPolicy":"restricted",'
    '"TopologyManagerPolicyOptions":null,"CgroupVersion":2}\n'
    'I1127 04:52:14.702231     281 policy_static.go:206] "Reserved CPUs not available for '
    'exclusive assignment" reservedSize=2 reserved="0,16"\n'
)


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> FakeNode:
    """A node with a kubelet that runs."""
    made = FakeNode(tmp_path_factory.mktemp("node") / "root")
    command, unit = f"/usr/bin/kubelet\0--config={CONFIG_PATH}\0", "kubelet.service"
    made.process(command, f"/system.slice/{unit}", program="/usr/bin/kubelet")
    made.file(CONFIG_PATH, WRITTEN)
    return made


@pytest.fixture(scope="module")
def facts(fake: FakeNode) -> NodeFacts:
    return fake.facts()


@pytest.fixture
def up(fake: FakeNode) -> FakeNode:
    """With no program to ask its kubelet with but a journal without lines."""
    fake.file("/fake/bin/curl", "#!/bin/sh\nexit 22\n", 0o755)
    journal(fake, "")
    return fake


def configz(fake: FakeNode, settings: dict[str, Any], only: str = "") -> None:
    """The kubelet answers curl; where ``only`` is given, to the owner of that certificate."""
    fake.file("/fake/answer", json.dumps({"kubeletconfig": settings}))
    asked = f'case "$*" in *{only}*https://127.0.0.1:10250/configz) cat {fake.root}/fake/answer ;;'
    fake.file("/fake/bin/curl", f"#!/bin/sh\n{asked} *) exit 22 ;; esac\n", 0o755)


def journal(fake: FakeNode, text: str) -> None:
    fake.file("/fake/log", text)
    asked = f'case "$*" in *_PID=4242*) cat {fake.root}/fake/log ;; esac'
    fake.file("/fake/bin/journalctl", f"#!/bin/sh\n{asked}\n", 0o755)


Found = Callable[..., Compared]


@pytest.fixture
def found(up: FakeNode, facts: NodeFacts) -> Found:
    """What runs on the node, beside what is written there."""
    return partial(compare, up.shell(), facts)


def differing(compared: Compared) -> list[tuple[str, str, str]]:
    assert not compared.unread
    return [(one.name, one.written, one.runs) for one in compared.differing]


def test_a_kubelet_that_runs_as_written_differs_in_nothing(up: FakeNode, found: Found) -> None:
    """Whatever the form that each side writes a value in; memory decides no CPUs."""
    configz(up, RUNS)
    compared = found()
    assert compared.differing == ()
    assert compared.source == "/configz, on the node"
    assert {one.name: one.runs for one in compared.settings} == {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0,16",
        "cpuManagerReconcilePeriod": "5s",
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "pod",
        "memoryManagerPolicy": "None",
        "cpuManagerPolicyOptions full-pcpus-only": "true",
        "kubeReserved cpu": "500m",
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"cpuManagerPolicy": "none"}, ("cpuManagerPolicy", "static", "none")),
        ({"cpuManagerPolicy": None}, ("cpuManagerPolicy", "static", "none")),
        ({OPTIONS: None}, (f"{OPTIONS} full-pcpus-only", "true", "")),
        ({OPTIONS: {"full-pcpus-only": "false"}}, (f"{OPTIONS} full-pcpus-only", "true", "false")),
        ({"reservedSystemCPUs": "0"}, ("reservedSystemCPUs", "0,16", "0")),
        ({"cpuManagerReconcilePeriod": "10s"}, ("cpuManagerReconcilePeriod", "5s", "10s")),
        ({"topologyManagerPolicy": "none"}, ("topologyManagerPolicy", "restricted", "none")),
        ({"topologyManagerScope": None}, ("topologyManagerScope", "pod", "container")),
        (
            {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}},
            ("topologyManagerPolicyOptions prefer-closest-numa-nodes", "", "true"),
        ),
        ({"memoryManagerPolicy": "Static"}, ("memoryManagerPolicy", "None", "Static")),
        ({"kubeReserved": None}, ("kubeReserved cpu", "500m", "")),
    ],
)
def test_each_setting_that_runs_otherwise_is_one_line(
    found: Found, change: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    runs = {name: value for name, value in (RUNS | change).items() if value is not None}
    assert differing(found(ask=lambda: {"kubeletconfig": runs})) == [expected]


def test_what_only_an_owner_of_a_certificate_is_told_is_read(up: FakeNode, found: Found) -> None:
    """Of the node's own files; the key is named to curl, and read by nobody else."""
    for end in ("crt", "key"):
        up.file(f"/etc/kubernetes/pki/apiserver-kubelet-client.{end}", "")
    configz(up, RUNS, only="apiserver-kubelet-client.crt*apiserver-kubelet-client.key")
    assert found().source == "/configz, on the node"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"CPUManagerPolicy":"static"', '"CPUManagerPolicy":"none"',
         ("cpuManagerPolicy", "static", "none")),
        ('{"full-pcpus-only":"true"}', "null", (f"{OPTIONS} full-pcpus-only", "true", "")),
        ('reserved="0,16"', 'reserved="0"', ("reservedSystemCPUs", "0,16", "0")),
        (":5000000000,", ":10000000000,", ("cpuManagerReconcilePeriod", "5s", "10s")),
        ('Scope":"pod"', 'Scope":"container"', ("topologyManagerScope", "pod", "container")),
        ('"MemoryManagerPolicy":"None"', '"MemoryManagerPolicy":"Static"',
         ("memoryManagerPolicy", "None", "Static")),
    ],
)  # fmt: skip
def test_without_configz_the_journal_tells(
    up: FakeNode, found: Found, old: str, new: str, expected: tuple[str, str, str]
) -> None:
    journal(up, LOG.replace(old, new))
    compared = found()
    assert compared.source == "the kubelet's journal"
    assert differing(compared) == [expected]


def test_a_journal_tells_no_reservations_by_quantity(up: FakeNode, found: Found) -> None:
    """So these are no difference; and of policy none it says nothing of reserved CPUs."""
    journal(up, LOG)
    assert differing(found()) == []
    journal(up, LOG.splitlines(keepends=True)[0])
    assert "reservedSystemCPUs" not in [one.name for one in found().settings]
    assert differing(found()) == []


def test_a_file_that_was_changed_after_the_start_differs(up: FakeNode) -> None:
    configz(up, RUNS)
    up.file(CONFIG_PATH, WRITTEN.replace("restricted", "single-numa-node"))
    compared = compare(up.shell(), up.facts())
    up.file(CONFIG_PATH, WRITTEN)
    assert differing(compared) == [("topologyManagerPolicy", "single-numa-node", "restricted")]


@pytest.mark.parametrize(
    ("answer", "unread"),
    [
        ("{}", "/configz has no configuration: "),
        ("{", "/configz has no configuration: "),
        ('{"kubeletconfig": 1}', "/configz has no configuration: "),
        ("", ".*; and its journal has no line of its start"),
    ],
)
def test_a_node_that_tells_no_configuration_is_no_verdict(
    up: FakeNode, found: Found, answer: str, unread: str
) -> None:
    configz(up, RUNS)
    up.file("/fake/answer", answer)
    compared = found()
    assert (compared.settings, compared.differing) == ((), ())
    assert re.match(unread, compared.unread)


def test_the_api_server_is_asked_first(up: FakeNode, found: Found) -> None:
    configz(up, RUNS | {"topologyManagerScope": "container"})
    asked = found(ask=lambda: {"kubeletconfig": RUNS})
    assert asked.source.endswith("the API server")
    assert differing(asked) == []

    def refuses() -> dict[str, Any]:
        raise NodeUnreachable("https://a: cannot read: nodes/proxy is forbidden")

    assert differing(found(ask=refuses)) == [("topologyManagerScope", "pod", "container")]
    up.file("/fake/bin/curl", "#!/bin/sh\nexit 22\n", 0o755)
    unread = found(ask=refuses).unread
    assert unread.startswith("https://a: cannot read: nodes/proxy is forbidden; the kubelet")


def test_a_probe_ends_with_1_where_they_differ(
    up: FakeNode, reachable: FakeNode, says: Says, tmp_path: Path
) -> None:
    status, out, _ = says("probe", "local:")
    assert status == 0
    assert "The configuration that runs is not known: the kubelet does not answer" in out
    configz(up, RUNS)
    assert says("probe", "local:")[0] == 0
    configz(up, RUNS | {"cpuManagerPolicyOptions": {}})
    status, out, _ = says("probe", "local:")
    assert status == 1
    (row,) = [line.split() for line in out.splitlines() if "full-pcpus-only" in line]
    assert row == ["cpuManagerPolicyOptions", "full-pcpus-only", "true", "differs"]
    (node,) = json.loads(says("probe", "local:", "--json")[1])
    assert node["configuration"]["same"] is False
    assert node["round trips"] == 3


def test_a_probe_takes_what_the_node_was_meant_to_run(
    up: FakeNode, reachable: FakeNode, says: Says, tmp_path: Path
) -> None:
    """What was left out before the node was made is written nowhere on it."""
    configz(up, RUNS)
    meant = tmp_path / "meant.yaml"
    meant.write_text("cpuManagerPolicyOptions: {distribute-cpus-across-numa: 'true'}\n")
    status, out, _ = says("probe", "local:", "--meant", str(meant))
    assert (status, "distribute-cpus-across-numa" in out) == (1, True)
    meant.write_text("- a\n")
    status, _, err = says("probe", "local:", "--meant", str(meant))
    assert (status, "not one KubeletConfiguration" in err) == (2, True)
