"""``--dry-run``: what ``run`` and ``certify`` would send to real nodes, printed and not sent.

What belongs here: which scenarios are walked, chosen as a run chooses them, and printing. What
never does: the walk (:mod:`hil.dry_run`).
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import cast

import pytest
import typer

from conformance.judge import Case
from conformance.session.subject import SUBJECT_KEY
from conformance.subject import Capability, Subject, SubjectInfo, SubjectUsageError
from conformance.verdict import ExitStatus
from pinproof.progress import busy
from topologies import Machine

_SCHEME = "node:"


@dataclass(frozen=True, slots=True)
class _Listed:
    """The parts of a subject that pytest needs to choose scenarios."""

    info: SubjectInfo
    capabilities: Collection[Capability]
    machines: tuple[Machine, ...]

    def close(self) -> None:
        return


@dataclass(slots=True)
class _Chooser:
    """A pytest plugin that takes the cases of a session and runs none."""

    subject: _Listed
    cases: list[Case] = field(default_factory=list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[SUBJECT_KEY] = cast(Subject, self.subject)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            found = getattr(item, "callspec", None)
            if found is not None and isinstance(case := found.params.get("pin_case"), Case):
                self.cases.append(case)


def dry_run(subject: str, arguments: Sequence[str]) -> ExitStatus:
    """Print what a run of ``subject`` (``node:…``) would send; ``arguments`` are the run's own for
    pytest, from the suite's file on. Raises :class:`SubjectUsageError`, and as
    :meth:`hil.dry_run.DryRunSubject.opened`."""
    if not subject.startswith(_SCHEME):
        raise SubjectUsageError(f"--dry-run is for real nodes (node:…), not for {subject}")
    from hil.dry_run import DryRunSubject, Ledger, walk

    ledger = Ledger(typer.echo)
    with busy(subject) as say:
        opened = DryRunSubject.opened(subject.removeprefix(_SCHEME), ledger, say)
    with closing(opened):
        chooser = _Chooser(_Listed(opened.info, opened.capabilities, opened.machines))
        status = _choose(chooser, arguments)
        if not chooser.cases:
            typer.echo("pinproof: no scenario applies: nothing would be run", err=True)
            usage = status == pytest.ExitCode.USAGE_ERROR
            return ExitStatus.USAGE if usage else ExitStatus.TOO_FEW
        opened.smoke()
        typer.echo(
            f"{subject}: dry run: the commands below are not sent; their effects are assumed\n"
            "to be what the model says. Uids differ from run to run, and pids and cgroups of\n"
            "containers are stand-ins."
        )
        walked = walk(chooser.cases, opened, ledger)
    looks = sum(one.looks for one in ledger.commands)
    typer.echo(
        f"{walked} scenarios, {len(ledger.commands)} commands, of which {looks} only read; "
        "nothing was sent"
    )
    return ExitStatus.CONFORMANT if walked else ExitStatus.TOO_FEW


def _choose(chooser: _Chooser, arguments: Sequence[str]) -> int:
    """Let pytest choose, as in a run; its list of tests is not shown."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = int(pytest.main([*arguments, "--collect-only"], plugins=[chooser]))
    if status == pytest.ExitCode.INTERNAL_ERROR:
        typer.echo(output.getvalue(), err=True)
    return status
