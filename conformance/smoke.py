"""A smoke test of the subject, once before a run.

If a program cannot start on the simplest machine, every scenario of a run would wait until its
deadline for the same result.
"""

from __future__ import annotations

from typing import Final

import topologies
from conformance.subject import HasSmokeTest, Subject, SubjectLostError, SubjectSetupError
from reference import CPUSet
from reference.kubelet.configuration import reserving
from reference.steps import Start

_MACHINE: Final = "1s-1n-4c-smt1"
_RESERVED: Final = CPUSet([0])


def smoke(subject: Subject) -> None:
    """Start the subject on four CPUs with one of them reserved, and close it again.

    A subject with a test of its own (:class:`HasSmokeTest`) runs that instead. Raises
    :class:`SubjectSetupError` if it does not start: it cannot be judged then.
    """
    if isinstance(subject, HasSmokeTest):
        subject.smoke()
        return
    config = reserving(_RESERVED, release=subject.info.release)
    node = subject.node(topologies.machine(_MACHINE), config, machines=topologies.machine)
    try:
        node.do(Start())
        view = node.settle(lambda seen: seen.running)
        evidence = node.evidence() if view.hangs or not view.running else ""
    except SubjectLostError as error:
        raise SubjectSetupError(f"{subject.info.name}: {error}", evidence=error.evidence) from error
    finally:
        node.close()
    if view.hangs:
        raise SubjectSetupError(
            f"{subject.info.name} hangs on the simplest machine, so it cannot be judged: "
            f"{view.hangs}",
            evidence=evidence,
        )
    if not view.running:
        raise SubjectSetupError(
            f"{subject.info.name} does not start on the simplest machine, so it cannot be "
            f"judged: exit status {view.exit_status}: {view.error or 'no error was logged'}",
            evidence=evidence,
        )
