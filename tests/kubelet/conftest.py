"""What the tests of kubelet in the loop share: a real kubelet where there is one, and stand-ins.

Tests that need a real kubelet take it from ``PINPROOF_KUBELET`` (a path), else from the cache of
``pinproof build kubelet``; they are skipped, and say so, where there is neither.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

import topologies
from conformance.kubelets import apiservers, cached
from conformance.subject import SubjectSetupError
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.node import KubeletNode
from conformance.subjects.kubelet.process import Patience
from reference.cpuset import CPUSet
from reference.steps import Apply, KubeletConfig, Pod, Step
from reference.view import Phase, View
from tests.kubelet.fleets import RELEASE, Running, Up, cache_without_fleets, runner
from tests.support import lacking

MACHINE = "2s-4n-16c-smt2"
CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 16]))

#: The kubelet KUBELET, before which BEFORE is done in its sandbox.
WRAPPED = """
import os, sys
if sys.argv[1:] != ["--version"]:
    BEFORE
os.execv("KUBELET", ["KUBELET", *sys.argv[1:]])
"""

NodeMaker = Callable[..., KubeletNode]
Open = Callable[..., KubeletSubject]
Script = Callable[[str], Path]

#: The paths of all real kubelets of the cache, for ``parametrize``.
CACHED = [pytest.param(str(one.path), id=one.version) for one in cached()] or [
    pytest.param("", id="no kubelet", marks=pytest.mark.skip(lacking.reason("kubelet")))
]


def cached_kubelet(release: str) -> str:
    """The path of one of this release; where there is none, the test skips."""
    found = [str(one.path) for one in cached() if one.version.startswith(f"{release}.")]
    if not found:
        lacking.skip("kubelet 1.37" if release == "1.37" else "kubelet", f"one of {release}")
    return found[0]


def do(node: KubeletNode, *steps: Step) -> None:
    for step in steps:
        node.do(step)


def running(name: str) -> Callable[[View], bool]:
    """Whether this pod runs, and has a QoS class."""
    return lambda view: (
        name in view.pods and view.pods[name].phase is Phase.RUNNING and bool(view.pods[name].qos)
    )


def applied(node: KubeletNode, pod: Pod) -> View:
    """What is seen once a pod runs that is applied."""
    node.do(Apply(pod))
    view = node.settle(running(pod.name))
    assert running(pod.name)(view), node.evidence()
    return view


def call(
    channel: grpc.Channel,
    method: str,
    request: Message,
    answer: type[Message],
    *,
    kind: str = "unary_unary",
) -> Any:
    """Calls a method of a server, whose answer is read as such a message."""
    made = getattr(channel, kind)(
        method,
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=answer.FromString,
    )
    return made(request, timeout=10, wait_for_ready=True)


@pytest.fixture
def open_kubelet() -> Iterator[Open]:
    """Opens kubelets, and closes them after the test."""
    with ExitStack() as opened:
        yield lambda path, **how: opened.enter_context(
            closing(KubeletSubject.open(str(path), **how))
        )


@pytest.fixture(scope="session")
def subject(kubelet_path: str) -> Iterator[KubeletSubject]:
    with closing(KubeletSubject.open(kubelet_path)) as opened:
        yield opened


@pytest.fixture(scope="session")
def newer() -> Iterator[KubeletSubject]:
    """The kubelet of 1.37."""
    with closing(KubeletSubject.open(cached_kubelet("1.37"))) as opened:
        yield opened


@pytest.fixture
def make_node(subject: KubeletSubject) -> Iterator[NodeMaker]:
    """Makes nodes on the usual machine, and closes them."""
    with ExitStack() as made:

        def make(config: KubeletConfig = CONFIG, machine: str = MACHINE) -> KubeletNode:
            node = subject.node(topologies.machine(machine), config)
            return made.enter_context(closing(node))

        yield make


@pytest.fixture(scope="session")
def needs_api_server() -> None:
    """Skips where there is no API server on this host."""
    try:
        apiservers.find()
    except SubjectSetupError as error:
        lacking.skip("api server", error)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Makes an executable Python script."""

    def make(body: str, *, name: str = "kubelet") -> Path:
        path = tmp_path / name
        path.write_text(f"#!{sys.executable} -IS\n{body}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def wrapped(script: Script, kubelet_path: str) -> Script:
    """Makes a script that is the real kubelet, before whose start something is done."""
    text = WRAPPED.replace("KUBELET", kubelet_path)
    return lambda before: script(text.replace("BEFORE", before))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose name is short enough for that of a socket in it."""
    with TemporaryDirectory(prefix="pin-", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def impatient() -> Patience:
    """For stand-ins that hang."""
    return Patience(start=0.7, effect=0.7)


@pytest.fixture(scope="module")
def fleet_cache(needs_api_server: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See :func:`tests.kubelet.fleets.cache_without_fleets`."""
    lacking.need("sandbox")
    cached_kubelet(RELEASE)
    return cache_without_fleets(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def up(fleet_cache: Path) -> Up:
    """See :func:`tests.kubelet.fleets.runner`."""
    return runner(fleet_cache)


@pytest.fixture(scope="module")
def api(fleet: Running) -> Any:
    """A client of the module's fleet."""
    return fleet.api()


@pytest.fixture(scope="module")
def own_cache(fleet_cache: Path) -> Iterator[Path]:
    """The same, as the cache of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(fleet_cache))
        yield fleet_cache
