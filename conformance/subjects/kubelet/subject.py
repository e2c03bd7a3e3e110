"""The subject ``kubelet:BINARY`` or ``kubelet:RELEASE``."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from weakref import WeakSet

import topologies
from conformance.kept_files import FILES
from conformance.kubelets import apiservers, builder, releases
from conformance.kubelets.binary import digest_of, version_of
from conformance.kubelets.put import parted
from conformance.subject import (
    OF_REAL_NODES,
    Capability,
    NodeUnderTest,
    SubjectInfo,
    SubjectSetupError,
    SubjectUsageError,
)
from conformance.subjects.kubelet.apiserver import APIServer
from conformance.subjects.kubelet.bell import Bell
from conformance.subjects.kubelet.inside import calls
from conformance.subjects.kubelet.node import KubeletNode
from conformance.subjects.kubelet.process import PATIENT, Binary, Patience
from conformance.subjects.kubelet.sandbox import STATE_DIR, Sandbox, can_be_made
from conformance.subjects.kubelet.sandboxes import Sandboxes
from reference.kubelet.container_manager import models_pod_cgroups
from reference.steps import KubeletConfig
from topologies import Machine


class KubeletSubject:
    """An unmodified kubelet, started on any machine (:class:`conformance.subject.Subject`).

    ``at_a_time`` and :meth:`interrupt` are those of :class:`conformance.subject.WaitsMost`,
    :meth:`hurry` is that of :class:`conformance.subject.Hurries`. ``lacking``: by a capability that
    this host has no program for, how to get it. ``api_server`` is for nodes whose configuration
    asks for one."""

    #: A kubelet uses a quarter of a processor while it is judged.
    at_a_time = 4

    def __init__(
        self,
        info: SubjectInfo,
        binary: Binary,
        *,
        patience: Patience = PATIENT,
        user_namespace: bool = False,
        ahead: bool = False,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self.info = info
        beyond = set() if calls.can_be_heard() else {Capability.RENAMES, Capability.POD_CGROUP}
        if not models_pod_cgroups(info.release):
            beyond.add(Capability.POD_CGROUP)
        self.capabilities = frozenset(Capability) - OF_REAL_NODES - beyond
        self.lacking: dict[Capability, str] = {}
        self.api_server: APIServer | None = None
        try:
            self.api_server = APIServer(apiservers.find(), user_namespace=user_namespace)
        except SubjectSetupError as error:
            self.capabilities -= {Capability.API_SERVER}
            self.lacking[Capability.API_SERVER] = str(error)
        self._binary = binary
        self._patience = patience
        self._haste = math.inf
        make = partial(Sandbox, user_namespace=user_namespace, files=files or {})
        self._sandboxes = Sandboxes(lambda: make(Bell()), ahead=ahead)
        self._certificates: dict[str, bytes] = {}
        self._nodes: WeakSet[KubeletNode] = WeakSet()

    @classmethod
    def open(
        cls,
        target: str,
        *,
        progress: Callable[[str], None] | None = None,
        patience: Patience = PATIENT,
        user_namespace: bool = False,
        ahead: bool = False,
    ) -> KubeletSubject:
        """The subject that ``target`` names: a program's path, or a release (``1.36``, ``1.36.4``),
        which is built if it is not in the cache; ``progress`` gets lines about that.
        ``?put=PLACE=FILE`` after it puts a file into every sandbox.

        ``user_namespace`` puts nodes in a user namespace even if root needs none. ``ahead`` makes
        the next node's sandbox while a node is used, and does not wait for the end of a closed
        node's; :meth:`close` does.

        Raises :class:`SubjectUsageError` if the target cannot be a kubelet, and
        :class:`SubjectSetupError` if a release cannot be built, or if no release is in the cache
        and no sandbox can be made.
        """
        kubelet, files = parted(target)
        if builder.is_release(kubelet) and not builder.cached():
            can_be_made()  # A first build takes minutes.
        path = builder.program_of(kubelet, progress)
        version, text = version_of(path)
        if version.release < releases.OLDEST:
            raise SubjectUsageError(
                f"{path} is a kubelet {text}; {releases.OLDEST} is the oldest that can be driven"
            )
        info = SubjectInfo(
            name=f"kubelet:{target}",
            release=str(version.release),
            version=text,
            digest=digest_of(path),
            # A program that runs here was built for this architecture.
            facts={"path": str(path), "architecture": platform.machine()}
            | {f"file {inside}": digest_of(file) for inside, file in files.items()},
        )
        binary = Binary(path, version.release)
        return cls(
            info,
            binary,
            patience=patience,
            user_namespace=user_namespace,
            ahead=ahead,
            files={inside: file.read_bytes() for inside, file in files.items()},
        )

    def node(
        self,
        machine: Machine,
        config: KubeletConfig,
        *,
        machines: Callable[[str], Machine] = topologies.machine,
    ) -> KubeletNode:
        """A fresh node; ``machines`` finds the machine that a reboot names. Raises
        :class:`SubjectSetupError`."""
        patience = self._patience
        if not config.api_server:
            patience = replace(patience, effect=min(self._haste, patience.effect))
        node = KubeletNode(
            self._binary,
            machine,
            config,
            sandboxes=self._sandboxes,
            machines=machines,
            certificates=self._certificates,
            patience=patience,
            api_server=self.api_server,
        )
        self._nodes.add(node)
        return node

    def take_over(self, node: NodeUnderTest) -> None:
        if not isinstance(node, KubeletNode):
            raise SubjectUsageError(f"{self.info.name} continues only on nodes of a kubelet")
        node.replace_kubelet(self._binary)

    def kept_files(self, node: NodeUnderTest) -> dict[str, str]:
        assert isinstance(node, KubeletNode)
        paths = {name: node.sandbox.path(f"{STATE_DIR}/{name}") for name in FILES}
        return {
            name: path.read_text(errors="replace") for name, path in paths.items() if path.is_file()
        }

    def keep_files(self, node: NodeUnderTest, files: Mapping[str, str]) -> None:
        assert isinstance(node, KubeletNode)
        for name, text in files.items():
            place = f"{STATE_DIR}/{name}"
            node.sandbox.path(place).parent.mkdir(parents=True, exist_ok=True)
            node.sandbox.write(place, text, mode=0o600)

    def hurry(self, seconds: float | None) -> None:
        """See :class:`conformance.subject.Hurries`. It does not hurry nodes with an API server: the
        kubelet sends a rejection before its first housekeeping, two seconds after its start, to the
        API server only ten seconds after its start (``mergePodStatus``, ``syncPeriod``)."""
        self._haste = math.inf if seconds is None else seconds

    def interrupt(self) -> None:
        """Lose every node, and make no more."""
        self._sandboxes.interrupt()
        if self.api_server is not None:
            self.api_server.interrupt()

    def close(self) -> None:
        """Close every node that is still open, and wait until all sandboxes are gone. Raises
        :class:`SubjectNotRestored`. May be called twice."""
        for node in list(self._nodes):
            node.close()
        if self.api_server is not None:
            self.api_server.close()
        self._sandboxes.close()
