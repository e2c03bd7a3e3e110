"""The subject ``exec:COMMAND``: a program that speaks docs/reference/exec-protocol.md.

``exec:1.36`` is the driver of that release, ``pinproof build driver 1.36``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from weakref import WeakSet

import topologies
from conformance.kubelets import releases
from conformance.kubelets.binary import digest_of
from conformance.subject import (
    OF_REAL_NODES,
    OF_WHOLE_KUBELETS,
    Capability,
    SubjectInfo,
    SubjectLostError,
    SubjectSetupError,
    SubjectUsageError,
)
from conformance.subjects.exec import drivers, wire
from conformance.subjects.exec.node import ExecNode
from conformance.subjects.exec.program import PATIENCE, Program
from reference.steps import KubeletConfig
from topologies import Machine

_SCHEME: Final = "exec:"


class ExecSubject:
    """A program around a CPU manager (:class:`conformance.subject.Subject`).

    One process has every node. If it has died (or was killed, because it hung), its nodes are lost,
    and the next node gets a new process.
    """

    capabilities = frozenset(Capability) - OF_REAL_NODES - OF_WHOLE_KUBELETS

    def __init__(self, name: str, command: Sequence[str], *, patience: float = PATIENCE) -> None:
        self._command = list(command)
        self._patience = patience
        self._name = name
        self._program = self._launch()
        about = self._program.about
        binary = Path(self._command[0])
        self.info = SubjectInfo(
            name=name,
            release=about.release,
            version=about.version,
            digest=digest_of(binary),
            facts={**about.facts, "program": about.name or binary.name, "path": str(binary)},
        )
        self._numbers = itertools.count(1)
        self._nodes: WeakSet[ExecNode] = WeakSet()

    @classmethod
    def open(
        cls,
        target: str,
        *,
        progress: Callable[[str], None] | None = None,
        patience: float = PATIENCE,
    ) -> ExecSubject:
        """The subject that ``target`` names: a command line (split as a shell does, but run without
        one), or a release, whose driver is built if it is not in the cache.

        Raises :class:`SubjectUsageError` if the command cannot be run, and
        :class:`SubjectSetupError` if the program does not answer as it must.
        """
        if releases.parse(target) is not None and not Path(target).exists():
            command = [str(drivers.build(target, progress=progress))]
        else:
            command = _command(target)
        return cls(f"{_SCHEME}{target}", command, patience=patience)

    def node(
        self,
        machine: Machine,
        config: KubeletConfig,
        *,
        machines: Callable[[str], Machine] = topologies.machine,
    ) -> ExecNode:
        """A fresh node; ``machines`` finds the machine that a reboot names. Raises
        :class:`SubjectSetupError`."""
        name = f"n{next(self._numbers)}"
        try:
            node = ExecNode(
                self._living(), name, machine, config, machines=machines, renew=self._living
            )
        except SubjectLostError as error:
            raise SubjectSetupError(str(error)) from error
        self._nodes.add(node)
        return node

    @property
    def program(self) -> Program:
        """The program, for requests without a node (``take``)."""
        return self._program

    def close(self) -> None:
        """End the program. May be called twice."""
        if not self._program.lost:
            with contextlib.suppress(SubjectLostError):
                self._program.ask(wire.Shutdown(), wire.Answer)
        self._program.close()

    def _living(self) -> Program:
        """The program, or a new one in place of one that is lost."""
        if self._program.lost:
            self._program.close()
            self._program = self._launch()
        return self._program

    def _launch(self) -> Program:
        return Program(self._name, self._command, patience=self._patience)


def _command(target: str) -> list[str]:
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise SubjectUsageError(f"{_SCHEME}{target}: {error}") from error
    if not words:
        raise SubjectUsageError(f"{_SCHEME} takes a command, or a release such as 1.36")
    found = shutil.which(os.path.expanduser(words[0]))  # noqa: PTH111  - a Path loses ./
    if found is None:
        raise SubjectUsageError(f"{words[0]}: neither a program nor a release such as 1.36")
    return [str(Path(found).absolute()), *words[1:]]
