"""``pinproof simulate --to-machine`` and ``--to-config``: before and after, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from pinproof.cli import app

OLD: Final = "1s-1n-4c-smt2"
CONFIG: Final = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: {policy}
reservedSystemCPUs: "{reserved}"
"""


def _run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["simulate", *words])
    return done.exit_code, done.stdout


def test_a_kubelet_that_does_not_start_ends_all_pods_that_hold_cpus() -> None:
    """As in the incident: the machine has more CPUs than its state file."""
    status, out = _run("--machine", OLD, "--pods", "2,2,1.5", "--to-machine", "1s-1n-8c-smt2")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert status == 1
    assert "pod1/c 1,5 ended" in lines
    assert "pod3" not in out
    assert lines[-1] == "2 pods that hold CPUs would be ended: pod1, pod2"


def test_pods_that_keep_their_cpus_are_no_loss() -> None:
    status, out = _run("--machine", OLD, "--pods", "2", "--to-machine", OLD)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert status == 0
    assert "pod1/c 1,5 1,5" in lines
    assert lines[-1] == "No pod that holds CPUs would be ended."


@pytest.mark.parametrize(("policy", "reserved", "status"), [("static", "0,4", 0), ("none", "0", 1)])
def test_settings_are_changed_as_the_file_says(
    policy: str, reserved: str, status: int, tmp_path: Path
) -> None:
    """Another policy refuses the state file."""
    new = tmp_path / "new.yaml"
    new.write_text(CONFIG.format(policy=policy, reserved=reserved))
    seen, out = _run("--machine", OLD, "--pods", "2", "--to-config", str(new), "--json")
    found = json.loads(out)
    assert seen == status
    assert found["ended"] == ([] if status == 0 else ["pod1"])
    assert found["before"]["holdings"]["pod1/c"] == "1,5"
    assert found["after"]["kubelet"]["starts"] is (status == 0)


def test_numbers_that_are_on_other_numa_nodes_now_are_noted() -> None:
    """Both machines have CPUs 0 to 15."""
    status, out = _run(
        "--machine", "1s-1n-8c-smt2", "--pods", "12", "--to-machine", "2s-2n-8c-smt2"
    )
    assert status == 0
    assert "of NUMA node 0 before and 0-1 after" in out
