"""A node whose inventory names its distribution: everything obeys the name, whatever is on it.

The node is made of files, and what is on it is kubeadm's.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from conformance.subject import SubjectUsageError
from hil.distributions import distribution_of
from hil.replaced import chosen
from hil.safety import Guarded, NotRestored, Risk
from hil.shell import NodeUsageError
from hil.subject import NodeSubject
from hil.transport import nodes
from pinproof.certifiable import of_node
from pinproof.probe import _probed
from tests.support.fakenode import FakeNode


def inventory(folder: Path, distribution: str) -> str:
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
    found = of_node(fake.facts(paths=address.kubelet))
    assert found.system is not None
    assert found.system.distribution == "k3s"


def test_probe_says_the_name(reachable: FakeNode, tmp_path: Path) -> None:
    (address,) = nodes(inventory(tmp_path, "openshift"))
    found: dict[str, Any] = _probed(address, Risk.REBOOT, {})
    assert found["distribution"] == "openshift"
    reasons = found["scenarios"]["do not apply"].values()
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


def test_who_owns_the_kubelet_of_the_named_one(reachable: FakeNode, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    newer.write_text("#!/bin/sh\necho Kubernetes v1.37.0\n")
    newer.chmod(0o755)
    target = f"{inventory(tmp_path, 'RKE2')}?max-risk=reboot"
    with (
        closing(NodeSubject.open(target)) as subject,
        pytest.raises(SubjectUsageError, match="it belongs to RKE2"),
    ):
        chosen(str(newer), subject)


def test_a_name_of_none_is_refused(reachable: FakeNode, tmp_path: Path) -> None:
    (address,) = nodes(inventory(tmp_path, "k9s"))
    facts = reachable.facts(paths=address.kubelet)
    with pytest.raises(
        NodeUsageError, match="distribution 'k9s': it is one of talos, bottlerocket"
    ):
        distribution_of(facts)
