"""One call at a pod-resources socket: what goes there, and what is made of whatever comes back.

The server here is grpcio's own; a real kubelet's is asked in ``test_pod_resources_kubelet.py``."""

from __future__ import annotations

import base64
import os
import re
import shutil
import socket
import string
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from hypothesis import example, given
from hypothesis import strategies as st

from conformance.kubelets import pod_resources_pb2 as pb
from conformance.subjects.kubelet.cri.regenerate import regenerate
from hil.observation import Places, look, marker, pod_resources_script, read_observation
from hil.observation.pod_resources import (
    LIMIT,
    NO_ANSWER,
    PodResources,
    read_pod_resources,
    request,
)
from hil.observation.pod_resources_script import ask
from reference import CPUSet
from tests.support import lacking
from tests.support.carrying import accepting

SHELL: Final = shutil.which("dash") or "/bin/sh"
TOLD: Final = {
    ("default", "pinproof-a-lab"): {"c": CPUSet([1, 2, 9])},
    ("default", "pinproof-shared-lab"): {"c": CPUSet()},
    ("kube-system", "dns"): {"one": CPUSet(), "two": CPUSet([300])},
}


def answer(entries: dict[tuple[str, str], dict[str, CPUSet]]) -> pb.ListPodResourcesResponse:
    told = pb.ListPodResourcesResponse()
    for (namespace, name), containers in entries.items():
        pod = told.pod_resources.add(name=name, namespace=namespace)
        for one, cpus in containers.items():
            pod.containers.add(name=one, cpu_ids=sorted(cpus)[::-1])
    return told


@contextmanager
def serving(folder: Path, reply: Callable[[bytes, grpc.ServicerContext], bytes]) -> Iterator[None]:
    """A gRPC server at the socket of the kubelet whose root directory is ``folder``."""
    (folder / "pod-resources").mkdir(exist_ok=True)
    handler = grpc.unary_unary_rpc_method_handler(reply)
    calls = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})
    server = grpc.server(ThreadPoolExecutor(1), handlers=[calls])
    server.add_insecure_port(f"unix:{folder}/pod-resources/kubelet.sock")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A kubelet's root directory, with nothing in it."""
    return tmp_path


@pytest.fixture(params=["perl", "python3", "socat"])
def tools(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH on which this program is the only one to ask with."""
    lacking.program(request.param)
    return only(tmp_path_factory.mktemp("tools"), request.param)


#: Those that do not wait for longer than the answer takes.
quick: Final = pytest.mark.parametrize("tools", ["perl", "python3"], indirect=True)


def only(folder: Path, *programs: str) -> str:
    for name in (*programs, "base64", "head", "sleep"):
        found = shutil.which(name)
        assert found is not None
        # A shim of a version manager needs more than itself.
        wrapper = f'#!/bin/sh\nPATH=$FULL_PATH exec {found} "$@"\n'
        (folder / name).write_text(wrapper)
        (folder / name).chmod(0o755)
    return str(folder)


def said(*words: str, script: str = "", **how: Any) -> str:
    """What a shell with these words writes that is given this script."""
    how |= {"input": script.encode(), "stdout": subprocess.PIPE}
    done = subprocess.run(words, timeout=120, check=True, **how)
    return bytes(done.stdout).decode()


def reported(root: Path, path: str, *, seconds: int = 30) -> PodResources:
    environment = {"PATH": path, "LC_ALL": "C", "FULL_PATH": os.environ["PATH"]}
    script = ask(str(root), seconds=seconds)
    return read_pod_resources(said(SHELL, "-s", script=script, env=environment))


# ---- what goes there --------------------------------------------------------------------------


def test_the_request_is_one_call_without_arguments() -> None:
    """As an HTTP/2 server reads it; the same every time, and no window is too small for an
    answer."""
    server = H2Connection(H2Configuration(client_side=False, header_encoding="ascii"))
    server.initiate_connection()
    events = server.receive_data(request())
    (asked,) = [one for one in events if isinstance(one, RequestReceived)]
    (sent,) = [one for one in events if isinstance(one, DataReceived)]
    assert {
        (":method", "POST"),
        (":path", "/v1.PodResourcesLister/List"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    } <= {(str(name), str(value)) for name, value in asked.headers or ()}
    assert sent.data == bytes(5)
    assert any(isinstance(one, StreamEnded) for one in events)
    assert asked.stream_id is not None
    assert server.local_flow_control_window(asked.stream_id) > 100 * LIMIT
    assert request() == request()


def test_the_committed_messages_are_those_of_the_proto_file(tmp_path: Path) -> None:
    lacking.module("grpc_tools")
    committed = Path(pb.__file__).parent
    regenerate(tmp_path, committed / "pod_resources.proto")
    for name in ("pod_resources_pb2.py", "pod_resources_pb2.pyi"):
        assert (tmp_path / name).read_text() == (committed / name).read_text(), name


# ---- there and back ---------------------------------------------------------------------------


def test_a_long_answer_comes_whole(root: Path, tools: str) -> None:
    """Through each program that a node may have: of many frames, and more than HTTP/2's first
    windows let through."""
    many = {
        ("default", f"a-pod-of-some-name-{number}"): {"c": CPUSet(range(number, number + 8))}
        for number in range(8000)
    }
    message = answer(many).SerializeToString()
    assert 1 << 18 < len(message) < LIMIT
    with serving(root, lambda *_: message):
        assert reported(root, tools) == PodResources(many)


@quick
def test_a_refusal_is_told_in_one_printable_line(root: Path, tools: str) -> None:
    def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit\n\x1b[31m")

    with serving(root, refuse):
        why = reported(root, tools).why
    assert "grpc-status 8, HTTP 200: rejected by rate limit\\x0a\\x1b[31m" in why
    assert why.isprintable()


@quick
def test_without_a_socket_it_says_where(root: Path, tools: str) -> None:
    place = root / "pod-resources" / "kubelet.sock"
    assert reported(root, tools).why == f"there is no socket {place}"
    place.parent.mkdir()
    place.write_text("")
    assert reported(root, tools).why == f"there is no socket {place}"


def test_a_folder_of_any_name_is_only_a_name(root: Path, tools: str) -> None:
    """However long, and whatever a shell or socat would make of it."""
    strange = root / ('it\'s a $(touch x), "`touch y`"; ' + "long " * 30)
    strange.mkdir()
    with serving(root, lambda *_: answer(TOLD).SerializeToString()):
        (root / "pod-resources").rename(strange / "pod-resources")
        assert reported(strange, tools) == PodResources(TOLD)
        (strange / "pod-resources").rename(root / "pod-resources")
    assert {one.name for one in root.iterdir()} == {"pod-resources", strange.name}


def bound(root: Path) -> socket.socket:
    """A socket there, at which nobody listens yet."""
    (root / "pod-resources").mkdir()
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(root / "pod-resources" / "kubelet.sock"))
    return server


@contextmanager
def listening(root: Path, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Whatever else may listen there."""
    with bound(root) as server:
        server.listen()
        with accepting(server, serve):
            yield


@quick
def test_nobody_behind_the_socket(root: Path, tools: str) -> None:
    """A kubelet that ended leaves its socket. Socat says no more than that nothing came."""
    bound(root).close()
    assert reported(root, tools).why == "the kubelet cannot be asked: Connection refused"


def test_silence_is_bounded_in_time(root: Path, tools: str) -> None:
    def silent(client: socket.socket) -> None:
        while client.recv(65536):
            pass

    with listening(root, silent):
        why = reported(root, tools, seconds=1).why
    assert why in ("the kubelet does not answer within 1 s", "the kubelet sent no answer")


SETTINGS: Final = bytes(3) + b"\x04" + bytes(5)
PING: Final = (8).to_bytes(3, "big") + b"\x06\x00" + bytes(4) + bytes(8)


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        (SETTINGS, PING * 4096, "the kubelet's answer is cut off after 65536 bytes"),
        (b"\xff\xff\xff\x00", bytes(65536), "the kubelet's answer is not HTTP/2.*"),
    ],
    ids=["frames of nothing", "one frame"],
)
def test_an_answer_without_end_is_bounded_in_size(
    root: Path, tools: str, first: bytes, then: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_resources_script, "LIMIT", 1 << 16)

    def endless(client: socket.socket) -> None:
        client.sendall(first)
        while True:
            client.sendall(then)

    with listening(root, endless):
        assert re.fullmatch(why, reported(root, tools).why)


def test_a_node_without_any_program_says_so(root: Path) -> None:
    with serving(root, lambda *_: b""):
        (root / "tools").mkdir()
        why = reported(root, only(root / "tools")).why
    assert why == "the node has neither perl nor python3 nor socat to ask with"


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_a_whole_look_has_the_answer_in_it(root: Path, shell: str) -> None:
    """By whatever is /bin/sh on a node; what comes after it is there as well."""
    program, *words = shell.split()
    ran = partial(said, lacking.program(program), *words, "-c", cwd=root)
    mark = marker()
    places = Places("none.service", str(root / "state"), str(root), "/m", 2, "/c", "/c", (), "")
    (root / "state").write_text("the state")
    with serving(root, lambda *_: answer(TOLD).SerializeToString()):
        seen = read_observation(ran(look(places, mark, before="echo before", ask=True)), mark)
    assert seen.pod_resources == PodResources(TOLD)
    assert (seen.state_file, seen.notes["before"]) == ("the state", "before")
    assert read_observation(ran(look(places, mark)), mark).print == seen.print


# ---- what is made of it -----------------------------------------------------------------------


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def response(body: bytes, *, status: str = "200", trailers: dict[str, str] | None = None) -> bytes:
    """What a server writes on a connection that has asked."""
    server = H2Connection(H2Configuration(client_side=False, header_encoding="ascii"))
    server.initiate_connection()
    server.receive_data(request())
    server.send_headers(1, [(":status", status), ("content-type", "application/grpc")])
    for start in range(0, len(body), 16384):
        server.send_data(1, body[start : start + 16384])
    given = {"grpc-status": "0"} if trailers is None else trailers
    server.send_headers(1, list(given.items()), end_stream=True)
    return server.data_to_send()


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def listed(message: bytes) -> PodResources:
    """What is read of a server's answer that is this message."""
    return read_pod_resources(encoded(response(framed(message))))


GOOD: Final = response(framed(answer(TOLD).SerializeToString()))


def test_a_good_answer_is_read() -> None:
    """Or every test below would be empty. No pod is an answer, too."""
    assert read_pod_resources(encoded(GOOD)) == PodResources(TOLD)
    assert listed(b"") == PodResources({})


def pod_with(**fields: object) -> bytes:
    one = pb.ContainerResources(**fields)  # type: ignore[arg-type]
    pod = pb.PodResources(name="a", namespace="n", containers=[one])
    return framed(pb.ListPodResourcesResponse(pod_resources=[pod]).SerializeToString())


UNAVAILABLE: Final = response(b"", status="503", trailers={"grpc-status": "14"})
#: As a kubelet before 1.20, which has v1alpha1 alone.
UNIMPLEMENTED: Final = response(b"", trailers={"grpc-status": "12"})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "the kubelet sent no answer"),
        ("not base64!", "the node's answer is not base64"),
        ("Zm9vé", "the node's answer is not base64"),
        (b"!\x1b[31mred", "\\x1b[31mred"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not HTTP/2: it begins with b'HTTP/1.1 '"),
        (response(b"", status="404"), "the kubelet's answer is said to have 0 bytes"),
        (UNAVAILABLE, "the kubelet refuses: grpc-status 14, HTTP 503: "),
        (response(b"", trailers={"x": "y"}), "refuses: grpc-status missing, HTTP 200: "),
        (UNIMPLEMENTED, "the kubelet refuses: grpc-status 12, HTTP 200: "),
        (response(b"\1\0\0\0\0"), "the kubelet's answer is compressed"),
        (response(b"\0\0\0\0\2a"), "is said to have 2 bytes after its first 5, and has 6"),
        (response(framed(b"\xff\xff")), "is not a list of pod resources"),
        (response(framed(b"\x0a\x03\x0a\x01\xff")), "is not a list of pod resources"),
        (response(pod_with(name="c", cpu_ids=[-1])), "the kubelet reports a CPU -1"),
        (response(pod_with(name="c", cpu_ids=[3, 1 << 62])), f"reports a CPU {1 << 62}"),
    ],
)
def test_what_cannot_be_read_says_why(given: str | bytes, why: str) -> None:
    found = read_pod_resources(given if isinstance(given, str) else encoded(given))
    assert why in found.why
    assert found.why.isprintable()
    assert not found.pods


def test_an_answer_that_is_cut_off_says_so() -> None:
    whys = {read_pod_resources(encoded(GOOD[:length])).why for length in range(1, len(GOOD))}
    assert {why.partition(" after ")[0] for why in whys} == {"the kubelet's answer is cut off"}


def test_who_hangs_up_is_told() -> None:
    server = H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    server.receive_data(request())
    before = server.data_to_send()
    server.reset_stream(1, 7)
    why = read_pod_resources(encoded(before + server.data_to_send())).why
    assert "closed the stream: HTTP/2 error 7" in why
    server.close_connection(11)
    why = read_pod_resources(encoded(before + server.data_to_send())).why
    assert "closed the connection: HTTP/2 error 11" in why


def test_two_pods_of_one_name_hide_nothing() -> None:
    """One that ends, and its successor."""
    twice = answer({("n", "a"): {"c": CPUSet([1])}}).pod_resources[0]
    other = answer({("n", "a"): {"c": CPUSet([2]), "d": CPUSet()}}).pod_resources[0]
    found = listed(pb.ListPodResourcesResponse(pod_resources=[twice, other]).SerializeToString())
    assert found == PodResources({("n", "a"): {"c": CPUSet([1, 2]), "d": CPUSet()}})


def test_fields_of_later_releases_are_passed_over() -> None:
    """Devices, memory, claims: whatever stands beside the CPUs. Those of the pod as a whole are
    read."""
    container = pb.ContainerResources(name="c", cpu_ids=[4]).SerializeToString()
    container += b"\x12\x05\x0a\x03gpu" + b"\x22\x02\x10\x07" + b"\x98\x06\x01"
    pod = b"\x0a\x01a\x12\x01n" + b"\x1a" + bytes([len(container)]) + container + b"\x22\x01\x01"
    found = listed(b"\x0a" + bytes([len(pod)]) + pod)
    assert found == PodResources({("n", "a"): {"c": CPUSet([4]), "": CPUSet([1])}})


@given(st.binary(max_size=200))
@example(NO_ANSWER.encode())
def test_no_bytes_break_it(raw: bytes) -> None:
    found = read_pod_resources(encoded(raw))
    assert found.why
    assert found.why.isprintable()


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=12), st.integers(0, 12))
def test_no_change_of_an_answer_breaks_it(at: int, put: bytes, drop: int) -> None:
    found = read_pod_resources(encoded(GOOD[:at] + put + GOOD[at + drop :]))
    assert found.why.isprintable()
    assert not (found.pods and found.why)


@given(st.text(f"{string.ascii_letters}{string.digits}+/=!é\u2028\x1b\n ", max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    assert read_pod_resources(text).why.isprintable()
