"""The exit status of a run."""

from __future__ import annotations

import pytest

from conformance.verdict import ExitStatus, Verdict, exit_status, tally

PASS, FAIL, SKIP, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.SKIP, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("verdicts", "floor", "status"),
    [
        ([PASS], 1, ExitStatus.CONFORMANT),
        ([PASS, SKIP], 1, ExitStatus.CONFORMANT),
        ([PASS, FAIL], 1, ExitStatus.NOT_CONFORMANT),
        ([PASS, UNKNOWN], 1, ExitStatus.COULD_NOT_TELL),
        ([UNKNOWN, FAIL], 1, ExitStatus.NOT_CONFORMANT),
        ([], 1, ExitStatus.TOO_FEW),
        ([], 0, ExitStatus.TOO_FEW),
        ([SKIP, SKIP], 1, ExitStatus.TOO_FEW),
        ([PASS, SKIP], 2, ExitStatus.TOO_FEW),
        ([PASS, PASS], 2, ExitStatus.CONFORMANT),
    ],
)
def test_exit_status(verdicts: list[Verdict], floor: int, status: ExitStatus) -> None:
    """A broken promise first, then what could not be told, then too little."""
    assert exit_status(tally(verdicts), floor=floor) is status


def test_a_machine_on_which_nothing_applied_is_too_little() -> None:
    """Whatever passed elsewhere; what was broken elsewhere is broken all the same."""
    assert exit_status(tally([PASS, SKIP]), idle=["node7"]) is ExitStatus.TOO_FEW
    assert exit_status(tally([FAIL, SKIP]), idle=["node7"]) is ExitStatus.NOT_CONFORMANT


def test_tally_has_every_verdict() -> None:
    """Those that do not occur as well."""
    assert tally([PASS, PASS, SKIP]) == {PASS: 2, FAIL: 0, SKIP: 1, UNKNOWN: 0}
