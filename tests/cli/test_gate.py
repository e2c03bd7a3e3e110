"""The gate of a kubelet fork, end to end: an unmodified kubelet passes, one that lies is caught,
told about, and caught again by the replay command."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Command, Stream


INCIDENT: Final = "machine/cpu-upgrade-incident"
LIAR: Final = Path(__file__).parents[1] / "support/corrupting_kubelet.py"
ERROR: Final = 'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-3"'


@pytest.fixture(scope="module")
def liar(kubelet_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that looks like a kubelet and corrupts one answer."""
    path = tmp_path_factory.mktemp("a fork") / "kubelet"
    words = ["env", f"PINPROOF_REAL_KUBELET={kubelet_path}", sys.executable, str(LIAR)]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)
    return path


def test_an_unmodified_kubelet_is_conformant(
    pinproof: Command, results: Stream, kubelet_path: str, tmp_path: Path
) -> None:
    """On a machine with more CPUs, sockets and NUMA nodes than this one has; what needs another
    shape of machine or is not promised for the release is skipped and says so, and nothing else.
    The reports name release, hash and machine."""
    done = pinproof(
        *("run", "--subject", f"kubelet:{kubelet_path}", "--machine", "2s-4n-64c-smt2"),
        *("-k", "packing or pool", "--report", str(tmp_path)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    header, found, footer = results(tmp_path)
    assert header.subject.version.startswith("v1.36.")
    assert header.subject.digest.startswith("sha256:")
    skipped = [one for one in found if one.verdict == "skip"]
    assert {one.verdict for one in found} <= {"pass", "skip"}
    others = [one.reason for one in skipped if not one.reason.startswith(("needs ", "promised "))]
    assert others == []
    assert footer.counts["pass"] == len(found) - len(skipped) >= 10
    page = (tmp_path / "report.html").read_text()
    junit = (tmp_path / "junit.xml").read_text()
    for text in (header.subject.version, header.subject.digest, "2s-4n-64c-smt2"):
        assert text in page
        assert text in junit


def test_the_incident_is_one_command(
    pinproof: Command, results: Stream, kubelet_path: str, tmp_path: Path
) -> None:
    """And the report shows the kubelet's own error line."""
    done = pinproof(
        *("run", "--subject", f"kubelet:{kubelet_path}", "-k", INCIDENT),
        *("--report", str(tmp_path)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _, (result,), _ = results(tmp_path)
    assert result.kubelet_errors == [f"exit status 1: {ERROR}"]
    page = (tmp_path / "report.html").read_text()
    assert ERROR.replace('"', "&#34;").replace("'", "&#39;") in page


def test_a_kubelet_that_lies_is_caught_and_replayed(
    pinproof: Command, results: Stream, liar: Path, tmp_path: Path
) -> None:
    """Scenario, machine, steps, both CPU lists and the replay command are in the explanation."""
    scenario, machine = "qos/whole-cpus-are-exclusive", "1s-1n-4c-smt2"
    done = pinproof(
        *("run", "--subject", f"kubelet:{liar}", "--machine", machine, "-k", scenario),
        *("--report", str(tmp_path)),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    _, (result,), _ = results(tmp_path)
    story = result.explanation
    for part in (
        f"{scenario} on {machine}: the promise is broken",
        "apply Guaranteed pod a (c: 2 CPU)   <-- here",
        "exclusive CPUs a/c\n      expected    1,5\n      seen        5,7\n"
        "      missing     1\n      unexpected  7",
        f"pinproof run --subject '{'kubelet:' + str(liar)}' --machine {machine} -k {scenario}",
    ):
        assert part in story, story
    words = shlex.split(result.replay)
    assert words[0] == "pinproof"
    again = pinproof(*words[1:])
    assert again.returncode == 1
    assert "5,7" in again.stdout


@pytest.mark.needs("sandbox")
@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("echo E1 went wrong >&2; exit 7", "does not start on the simplest machine"),
        ("exit 0", "does not start on the simplest machine"),
        ("kill -9 $$", "does not start on the simplest machine"),
    ],
)
def test_a_kubelet_that_exits_at_once_is_one_line(
    pinproof: Command, body: str, line: str, tmp_path: Path
) -> None:
    """Status 3: nothing can be told of it. It is tried once, not once a scenario."""
    path = tmp_path / "kubelet"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo Kubernetes v1.36.4; exit; }}\n{body}\n'
    )
    path.chmod(0o755)
    done = pinproof("run", "--subject", f"kubelet:{path}")
    assert done.returncode == 3, done.stdout + done.stderr
    assert line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stdout + done.stderr


def test_a_newer_kubelet_is_judged_by_the_newest_release_known(
    pinproof: Command, kubelet_path: str, tmp_path: Path
) -> None:
    """And the summary says so. This one is no 1.99: it writes no state file of 1.37."""
    path = tmp_path / "kubelet"
    version = '[ "$1" = --version ] && { echo Kubernetes v1.99.0; exit; }'
    path.write_text(f'#!/bin/sh\n{version}\nexec {shlex.quote(kubelet_path)} "$@"\n')
    path.chmod(0o755)
    words = ("--machine", "1s-1n-4c-smt2", "-k", "qos/whole-cpus")
    done = pinproof("run", "--subject", f"kubelet:{path}", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    judged = "judged by release 1.38 (announced, not yet seen), because 1.99 is not known"
    assert judged in done.stdout
