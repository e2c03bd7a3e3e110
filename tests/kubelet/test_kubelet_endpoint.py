"""What is understood of a kubelet's answers, over real HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from conformance.subjects.kubelet.endpoint import (
    IN_PROGRESS,
    NOT_SEEN,
    Endpoint,
    NoAnswer,
    PodStatus,
)

Ask = Callable[[bytes], list[PodStatus]]


@pytest.fixture
def ask() -> Iterator[Ask]:
    """What is made of an answer to ``GET /pods``."""
    answer = b""

    class Kubelet(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Tests say what failed."""

    with HTTPServer(("127.0.0.1", 0), Kubelet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        endpoint = Endpoint(socket.socket, server.server_port)

        def asked(body: bytes) -> list[PodStatus]:
            nonlocal answer
            answer = body
            return endpoint.pods()

        yield asked
        endpoint.close()
        server.shutdown()
        thread.join()


def _pod(**status: Any) -> dict[str, Any]:
    containers = [{"name": "a", "resources": {"requests": {"cpu": "2"}}}, {"name": "b"}]
    return {
        "metadata": {"uid": "u-1", "name": "pod-node", "generation": 2, "labels": {"x": "y"}},
        "spec": {"initContainers": [{"name": "i"}], "containers": containers},
        "status": status,
    }


def _items(*pods: dict[str, Any]) -> bytes:
    return json.dumps({"kind": "PodList", "items": list(pods)}).encode()


def test_a_pod_is_understood(ask: Ask) -> None:
    pod = _pod(
        phase="Running",
        reason="R",
        message="M",
        qosClass="Guaranteed",
        initContainerStatuses=[{"containerID": "fake://i", "state": {"terminated": {}}}],
        containerStatuses=[
            {"containerID": "fake://a", "state": {"running": {"startedAt": "now"}}},
            {"state": {"waiting": {"reason": "ContainerCreating"}}},
        ],
        ephemeralContainerStatuses=[{"containerID": "fake://e", "state": {"running": {}}}],
    )
    running, resources = frozenset({"a", "e"}), {"i": {}, "a": {"requests": {"cpu": "2"}}, "b": {}}
    words = ("u-1", "pod-node", "Running", "R", "M", "Guaranteed")
    assert ask(_items(pod)) == [PodStatus(*words, running, resources=resources)]


def test_the_same_answer_and_another_are_both_read(ask: Ask) -> None:
    one, other = _items(_pod(phase="Pending")), _items(_pod(phase="Running"))
    assert [ask(body)[0].phase for body in (one, one, other, one)] == [
        "Pending", "Pending", "Running", "Pending",
    ]  # fmt: skip


@pytest.mark.parametrize("body", [b'{"items": null}', b'{"items": []}'])
def test_a_node_may_have_no_pod(ask: Ask, body: bytes) -> None:
    assert ask(body) == []


PENDING = {"type": "PodResizePending", "reason": "Infeasible", "message": "too large"}
STARTED = {"type": "PodResizeInProgress", "status": "True"}
REFUSED = "Infeasible: too large"


@pytest.mark.parametrize(
    ("status", "resize"),
    [
        ({"resize": "Deferred"}, "Deferred"),
        ({"observedGeneration": 1}, NOT_SEEN),
        ({"observedGeneration": 2}, ""),
        ({"conditions": [{"type": "Ready"}, PENDING], "observedGeneration": 1}, REFUSED),
        ({"conditions": [STARTED], "observedGeneration": 2}, IN_PROGRESS),
        ({"conditions": [STARTED, PENDING], "observedGeneration": 2}, REFUSED),
    ],
)
def test_why_a_resize_has_not_ended(ask: Ask, status: dict[str, Any], resize: str) -> None:
    assert ask(_items(_pod(**status)))[0].resize == resize


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"items": [{}]}',
        b'{"items": [{"metadata": {"name": "a"}, "spec": {}, "status": {}}]}',
        b'{"items": [{"metadata": {"name": "a", "uid": 1}, "spec": {}, "status": {}}]}',
        _items(_pod())[:-3],
    ],
)
def test_another_answer_is_said_to_be_none(ask: Ask, body: bytes) -> None:
    with pytest.raises(NoAnswer, match=r"GET /pods: not understood: "):
        ask(body)
