"""A real kubelet with our own patch, with and without the file of its behaviours; and files that a
kubelet finds in its sandbox."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

import topologies
from conformance.kubelets import forks
from conformance.kubelets.put import TAKEN, parted, with_files
from conformance.subject import SubjectUsageError
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.sandbox import AREA, STATE_DIR
from tests.conformance.judging import judged
from tests.conformance.test_fork import BEHAVIOUR, run_with
from tests.conformance.test_labels import OF_RELEASES
from tests.kubelet.conftest import CONFIG
from tests.support import lacking

PATCHES: Final = Path(__file__).with_name("patches") / "platform-pods-on-reserved-cpus"
MACHINE: Final = "1s-1n-4c-smt2"
PINNING: Final = "/etc/kubernetes/openshift-workload-pinning"


@pytest.fixture(scope="session")
def patched() -> str:
    lacking.need("sandbox")
    found = forks.kept(forks.Patched.at(PATCHES, "1.36"))
    return str(found.path) if found else lacking.skip("patched kubelet")


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        (BEHAVIOUR, 0, "Conformant: 3 promises kept, 3 skipped."),
        ("", 1, "0 promises kept, 3 broken, 3 skipped"),
    ],
    ids=["with its file", "without"],
)
def test_a_patched_kubelet_is_judged_by_its_file(
    patched: str, tmp_path: Path, text: str, status: int, told: str
) -> None:
    said = run_with(tmp_path, text, f"kubelet:{patched}", status)
    assert told in said
    assert text or said.count("the same cause") == 2, "one cause"


@pytest.mark.parametrize("where", [PINNING, "/opt/vendor/of/kubelets/settings", "/etc/hostname"])
def test_a_file_is_in_the_sandbox_and_not_on_the_host(
    kubelet_path: str, tmp_path: Path, where: str
) -> None:
    """Where the host has such a file, the sandbox has the other one."""
    given, before = tmp_path / "given", _content(where)
    given.write_text('{"management": {"cpuset": "0-1"}}')
    subject = KubeletSubject.open(f"{kubelet_path}?put={where}={given}")
    with closing(subject), closing(subject.node(topologies.machine(MACHINE), CONFIG)) as node:
        assert node.sandbox.path(where).read_text() == given.read_text()
        if where == "/etc/hostname":
            assert node.sandbox.path("/etc/passwd").read_text() == _content("/etc/passwd")
        assert f"file {where}" in subject.info.facts
    assert _content(where) == before


def _content(path: str) -> str | None:
    return Path(path).read_text() if Path(path).is_file() else None


@pytest.mark.parametrize("file", [False, True], ids=["without a file", "with it"])
def test_an_unmodified_kubelet_ignores_workload_pinning(
    kubelet_path: str, tmp_path: Path, file: bool
) -> None:
    """Of a pod with OpenShift's annotation: with the file it does what it does without."""
    given = tmp_path / "pinning.json"
    given.write_text('{"management": {"cpuset": "0-1"}}')
    target = f"{kubelet_path}?put={PINNING}={given}" if file else kubelet_path
    with closing(KubeletSubject.open(target)) as subject:
        for scenario in OF_RELEASES:
            result = judged(scenario, MACHINE, subject, release="1.36")
            assert result.verdict == "pass", result.explanation
            assert "target.workload.openshift.io/management" in " ".join(result.steps)


def test_no_file_is_put_where_a_sandbox_has_its_own() -> None:
    assert {AREA, STATE_DIR} < {*TAKEN}


def test_files_are_in_the_text_of_a_subject(tmp_path: Path) -> None:
    path = tmp_path / "a file & more"
    path.touch()
    text = with_files("kubelet:1.36", {PINNING: path, "/opt/x": path})
    assert parted(text.removeprefix("kubelet:")) == ("1.36", {PINNING: path, "/opt/x": path})
    assert with_files("reference", {PINNING: path}) == "reference"
    with pytest.raises(SubjectUsageError, match="unknown option 'get'"):
        parted(f"1.36?get={PINNING}={path}")
