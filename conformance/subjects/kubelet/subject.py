"""The subject ``kubelet:BINARY`` or ``kubelet:RELEASE``."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final
from weakref import WeakSet

import topologies
from conformance.subject import (
    OF_REAL_NODES,
    Capability,
    SubjectInfo,
    SubjectSetupError,
    SubjectUsageError,
)
from conformance.subjects.kubelet import builder, releases
from conformance.subjects.kubelet.node import PATIENT, Binary, KubeletNode, Patience
from conformance.subjects.kubelet.releases import Version
from reference.steps import KubeletConfig
from topologies import Machine

_ANSWER: Final = re.compile(r"Kubernetes (v(\d+)\.(\d+)\.(\d+)\S*)\s*", re.ASCII)
#: Wrappers may have to start an interpreter first.
_VERSION_PATIENCE: Final = 20.0


class KubeletSubject:
    """An unmodified kubelet, started on any machine (:class:`conformance.subject.Subject`)."""

    def __init__(
        self,
        info: SubjectInfo,
        binary: Binary,
        *,
        patience: Patience = PATIENT,
        user_namespace: bool = False,
    ) -> None:
        self.info = info
        self.capabilities = frozenset(Capability) - OF_REAL_NODES
        self._binary = binary
        self._patience = patience
        self._user_namespace = user_namespace
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
    ) -> KubeletSubject:
        """The subject that ``target`` names: a program's path, or a release (``1.36``,
        ``1.36.4``), which is built where it has not been yet; ``progress`` is told how far.

        ``user_namespace`` puts nodes in a user namespace even where root needs none.

        Raises :class:`SubjectUsageError` where the target cannot be a kubelet, and
        :class:`SubjectSetupError` where a release cannot be built.
        """
        asked = releases.parse(target)
        is_release = asked is not None and not Path(target).exists()
        path = builder.build(target, progress=progress) if is_release else _program(target)
        version, text = _version_of(path)
        if version.release < releases.OLDEST:
            raise SubjectUsageError(
                f"{path} is a kubelet {text}; {releases.OLDEST} is the oldest that can be driven"
            )
        info = SubjectInfo(
            name=f"kubelet:{target}",
            release=str(version.release),
            version=text,
            digest=digest_of(path),
            # A program that runs here was built for what runs here.
            facts={"path": str(path), "architecture": platform.machine()},
        )
        binary = Binary(path, version.release)
        return cls(info, binary, patience=patience, user_namespace=user_namespace)

    def node(
        self,
        machine: Machine,
        config: KubeletConfig,
        *,
        machines: Callable[[str], Machine] = topologies.machine,
    ) -> KubeletNode:
        """A fresh node; ``machines`` finds what a reboot names. Raises
        :class:`SubjectSetupError`."""
        node = KubeletNode(
            self._binary,
            machine,
            config,
            machines=machines,
            certificates=self._certificates,
            patience=self._patience,
            user_namespace=self._user_namespace,
        )
        self._nodes.add(node)
        return node

    def close(self) -> None:
        """Close every node that is still open. May be called twice."""
        for node in list(self._nodes):
            node.close()


def _program(target: str) -> Path:
    path = Path(target).expanduser().absolute()
    try:
        if path.is_dir():
            raise SubjectUsageError(f"{path} is a folder, not a kubelet")
        if not path.exists():
            raise SubjectUsageError(f"{path}: no such file, and no release (such as 1.36) either")
    except OSError as error:
        raise SubjectUsageError(f"{path}: {error.strerror}") from error
    if not os.access(path, os.X_OK):
        raise SubjectUsageError(f"{path} is not executable")
    return path


def _version_of(path: Path) -> tuple[Version, str]:
    answer = _run_for_version(path)
    match = _ANSWER.fullmatch(answer)
    if match is None:
        shown = answer.strip().splitlines()[:1]
        said = f"answered {shown[0][:80]!r}" if shown else "said nothing"
        raise SubjectUsageError(
            f"{path} is not a kubelet: asked for --version it {said}, not `Kubernetes vX.Y.Z`"
        )
    return Version(*map(int, match.group(2, 3, 4))), match[1]


def _run_for_version(path: Path) -> str:
    """What it says to ``--version``. It gets a session of its own, so that whatever a wrapper
    started can be ended with it."""
    try:
        process = subprocess.Popen(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise SubjectUsageError(f"{path} cannot be executed: {error.strerror}") from error
    with process:
        try:
            output, _ = process.communicate(timeout=_VERSION_PATIENCE)
        except subprocess.TimeoutExpired:
            raise SubjectUsageError(
                f"{path} is not a kubelet: no answer to --version in {_VERSION_PATIENCE:g} s"
            ) from None
        finally:
            _kill_session(process.pid)
    return output[:4096].decode(errors="replace")


def _kill_session(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def digest_of(path: Path) -> str:
    """The sha256 of a file, as reports have it; raises :class:`SubjectSetupError`."""
    try:
        with path.open("rb") as stream:
            return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    except OSError as error:
        raise SubjectSetupError(f"{path} cannot be read: {error.strerror}") from error
