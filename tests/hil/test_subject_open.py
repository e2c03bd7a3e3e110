"""How a subject of nodes is named, and what it can do by what is on its nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from conformance.subject import (
    NOT_OF_REAL_NODES,
    OF_REAL_NODES,
    OF_WHOLE_KUBELETS,
    Capability,
    SubjectUsageError,
)
from hil.abilities import capabilities
from hil.inspection import CgroupFacts, kubelet_of
from hil.pods import Image
from hil.safety import Risk
from hil.safety.risk import RISK_OF
from hil.session.booting import larger_spec
from hil.subject import Options, parse_target
from hil.transport import NodeAddress
from pinproof.subjects import node_options
from tests.hil import test_subject_scenarios as made_up


def test_a_target_names_nodes_and_what_may_be_done() -> None:
    assert parse_target("ssh://root@node7") == ("ssh://root@node7", "", Options())
    place, name, options = parse_target("lab.toml#node7?max-risk=cpu-offline&image=r.io/b:1")
    assert (place, name, options.risk) == ("lab.toml", "node7", Risk.CPU_OFFLINE)
    assert options.image is not None
    assert options.image.name == "r.io/b:1"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "needs an address"),
        ("lab.toml?max-risk=all", "'all': it is one of read-only, pods"),
        ("lab.toml?risk=pods", "unknown option 'risk'"),
    ],
)
def test_a_target_that_cannot_be(target: str, message: str) -> None:
    with pytest.raises(SubjectUsageError, match=message) as caught:
        parse_target(target)
    assert "\n" not in str(caught.value)


def test_pods_are_the_default_and_the_lab_is_made_to_be_broken() -> None:
    """Unless the user says otherwise."""
    node, lab = NodeAddress("a", "local:"), NodeAddress("b", "local:", lab="2s-2n-8c-smt2")
    assert Options().risk_on(node) is Risk.PODS
    assert Options().risk_on(lab) is Risk.REBOOT
    assert Options(Risk.READ_ONLY).risk_on(lab) is Risk.READ_ONLY
    assert Options().image_on(lab).name != Options().image_on(node).name


def test_every_capability_has_a_risk() -> None:
    """One without would count as a reboot."""
    assert set(RISK_OF) == set(Capability)


def test_capabilities_follow_what_is_on_the_node() -> None:
    """Risk, a list of pods by the kubelet or a server, cgroup version, a service manager, a way to
    boot it."""
    facts = made_up.facts()
    every = capabilities(facts, Risk.REBOOT, boots=True)
    assert every == frozenset(Capability) - NOT_OF_REAL_NODES
    assert capabilities(facts, Risk.REBOOT, boots=False) == every - {Capability.REBOOT}
    pods = capabilities(facts, Risk.PODS, boots=True)
    assert Capability.PODS in pods
    assert not pods & {Capability.RESTART, Capability.CONFIGURE, Capability.HOTPLUG}
    old = replace(facts, cgroup=CgroupFacts(1, "cgroupfs", True, "/sys/fs/cgroup/cpuset"))
    assert Capability.HOTPLUG not in capabilities(old, Risk.REBOOT, boots=True)
    silent = replace(facts, kubelet=replace(kubelet_of(facts), settings={}))
    assert Capability.REJECTIONS not in capabilities(silent, Risk.PODS, boots=False)
    assert Capability.REJECTIONS in capabilities(silent, Risk.PODS, boots=False, server=True)


def test_scenarios_of_nodes_need_more_than_a_cpu_manager() -> None:
    """A kernel, a service manager, a runtime or a whole kubelet."""
    beyond = OF_REAL_NODES | OF_WHOLE_KUBELETS | {Capability.CONTAINERS}
    of_nodes = [one for one in catalogue() if one.area == "node"]
    assert [one.id for one in of_nodes if not one.capabilities & beyond] == []


@pytest.mark.parametrize(
    ("spec", "larger"),
    [
        ("2s-2n-8c-smt2", "2s-2n-12c-smt2"),
        ("1s-1n-4c-smt1", "1s-1n-6c-smt1"),
        ("2s-4n-16c-smt2-near", "2s-4n-24c-smt2-near"),
        ("", ""),
        ("a=b,c", ""),
    ],
)
def test_a_larger_machine_of_the_same_kind(spec: str, larger: str) -> None:
    assert larger_spec(spec) == larger


def test_options_of_the_command_line_are_said_of_every_node() -> None:
    """A path may have any character in it."""
    kubeconfig = Path("/a b/c&d?.conf")
    _, _, options = parse_target(f"lab.toml?{node_options('pods', kubeconfig, 'r.io/b:1')}")
    assert (options.risk, options.image) == (Risk.PODS, Image("r.io/b:1"))
    assert options.applied(NodeAddress("a", "local:")).kubeconfig == kubeconfig
    assert Options().applied(NodeAddress("a", "local:")).kubeconfig is None
    assert node_options("", None) == ""
