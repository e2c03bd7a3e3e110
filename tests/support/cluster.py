"""An API server of one's own on this host: a real kube-apiserver before a real etcd, on loopback,
with throw-away certificates and data. For tests of what goes through an API server.

There is no kubelet behind it, and no controller before :meth:`Cluster.control`. What a controller
would do to namespaces is done here by a thread: what is in one that was deleted goes, then the
namespace. What a kubelet would do to pods is done by whoever asks (:meth:`Cluster.confirm`,
:meth:`Cluster.report`).

Needs ``etcd`` (Debian: etcd-server) and a kube-apiserver (``pinproof build apiserver``).
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from conformance.kubelets.apiservers import find
from conformance.subject import SubjectSetupError
from hil.apiserver import space
from hil.pods.apiserver import ClusterPods
from reference.steps import Pod
from tests.support import lacking
from tests.support.carrying import free_port

_PATIENCE: Final = 240.0
_DIE_WITH_PARENT: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class NoCluster(Exception):
    """A program that it takes is not here; ``str()`` says how to get it."""


class Authority:
    """A certificate authority, kept in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.crt"
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.path.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    def certify(self, name: str, *groups: str, server: bool = False) -> tuple[Path, Path]:
        """A certificate and its key, as files: of a user in groups, or of a server on loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        words = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*words, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        made = self._builder(subject, key).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if server:
            loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            made = made.add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
        certificate, secret = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))
        secret.touch(mode=0o600)
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, secret


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def kubeconfig(
    path: Path, url: str, authority: Path, user: tuple[Path, Path], *, context: str = "test"
) -> Path:
    """A kubeconfig that names its certificates by relative paths where they lie beside it."""

    def named(file: Path) -> str:
        return file.name if file.parent == path.parent else str(file)

    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [
            {"name": "c", "cluster": {"server": url, "certificate-authority": named(authority)}}
        ],
        "users": [
            {
                "name": "u",
                "user": {"client-certificate": named(user[0]), "client-key": named(user[1])},
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(content, indent=1))
    return path


class Cluster:
    """One that runs. ``authority`` is what its certificates come from, ``admin`` the library's
    ``CoreV1Api`` with every right."""

    def __init__(self, folder: Path, *, egress: Path | None = None) -> None:
        """``egress``: the unix socket of a proxy (HTTP CONNECT) by which it reaches its nodes.
        Raises :class:`NoCluster`."""
        try:
            programs = find()
        except SubjectSetupError as error:
            raise NoCluster(str(error)) from error
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._egress = egress
        self.authority = Authority(folder, "authority")
        self._running: list[subprocess.Popen[bytes]] = []
        self._over = threading.Event()
        try:
            store = self._etcd(str(programs.etcd))
            self.url = self._apiserver(programs.apiserver, store)
            self.admin_kubeconfig = self.kubeconfig("admin", "system:masters")
            self.admin = self._client(self.admin_kubeconfig)
            self._await_ready()
        except BaseException:
            self.close()
            raise
        self._controller = threading.Thread(target=self._finish_namespaces, daemon=True)
        self._controller.start()

    def kubeconfig(self, user: str, *groups: str) -> Path:
        """One for a user of its own."""
        credentials = self.authority.certify(user, *groups)
        path = self.folder / f"{user}.kubeconfig"
        return kubeconfig(path, self.url, self.authority.path, credentials)

    def control(self, program: Path, *controllers: str) -> None:
        """Run these controllers of a kube-controller-manager."""
        self._start(
            str(program),
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--controllers={','.join(controllers)}",
            "--leader-elect=false",
            "--secure-port=0",
        )

    def schedule(self, program: Path) -> None:
        self._start(
            str(program),
            f"--kubeconfig={self.admin_kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
        )

    # ---- what somebody else would do -------------------------------------------------------

    def add_node(self, name: str, boot_id: str = "") -> None:
        """A kubelet registers itself."""
        self.admin.create_node({"metadata": {"name": name}})
        if boot_id:
            status = {"status": {"nodeInfo": {**_NODE_INFO, "bootID": boot_id}}}
            self.admin.patch_node_status(name, status)

    def report(self, namespace: str, pod: str, status: Mapping[str, Any]) -> None:
        """A kubelet reports a pod's status."""
        self.admin.patch_namespaced_pod_status(pod, namespace, {"status": dict(status)})

    def confirm(self, namespace: str, pod: str) -> None:
        """A kubelet confirms that a deleted pod is gone."""
        self.admin.delete_namespaced_pod(pod, namespace, grace_period_seconds=0)

    def _finish_namespaces(self) -> None:
        client = self._client(self.admin_kubeconfig)
        while not self._over.wait(0.2):
            with contextlib.suppress(Exception):  # the next round tries again
                for one in _items(client.list_namespace(_preload_content=False)):
                    if one["metadata"].get("deletionTimestamp"):
                        self._finish(client, one)

    @staticmethod
    def _finish(client: Any, namespace: dict[str, Any]) -> None:
        name = namespace["metadata"]["name"]
        if _items(client.list_namespaced_pod(name, _preload_content=False)):
            client.delete_collection_namespaced_pod(name, grace_period_seconds=0)
        else:
            client.delete_collection_namespaced_service_account(name)
            namespace["spec"]["finalizers"] = []
            client.replace_namespace_finalize(name, namespace)

    # ---- programs --------------------------------------------------------------------------

    def _etcd(self, program: str) -> str:
        port, peer = free_port(), free_port()
        self._start(
            program,
            f"--data-dir={self.folder}/etcd",
            "--unsafe-no-fsync",
            *(f"--{kind}-client-urls=http://127.0.0.1:{port}" for kind in ("listen", "advertise")),
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )
        return f"http://127.0.0.1:{port}"

    def _apiserver(self, program: Path, store: str) -> str:
        port = free_port()
        certificate, key = self.authority.certify("server", server=True)
        vouching, signing = self.authority.certify("accounts")
        self._start(
            str(program),
            f"--etcd-servers={store}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.authority.path}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://pinproof.invalid",
            f"--service-account-key-file={vouching}",
            f"--service-account-signing-key-file={signing}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            *self._egress_selector(),
        )
        return f"https://127.0.0.1:{port}"

    def _egress_selector(self) -> list[str]:
        if self._egress is None:
            return []
        way = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(self._egress)}}}
        selector = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": way}],
        }
        path = self.folder / "egress.json"
        path.write_text(json.dumps(selector))
        return [f"--egress-selector-config-file={path}"]

    def _start(self, program: str, *arguments: str) -> None:
        log = (self.folder / f"{Path(program).name}.log").open("wb")
        with log:
            self._running.append(
                subprocess.Popen(
                    [sys.executable, "-IS", "-c", _DIE_WITH_PARENT, program, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                )
            )

    def _client(self, path: Path) -> Any:
        from kubernetes import client, config

        load: Any = config.new_client_from_config
        return client.CoreV1Api(load(str(path), persist_config=False))

    def _await_ready(self) -> None:
        """Ready: it answers, and has made what it makes by itself."""
        until = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(Exception):  # it does not answer yet
                self.admin.read_namespace("kube-system", _request_timeout=5)
                self.admin.read_namespace("default", _request_timeout=5)
                return
            ended = [one for one in self._running if one.poll() is not None]
            if ended or time.monotonic() > until:
                raise RuntimeError(f"it does not come up: {self._fatal_line()}")
            time.sleep(0.2)

    def _fatal_line(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "; ".join(f"{log.name}: {log.read_text()[-1500:]}" for log in logs)

    def close(self) -> None:
        self._over.set()
        for one in reversed(self._running):
            one.kill()
            one.wait()


@contextlib.contextmanager
def running_cluster(folder: Path, *, egress: Path | None = None) -> Iterator[Cluster]:
    """One while the block runs, which no proxy comes between; without what it takes, the test
    skips."""
    with mock.patch.dict(os.environ, NO_PROXY="127.0.0.1", no_proxy="127.0.0.1"):
        try:
            made = Cluster(folder, egress=egress)
        except NoCluster as error:
            lacking.skip("api server", error)
        with contextlib.closing(made):
            yield made


def gone(pods: ClusterPods, *which: Pod, seconds: float) -> bool:
    """Whether in time none of these pods is there any more: the kubelet has confirmed it, or they
    were deleted by force."""
    gone = {pod.uid for pod in which}.isdisjoint
    return space.wait(lambda: gone(pods.statuses()), seconds)


#: What the API wants a node to say of itself.
_NODE_INFO: Final = {
    "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
    "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
    "osImage": "", "systemUUID": "",
}  # fmt: skip


def _items(answer: Any) -> list[dict[str, Any]]:
    return list(json.loads(answer.data)["items"])
