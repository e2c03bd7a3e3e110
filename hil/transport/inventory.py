"""Inventory: which nodes there are, and how each is reached.

    [[node]]
    name = "node7"                        # how it is called; default: the host of the url
    url = "ssh://root@10.0.0.7"           # or "kube://NODE", its API server; "local:"; "host:"
    identity = "keys/id_ed25519"          # default: the agent's and ~/.ssh's; a list is fine
    known_hosts = "known_hosts"           # default: ~/.ssh/known_hosts
    jump = "ssh://me@bastion"             # a list: one after the other
    sudo = true                           # the login is not root
    accept_new = true                     # remember the key of a host that is not known yet
    kubeconfig = "admin.conf"             # pods through the API server, as this file says
    context = "lab"                       # of the kubeconfig; default: its current one
    namespace = "pinproof-node7"          # made for our pods, and removed; default: a name made up
    node = "node7.example"                # its name in the cluster; default: its host name
    transport_image = "registry.example/debian:13"   # of the pod of kube://; it has a shell
    distribution = "k3s"                       # default: by what is on it
    lab = "2s-2n-8c-smt2"                 # a lab node of `pinproof lab`: which
    allow = ["foreign-workloads", "static-pods", "reboot"]

    [defaults]                            # of every node that does not say otherwise
    sudo = true                           # any key but name, url, node and lab

    [node.kubelet]                        # where it is not found by itself
    unit = "kubelet.service"
    binary = "/usr/bin/kubelet"
    config = "/var/lib/kubelet/config.yaml"
    root_dir = "/var/lib/kubelet"
    manifests = "/etc/kubernetes/manifests"
    endpoint = "unix:///run/containerd/containerd.sock"

Relative paths are taken from the inventory's folder. ``kubeconfig = "$KUBECONFIG"`` is the file
that this environment variable names.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from conformance.secret import kept
from hil.apiserver import Server
from hil.inspection.paths import NOT_SAID, KubeletPaths
from hil.safety.risk import Allow
from hil.shell import NodeError, NodeUsageError, Shell
from hil.transport.host import HostShell
from hil.transport.local import LocalShell
from hil.transport.route import route
from hil.transport.ssh import SSHShell
from hil.transport.supervised import Sudo
from topologies.errors import one_line

LOCAL: Final = "local:"
#: The host of the container that pinproof is in.
HOST: Final = "host:"
KUBE: Final = "kube://"
_FORMS: Final = f"ssh://user@host:port, {KUBE}NODE, {LOCAL}, {HOST}"
#: The name by which the password of ``--ask-sudo-password`` is kept (:mod:`conformance.secret`).
SUDO_PASSWORD: Final = "sudo"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
#: The API's forms of a namespace's and of a node's name.
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL.pattern}(\.{_LABEL.pattern})*", re.ASCII)
_TABLE: Final = re.compile(r"\s*\[\[\s*node\s*\]\]")
_LARGEST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """One node of an inventory: see the module. ``identity`` and ``jump`` are empty where none is
    given, ``known_hosts`` and ``kubeconfig`` ``None``."""

    name: str
    url: str
    identity: tuple[Path, ...] = ()
    known_hosts: Path | None = None
    jump: tuple[str, ...] = ()
    sudo: bool = False
    accept_new: bool = False
    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""
    node: str = ""
    transport_image: str = ""
    lab: str = ""
    allow: frozenset[Allow] = frozenset()
    kubelet: KubeletPaths = NOT_SAID


#: ``distribution`` is a key of the node, and is kept in :class:`KubeletPaths`.
_KEYS: Final = frozenset(field.name for field in fields(NodeAddress)) | {"distribution"}


def nodes(text: str) -> list[NodeAddress]:
    """The nodes that ``ssh://user@host:port``, ``kube://NODE``, ``local:``, ``host:`` or the
    path of an inventory names; at least one. Raises :class:`hil.shell.NodeUsageError` with the key
    and its line."""
    if text in (LOCAL, HOST):
        return [NodeAddress("this-host", text)]
    if text.startswith("ssh://"):
        host = route(text, config=Path("/nonexistent"))[-1].address.host
        return [NodeAddress(re.sub("[^A-Za-z0-9._-]", "-", host), text)]
    if text.startswith(KUBE):
        node = text.removeprefix(KUBE)
        if not _SUBDOMAIN.fullmatch(node):
            raise NodeUsageError(f"{one_line(text)}: a node of a cluster is {KUBE}NODE")
        return [NodeAddress(node[:63], text, node=node)]
    if text.endswith(".toml"):
        return _read(Path(text))
    raise NodeUsageError(f"{one_line(text)}: a node is {_FORMS} or an inventory NAME.toml")


def connect(address: NodeAddress) -> Shell:
    """A shell on the node, connected. Raises :class:`hil.shell.NodeUnreachable`,
    :class:`hil.shell.NodeUnfit` (not root, and no sudo; a wrong password),
    :class:`hil.shell.NodeUsageError`."""
    if address.url == HOST:
        return HostShell(address.name)
    if address.url == LOCAL:
        return LocalShell(address.name, require_root=True)
    if address.url.startswith(KUBE):
        return _through_api_server(address)
    for path in address.identity:
        if not path.is_file():
            raise NodeUsageError(f"{address.name}: identity: there is no file {path}")
    hops = route(
        address.url,
        identity=address.identity,
        known_hosts=address.known_hosts,
        jump=address.jump,
    )
    sudo = _sudo(address, hops[-1].address.user)
    shell = SSHShell(address.name, hops, sudo=sudo, accept_new=address.accept_new)
    shell.connect()
    try:
        shell.prove_password()
    except BaseException:
        shell.close()
        raise
    return shell


def _through_api_server(address: NodeAddress) -> Shell:
    if address.kubeconfig is None:
        raise NodeUsageError(
            f"{address.name}: {address.url} needs a kubeconfig (--kubeconfig FILE)"
        )
    server = Server.of(address.kubeconfig, address.context)
    try:
        from hil.transport.kube import KubeShell
    except ImportError as error:
        server.close()
        raise NodeUsageError(
            f"{address.url} needs the packages of pip install 'pinproof[kubeconfig]': {error.name}"
        ) from None
    shell = KubeShell(
        address.name,
        server,
        address.url.removeprefix(KUBE),
        image=address.transport_image,
        then=server.close,
    )
    try:
        shell.connect()
    except BaseException:
        shell.close()
        raise
    return shell


def _sudo(address: NodeAddress, user: str | None) -> Sudo | None:
    """How this login becomes root. Where a password was asked for, every login but root's uses
    it."""
    password = kept(SUDO_PASSWORD)
    asked = password is not None and (user or getpass.getuser()) != "root"
    return Sudo(password if asked else None) if address.sudo or asked else None


@contextlib.contextmanager
def connected(address: NodeAddress) -> Iterator[Shell]:
    """:func:`connect`, closed on leaving."""
    with contextlib.closing(connect(address)) as shell:
        yield shell


#: Connections at the same time.
_MOST: Final = 64
T = TypeVar("T")


def each(addresses: Sequence[NodeAddress], work: Callable[[NodeAddress], T]) -> list[T | NodeError]:
    """The result of ``work`` for each, in their order: a thread for each, since all of them wait
    most of the time. A :class:`NodeError` is the result of its node, and does not end the others.
    Any other error is raised once all have ended."""

    def one(address: NodeAddress) -> T | NodeError:
        try:
            return work(address)
        except NodeError as error:
            return error

    with ThreadPoolExecutor(min(_MOST, max(1, len(addresses)))) as pool:
        return list(pool.map(one, addresses))


def _read(path: Path) -> list[NodeAddress]:
    try:
        data = path.read_bytes()[: _LARGEST + 1]
        if len(data) > _LARGEST:
            raise NodeUsageError(f"{path}: the file is too large for an inventory")
        text = data.decode()
        content = tomllib.loads(text)
    except OSError as error:
        raise NodeUsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NodeUsageError(f"{path}: byte {error.start} is not UTF-8 text") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NodeUsageError(f"{path}: {one_line(str(error))}") from error
    return _Reader(path, text).read(content)


class _Reader:
    """One inventory, read strictly."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._index = 0

    def read(self, content: dict[str, Any]) -> list[NodeAddress]:
        """All of it."""
        for key in content:
            if key not in ("node", "defaults"):
                raise self._wrong(key, "unknown key; nodes are [[node]] tables", top=True)
        defaults = content.get("defaults", {})
        if not isinstance(defaults, dict):
            raise self._wrong("defaults", "a table [defaults]", top=True)
        for key in defaults:
            if key in ("name", "url", "node", "lab") or key not in _KEYS:
                raise self._wrong(key, "it cannot be a default", top=True)
        tables = content.get("node", [])
        if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
            raise self._wrong("node", "nodes are [[node]] tables, with two brackets", top=True)
        if not tables:
            raise NodeUsageError(f"{self._path}: it names no node")
        found: list[NodeAddress] = []
        for self._index, table in enumerate(tables):
            one = self._node({**defaults, **table})
            if one.name in {other.name for other in found}:
                raise self._wrong("name", f"{one.name!r} occurs twice")
            found.append(one)
        return found

    def _node(self, table: dict[str, Any]) -> NodeAddress:
        for key in table:
            if key not in _KEYS:
                raise self._wrong(key, "unknown key")
        if "url" not in table:
            raise self._wrong("url", "missing: ssh://user@host:port")
        only = nodes(self._url(table))[0]
        name = self._text(table, "name") or only.name
        if not _NAME.fullmatch(name):
            raise self._wrong("name", f"{name!r} is not a name: letters, digits, dot, dash")
        return NodeAddress(
            name=name,
            url=only.url,
            identity=tuple(self._file(one) for one in self._texts(table, "identity")),
            known_hosts=self._optional_file(table, "known_hosts"),
            jump=tuple(self._texts(table, "jump")),
            sudo=self._flag(table, "sudo"),
            accept_new=self._flag(table, "accept_new"),
            kubeconfig=self._optional_file(table, "kubeconfig"),
            context=self._text(table, "context"),
            namespace=self._api_name(table, "namespace", _LABEL),
            node=self._api_name(table, "node", _SUBDOMAIN) or only.node,
            transport_image=self._text(table, "transport_image"),
            lab=self._text(table, "lab"),
            allow=self._allowed(table),
            kubelet=self._kubelet(table),
        )

    def _url(self, table: dict[str, Any]) -> str:
        url = self._text(table, "url")
        if url not in (LOCAL, HOST) and not url.startswith(("ssh://", KUBE)):
            raise self._wrong("url", f"{url!r}: a url is one of {_FORMS}")
        try:
            nodes(url)
        except NodeUsageError as error:
            raise self._wrong("url", str(error)) from None
        return url

    def _allowed(self, table: dict[str, Any]) -> frozenset[Allow]:
        words = self._texts(table, "allow")
        known = {one.value: one for one in Allow}
        for word in words:
            if word not in known:
                raise self._wrong("allow", f"{word!r}: it is one of {', '.join(known)}")
        return frozenset(known[word] for word in words)

    def _kubelet(self, table: dict[str, Any]) -> KubeletPaths:
        inner = table.get("kubelet", {})
        if not isinstance(inner, dict):
            raise self._wrong("kubelet", "a table [node.kubelet]")
        known = {field.name for field in fields(KubeletPaths)} - {"distribution"}
        for key in inner:
            if key not in known:
                raise self._wrong(key, "unknown key in kubelet")
        values = {key: self._text(inner, key) for key in inner}
        for key in ("binary", "config", "root_dir", "manifests"):
            if values.get(key) and not values[key].startswith("/"):
                raise self._wrong(key, f"{values[key]!r} is not an absolute path")
        return KubeletPaths(**values, distribution=self._text(table, "distribution"))

    def _text(self, table: dict[str, Any], key: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str) or "\0" in value or "\n" in value:
            raise self._wrong(key, f"{value!r} is not a text of one line")
        return value

    def _api_name(self, table: dict[str, Any], key: str, form: re.Pattern[str]) -> str:
        value = self._text(table, key)
        if value and not form.fullmatch(value):
            raise self._wrong(key, f"{value!r} is not a valid name in Kubernetes")
        return value

    def _texts(self, table: dict[str, Any], key: str) -> list[str]:
        value = table.get(key, [])
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(one, str) and one for one in texts):
            raise self._wrong(key, f"{value!r} is neither a text nor a list of them")
        return texts

    def _flag(self, table: dict[str, Any], key: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, f"{value!r} is neither true nor false")
        return value

    def _file(self, name: str) -> Path:
        return self._path.parent / Path(name).expanduser()

    def _optional_file(self, table: dict[str, Any], key: str) -> Path | None:
        name = self._text(table, key)
        if name.startswith("$"):
            if not os.environ.get(name[1:]):
                raise self._wrong(key, f"there is no environment variable {name}")
            return Path(os.environ[name[1:]]).expanduser()
        return self._file(name) if name else None

    def _wrong(self, key: str, reason: str, *, top: bool = False) -> NodeUsageError:
        line = self._line(key, top=top)
        at = f"{self._path}:{line}" if line else str(self._path)
        return NodeUsageError(f"{one_line(at)}: {one_line(key)}: {one_line(reason)}")

    def _line(self, key: str, *, top: bool) -> int:
        """The line of a key, which tomllib does not give. For a missing key, that of its table."""
        starts = [number for number, line in enumerate(self._lines, 1) if _TABLE.match(line)]
        first = starts[self._index] if not top and self._index < len(starts) else 0
        later = [number for number in starts if number > first] if not top else []
        last = later[0] - 1 if later else len(self._lines)
        wanted = re.compile(rf"\s*(\[+\s*)?(node\s*\.\s*)?[\"\']?{re.escape(key)}[\"\']?\s*[\].=]")
        for number in range(max(first, 1), last + 1):
            line = self._lines[number - 1]
            if wanted.match(line) and (top or not _TABLE.match(line)):
                return number
        return first
