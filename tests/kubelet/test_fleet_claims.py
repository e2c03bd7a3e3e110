"""A fleet whose nodes have a driver of Dynamic Resource Allocation, and what the Topology Manager
makes of its devices: docs/explanation/claims-and-numa-nodes.md, typed and compared."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from conformance.kubelets.control_plane import SCHEDULERS, find
from pinproof.fleet_fixture import MakesFleet, RunningFleet
from tests.kubelet.fleets import client_of, names
from tests.support import lacking
from tests.support.transcripts import blocks
from tests.support.until import until

PAGE: Final = Path(__file__).parents[2] / "docs/explanation/claims-and-numa-nodes.md"


def _blocks(language: str) -> list[str]:
    return [one.text for one in blocks(PAGE) if one.language == language]


@pytest.fixture(scope="module")
def fleet(pinproof_fleet: MakesFleet, own_cache: None) -> Iterator[RunningFleet]:
    """As the page's command has it."""
    if find(SCHEDULERS) is None:
        lacking.skip("scheduler")
    (command,) = _blocks("bash")
    words = shlex.split(command)
    assert words[:3] == ["pinproof", "fleet", "up"]
    with pinproof_fleet(*words[3:]) as made:
        yield made


@pytest.fixture(scope="module")
def api(fleet: RunningFleet) -> Any:
    return client_of(fleet.kubeconfig)


@pytest.fixture(scope="module")
def resources(api: Any) -> Any:
    return lacking.module("kubernetes.client").ResourceV1Api(api.api_client)


def _apply(api: Any, text: str) -> None:
    create = lacking.module("kubernetes.utils").create_from_dict
    for one in yaml.safe_load_all(text):
        create(api.api_client, one)


def _phase(api: Any, name: str) -> str:
    return str(api.read_namespaced_pod(name, "default").status.phase)


def test_the_page_can_be_typed(fleet: RunningFleet, api: Any, resources: Any) -> None:
    """The claim's device is near NUMA node 1, and the CPUs are of NUMA node 0; what a device plugin
    has decides."""
    claimed, plugged = _blocks("yaml")
    _apply(api, claimed)
    assert until(lambda: _phase(api, "a") == "Running")
    claim = resources.read_namespaced_resource_claim("near-1", "default")
    (allocated,) = claim.status.allocation.devices.results
    (part,) = resources.list_resource_slice().items
    near = {one.name: one.attributes["numaNode"].int for one in part.spec.devices}
    assert (allocated.device, near) == ("d001", {"d000": 0, "d001": 1})
    (drawn,) = _blocks("text")
    assert fleet.call("draw", "node1") == drawn
    _apply(api, plugged)
    assert until(lambda: _phase(api, "b") == "Failed")
    assert api.read_namespaced_pod("b", "default").status.reason == "TopologyAffinityError"


def test_a_driver_serves_the_next_kubelet(fleet: RunningFleet, api: Any, resources: Any) -> None:
    """It is registered again, and its devices are there."""
    fleet.call("stop", "node1")
    fleet.call("start", "node1")
    (part,) = resources.list_resource_slice().items
    assert [one.name for one in part.spec.devices] == ["d000", "d001"]
    api.delete_namespaced_pod("a", "default")
    assert until(lambda: "a" not in names(api))
