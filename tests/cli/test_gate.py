"""The gate of a kubelet fork, end to end: an unmodified kubelet passes, one that lies is caught,
told about, and caught again by the replay command."""

from __future__ import annotations

import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from reference.releases import ANNOUNCED
from tests.cli.conftest import Judges
from tests.cli.running import pinproof

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
    judged: Judges, kubelet_path: str, tmp_path: Path
) -> None:
    """On a machine with more CPUs, sockets and NUMA nodes than this one has; what needs another
    shape of machine or is not promised for the release is skipped and says so, and nothing else.
    The reports name release, hash and machine."""
    # .ci/run has the whole catalogue judged.
    some = "pool/ or packing/whole or pod-level/pool or beside-a-pod-pool or killed-shared"
    which = ("--machine", "2s-4n-64c-smt2", "-k", some)
    run = judged("--subject", f"kubelet:{kubelet_path}", *which, status=0)
    subject = run.header.subject
    assert subject.version.startswith("v1.36.")
    assert subject.digest.startswith("sha256:")
    skipped = [one for one in run.found if one.verdict == "skip"]
    assert {one.verdict for one in run.found} <= {"pass", "skip"}
    others = [one.reason for one in skipped if not one.reason.startswith(("needs ", "promised "))]
    assert others == []
    assert run.footer.counts["pass"] == len(run.found) - len(skipped) >= 10
    for page in ("report.html", "junit.xml"):
        for text in (subject.version, subject.digest, "2s-4n-64c-smt2"):
            assert text in (tmp_path / page).read_text()


def test_the_incident_is_one_command(judged: Judges, kubelet_path: str, tmp_path: Path) -> None:
    (result,) = judged("--subject", f"kubelet:{kubelet_path}", "-k", INCIDENT, status=0).found
    assert result.kubelet_errors == [f"exit status 1: {ERROR}"]
    page = (tmp_path / "report.html").read_text()
    assert ERROR.replace('"', "&#34;").replace("'", "&#39;") in page


def test_a_kubelet_that_lies_is_caught_and_replayed(judged: Judges, liar: Path) -> None:
    scenario, machine = "qos/whole-cpus-are-exclusive", "1s-1n-4c-smt2"
    which = ("--subject", f"kubelet:{liar}", "--machine", machine, "-k", scenario)
    with ThreadPoolExecutor(1) as other:  # each waits half a minute for the kubelet to put it right
        again = other.submit(pinproof, "run", *which, status=1)
        (result,) = judged(*which, status=1).found
    story = result.explanation
    for part in (
        f"{scenario} on {machine}: the promise is broken",
        "apply Guaranteed pod a (c: 2 CPU)   <-- here",
        "exclusive CPUs a/c\n      expected    1,5\n      seen        5,7\n"
        "      missing     1\n      unexpected  7",
        f"pinproof run --subject '{'kubelet:' + str(liar)}' --machine {machine} -k {scenario}",
    ):
        assert part in story, story
    assert shlex.split(result.replay) == ["pinproof", "run", *which]
    assert "5,7" in again.result().stdout


@pytest.mark.needs("sandbox")
@pytest.mark.parametrize("body", ["echo E1 went wrong >&2; exit 7", "exit 0", "kill -9 $$"])
def test_a_kubelet_that_exits_at_once_is_one_line(body: str, tmp_path: Path) -> None:
    """Status 3: nothing can be told of it. It is tried once, not once a scenario."""
    path = tmp_path / "kubelet"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo Kubernetes v1.36.4; exit; }}\n{body}\n'
    )
    path.chmod(0o755)
    done = pinproof("run", "--subject", f"kubelet:{path}", "--machine", "2s-*", status=3)
    (line,) = done.stderr.strip().splitlines()
    assert "does not start on the simplest machine" in line
    assert "Traceback" not in done.stdout


def test_a_newer_kubelet_is_judged_by_the_newest_release_known(
    kubelet_path: str, tmp_path: Path
) -> None:
    """And the summary says so. This one is no 1.99: it writes no state file of 1.37."""
    path = tmp_path / "kubelet"
    version = '[ "$1" = --version ] && { echo Kubernetes v1.99.0; exit; }'
    path.write_text(f'#!/bin/sh\n{version}\nexec {shlex.quote(kubelet_path)} "$@"\n')
    path.chmod(0o755)
    words = ("--machine", "1s-1n-4c-smt2", "-k", "qos/whole-cpus")
    done = pinproof("run", "--subject", f"kubelet:{path}", *words, status=1)
    judged_by = f"1.{ANNOUNCED} (announced, not yet seen)"
    assert f"judged by release {judged_by}, because 1.99 is not known" in done.stdout
