"""Each workflow that ``pinproof ci init`` writes, from the installation to the first verdict.

Its shell runs as the forge runs it, step by step, in the repository of a fork that holds a checkout
of this project. The installation is pip's, and the kubelet is a real one, which the fork's "build"
copies. What the forge's own actions do is done here: a checkout, a Python, caches that are empty.
Not real are the programs that change the machine or need the forge (``apt-get``, ``sudo``,
``curl``), and a filter of scenarios keeps the run short.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.cli.conftest import Stream
from tests.cli.running import here
from tests.cli.test_ci_command import MACHINE, PLACES
from tests.installing.built import copied
from tests.support import lacking
from tests.support.fork import committed, program, shell

_NO_INDEX: Final = re.compile(r".*(?:NewConnectionError|NameResolutionError|unreachable).*")


@pytest.fixture
def fork(tmp_path: Path, kubelet_path: str) -> Path:
    """A repository whose build leaves a real kubelet, with this project in ``third_party``."""
    folder = tmp_path / "fork"
    committed(folder)
    copied(folder / "third_party/pinproof")
    made = "mkdir -p _output/bin && cp"
    program(folder, "make", f'{made} "{kubelet_path}" _output/bin/kubelet\n')
    program(folder, "apt-get", "exit 0\n")
    program(folder, "sudo", 'while [[ $1 == --* ]]; do shift; done\nexec "$@"\n')
    program(folder, "curl", "exit 22\n")
    return folder


def _scripts(forge: str, workflow: Any) -> list[str]:
    """The shell of a job, in the parts that share no variables: GitHub's steps, else one."""
    if forge == "github":
        return [one["run"] for one in workflow["jobs"]["pinproof"]["steps"] if "run" in one]
    if forge == "gitlab":
        job = workflow["pinproof"]
        return ["\n".join([*job["before_script"], *job["script"]])]
    (text,) = workflow["periodics"][0]["spec"]["containers"][0]["args"]
    return [text]


def _variables(forge: str, workflow: Any, fork: Path) -> Mapping[str, str]:
    """What the job and its forge set; GitHub's action that brings a Python is a new environment."""
    if forge == "github":
        python = fork.parent / "python"
        subprocess.run([sys.executable, "-m", "venv", python], check=True, timeout=300)
        path = f"{python / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "GITHUB_STEP_SUMMARY": str(fork / "summary.md")}
    path = f"{Path(sys.base_prefix) / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin"
    if forge == "gitlab":
        return {"PATH": path}
    (fork / "artifacts").mkdir()
    (container,) = workflow["periodics"][0]["spec"]["containers"]
    of_the_job = {one["name"]: one["value"] for one in container["env"]}
    return {"PATH": path, "ARTIFACTS": str(fork / "artifacts"), **of_the_job}


@pytest.mark.needs("git")
@pytest.mark.parametrize("forge", PLACES)
def test_a_workflow_judges_a_real_kubelet(results: Stream, fork: Path, forge: str) -> None:
    """The job's last word is a verdict, of the kubelet that it built."""
    words = ("--directory", str(fork), "--machine", MACHINE, "--package", "./third_party/pinproof")
    here("ci", "init", forge, *words, status=0)
    workflow = yaml.safe_load((fork / PLACES[forge]).read_text())
    # Python compiles what is imported; pip would compile all that it installs.
    variables = {"PYTEST_ADDOPTS": "-k pool/", "PIP_COMPILE": "0"}
    variables |= _variables(forge, workflow, fork)
    said = ""
    for script in _scripts(forge, workflow):
        done = shell(fork, script, **variables)
        if done.returncode and (offline := _NO_INDEX.search(done.stdout + done.stderr)):
            lacking.skip("index", offline[0][:200])
        assert done.returncode == 0, script + done.stdout + done.stderr
        said += done.stdout
    header, found, _ = results(fork / "pinproof-out")
    assert header.subject.version.startswith("v1.36.")
    passed = sum(one.verdict == "pass" for one in found)
    assert passed > 3
    assert re.search(rf"^Conformant: {passed} promises kept", said, re.MULTILINE)
    left = {
        "github": "summary.md",
        "gitlab": "pinproof-out/codequality.json",
        "prow": "artifacts/junit_pinproof.xml",
    }
    assert (fork / left[forge]).stat().st_size > 0
