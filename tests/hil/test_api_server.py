"""An API server that misbehaves, and kubeconfigs that cannot be: one clear line each."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from hil.apiserver import Refused, Server, server
from hil.pods.apiserver import sweep
from hil.shell import NodeError, NodeTimeout, NodeUnfit, NodeUnreachable, NodeUsageError
from tests.support.cluster import Authority, kubeconfig

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


@contextlib.contextmanager
def serving(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server on loopback that answers every request so."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *words: Any) -> None:
            return

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, *words: Any) -> None:
            return  # a client that goes away is what is tested

    with Quiet(("127.0.0.1", 0), Handler) as made:
        if context is not None:
            made.socket = context.wrap_socket(made.socket, server_side=True)
        thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        scheme = "https" if context else "http"
        try:
            yield f"{scheme}://127.0.0.1:{made.server_port}"
        finally:
            made.shutdown()
            thread.join()


def saying(code: int, body: bytes | dict[str, Any], **headers: str) -> Answer:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        for name, value in {"Content_Length": str(len(text)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(text)

    return answer


def plain(folder: Path, url: str) -> Path:
    """A kubeconfig without credentials."""
    content = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(content))
    return path


def failure(kubeconfig: Path) -> NodeError:
    """What comes of asking for the namespaces of a node."""
    with (
        contextlib.closing(Server.of(kubeconfig)) as opened,
        pytest.raises(NodeError) as caught,
    ):
        sweep(opened, "node7", seconds=0)
    assert str(caught.value).isprintable()
    return caught.value


def test_what_the_server_refuses_is_told_in_its_own_words(tmp_path: Path) -> None:
    """Made printable: it is not to be trusted."""
    said = {"kind": "Status", "reason": "Forbidden", "message": "no\n\x1b[31mrights"}
    with serving(saying(403, said)) as url:
        error = failure(plain(tmp_path, url))
    assert isinstance(error, Refused)
    assert (error.code, error.reason) == (403, "Forbidden")
    assert str(error) == f"{url}: cannot list namespaces: no \\x1b[31mrights"


UNAUTHORIZED: Final = {"kind": "Status", "message": "Unauthorized"}


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    [
        (saying(401, UNAUTHORIZED), Refused, "the kubeconfig's credentials (401 Unauthorized)"),
        (saying(503, b"<html>upstream\n</html>"), NodeUnreachable, "503: Service Unavailable"),
        (saying(429, {"message": "too many"}), NodeUnreachable, "429: too many"),
        (saying(500, {"message": "failed calling webhook"}), Refused, "failed calling webhook"),
        (saying(200, b"<html>hello"), NodeUnfit, "answer is not from an API server: <html>hello"),
        (saying(200, b"[1]"), NodeUnfit, "the answer is not from an API server: [1]"),
        (saying(302, b"", Location="http://127.0.0.1:9/"), NodeUnreachable, "redirect"),
        (saying(200, b"{}", Content_Length="100"), NodeUnreachable, "cannot list namespaces: "),
    ],
    ids=["credentials", "away", "busy", "broken", "page", "list", "redirect", "cut"],
)
def test_answers_that_are_none(
    tmp_path: Path, answer: Answer, kind: type[NodeError], expected: str
) -> None:
    with serving(answer) as url:
        error = failure(plain(tmp_path, url))
    assert type(error) is kind
    assert expected in str(error)


def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    """As it says itself, and not for long."""
    answers = iter([saying(429, {}, Retry_After="0"), saying(200, {"items": None})])
    with (
        serving(lambda request: next(answers)(request)) as url,
        contextlib.closing(Server.of(plain(tmp_path, url))) as opened,
    ):
        assert sweep(opened, "node7") == []


def hanging(request: http.server.BaseHTTPRequestHandler) -> None:
    """Until the client has gone."""
    request.connection.settimeout(20)
    request.rfile.read(1)


@pytest.mark.parametrize(
    ("bound", "value", "answer", "expected"),
    [
        ("_LIMIT", 1000, saying(200, b"x" * 1001), "the answer is longer than"),
        ("_READ", 0.05, hanging, "no answer in time"),
        # Each piece comes in time, all of them do not.
        ("_DEADLINE", 0.0, saying(200, b"{}"), "takes longer than"),
    ],
    ids=["size", "time of a piece", "time of all"],
)
def test_time_and_size_are_bounded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
    value: float,
    answer: Answer,
    expected: str,
) -> None:
    monkeypatch.setattr(server, bound, value)
    with serving(answer) as url:
        error = failure(plain(tmp_path, url))
    assert isinstance(error, NodeTimeout)
    assert expected in str(error)


def test_nobody_answers(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        error = failure(plain(tmp_path, url))
    assert isinstance(error, NodeUnreachable)
    assert str(error) == f"{url}: cannot list namespaces: [Errno 111] Connection refused"
    error = failure(plain(tmp_path, "https://api.pinproof.invalid:6443"))
    assert isinstance(error, NodeUnreachable)
    assert "object at 0x" not in str(error)


def test_a_server_that_the_kubeconfig_does_not_vouch_for(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*other.certify("server", server=True))
    user = ours.certify("user")
    with serving(saying(200, {}), context) as url:
        error = failure(kubeconfig(tmp_path / "config", url, ours.path, user))
        assert isinstance(error, NodeUnreachable)
        assert "the certificates of server and kubeconfig do not match: " in str(error)
        assert "certificate verify failed" in str(error)
        elsewhere = url.replace("127.0.0.1", "localhost")
        error = failure(kubeconfig(tmp_path / "config", elsewhere, other.path, user))
        assert "doesn't match" in str(error) or "mismatch" in str(error)


def test_credentials_do_not_outlive_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library writes what is in a kubeconfig as text into files."""
    folder = tmp_path / "tmp"
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    folder.mkdir()
    authority = Authority(tmp_path, "ours")
    certificate, key = authority.certify("user")
    user = (certificate, key)
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:9", authority.path, user)
    content = json.loads(path.read_text())
    content["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(key.read_bytes()).decode(),
    }
    path.write_text(json.dumps(content))

    def kept() -> list[Path]:
        return [one for one in folder.rglob("*") if one.is_file()]

    first, second = Server.of(path), Server.of(path)
    files = kept()
    assert len(files) == 2
    assert all(one.parent.stat().st_mode & 0o077 == 0 for one in files)
    first.close()
    first.close()
    assert kept() == files
    second.close()
    assert list(folder.iterdir()) == []
    with contextlib.closing(Server.of(path)):
        assert len(kept()) == 2
    assert list(folder.iterdir()) == []


def refusal(path: Path, context: str = "") -> str:
    """Why this is no kubeconfig to go by."""
    with pytest.raises(NodeUsageError) as caught:
        Server.of(path, context)
    return str(caught.value)


@pytest.mark.parametrize(
    ("command", "expected"),
    [("false", "exec: process returned 1"), ("/no/such/program", "No such file")],
)
def test_a_credential_plugin_that_fails(tmp_path: Path, command: str, expected: str) -> None:
    """The library would go on as nobody."""
    path = plain(tmp_path, "https://a:1")
    content = json.loads(path.read_text())
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command}
    content["users"] = [{"name": "u", "user": {"exec": plugin}}]
    content["contexts"][0]["context"]["user"] = "u"
    path.write_text(json.dumps(content))
    message = refusal(path)
    assert message.startswith(f"kubeconfig {path}: ")
    assert expected in message


_NAMING: Final = """current-context: x
contexts: [{{name: x, context: {{cluster: c}}}}]
clusters: [{{name: c, cluster: {{{}}}}}]"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "empty"),
        ("- 1", ""),
        ("a: [", "not YAML: "),
        ("a: 1", "current-context"),
        ("current-context: x\ncontexts: []", "Expected object with name x in"),
        ("current-context: x\ncontexts: 7", ""),
        (_NAMING.format("server: 'ftp://a'"), "'ftp://a' is not a server"),
        (_NAMING.format("server: 'https://a', certificate-authority: gone"), "File does not exist"),
        (_NAMING.format("server: 'https://a', certificate-authority-data: a"), "Invalid base64"),
    ],
)
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    message = refusal(path)
    assert message.startswith(f"kubeconfig {path}: ")
    assert expected in message
    assert "\n" not in message


def test_a_kubeconfig_that_cannot_be_read(tmp_path: Path) -> None:
    assert "absent: No such file" in refusal(tmp_path / "absent")
    assert "Is a directory" in refusal(tmp_path)
    (tmp_path / "a:b").write_text("a: 1")
    assert "it names several files" in refusal(tmp_path / "a:b")
    (tmp_path / "huge").write_bytes(b"#" * (2 << 20))
    assert "the file is too large" in refusal(tmp_path / "huge")


def test_another_context_of_the_kubeconfig(tmp_path: Path) -> None:
    path = plain(tmp_path, "https://a:1")
    with contextlib.closing(Server.of(path, "x")) as opened:
        assert opened.url == "https://a:1"
    assert "with name lab in" in refusal(path, "lab")


def test_without_the_client_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    assert "pip install 'pinproof[kubeconfig]'" in refusal(plain(tmp_path, "https://a:1"))
