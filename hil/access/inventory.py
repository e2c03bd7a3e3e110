"""Inventory: which nodes there are, and how each is reached.

What belongs here: the TOML form, its check, and the choice of a way. What never does: the way.

    [[node]]
    name = "node7"                        # how it is called; default: the host of the url
    url = "ssh://root@10.0.0.7"           # or "local:"
    identity = "keys/id_ed25519"          # default: the agent's and ~/.ssh's; a list is fine
    known_hosts = "known_hosts"           # default: ~/.ssh/known_hosts
    jump = "ssh://me@bastion"             # a list: one after the other
    sudo = true                           # the login is not root
    accept_new = true                     # remember the key of a host that is not known yet
    kubeconfig = "admin.conf"             # pods through the API server
    node = "node7.example"                # its name there; default: its host name
    flavour = "k3s"                       # default: by what is on it
    lab = "2s-2n-8c-smt2"                 # a lab node of `pinproof lab`: which
    allow = ["foreign-workloads", "static-pods", "reboot"]

    [node.kubelet]                        # where it is not found by itself
    unit = "kubelet.service"
    binary = "/usr/bin/kubelet"
    config = "/var/lib/kubelet/config.yaml"
    root_dir = "/var/lib/kubelet"
    manifests = "/etc/kubernetes/manifests"
    endpoint = "unix:///run/containerd/containerd.sock"

Relative paths are taken from the inventory's folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hil.safety.risk import Allow
from hil.shell import Shell


@dataclass(frozen=True, slots=True)
class KubeletPaths:
    """Where the kubelet's things are, as the user says; ``""``: find it."""

    unit: str = ""
    binary: str = ""
    config: str = ""
    root_dir: str = ""
    manifests: str = ""
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """One node of an inventory: see the module. ``identity`` and ``jump`` are empty where nothing
    was said, ``known_hosts`` and ``kubeconfig`` ``None``."""

    name: str
    url: str
    identity: tuple[Path, ...] = ()
    known_hosts: Path | None = None
    jump: tuple[str, ...] = ()
    sudo: bool = False
    accept_new: bool = False
    kubeconfig: Path | None = None
    node: str = ""
    flavour: str = ""
    lab: str = ""
    allow: frozenset[Allow] = frozenset()
    kubelet: KubeletPaths = KubeletPaths()


def nodes(text: str) -> list[NodeAddress]:
    """The nodes that ``ssh://user@host:port``, ``local:`` or the path of an inventory names; at
    least one. Raises :class:`hil.shell.NodeUsageError` with the key and its line."""
    raise NotImplementedError


def connect(address: NodeAddress) -> Shell:
    """A shell on the node; its connection stands. Raises :class:`hil.shell.NodeUnreachable`,
    :class:`hil.shell.NodeUnfit` (not root, and no sudo), :class:`hil.shell.NodeUsageError`."""
    raise NotImplementedError


@contextlib.contextmanager
def connected(address: NodeAddress) -> Iterator[Shell]:
    """:func:`connect`, closed on leaving."""
    shell = connect(address)
    try:
        yield shell
    finally:
        shell.close()
