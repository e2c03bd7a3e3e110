"""``pinproof upgrade``, as a user runs it.

Whole rehearsals are transcripts of docs/how-to/upgrading.md, which tests/test_docs.py types.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from conformance.kubelets.manifests import manifest
from conformance.pods import guaranteed
from conformance.upgrading import Leg
from reference import Checkpoint, CPUSet
from tests.cli.running import here, lines, pinproof

_MACHINE: Final = ("--machine", "1s-1n-4c-smt2")
_MODELS: Final = ("1.36", "1.37", *_MACHINE, "--model")
_OF_CORES: Final = """
kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0,4"
"""
_FULL: Final = ("--policy-option", "full-pcpus-only=true", "--pods", "4")


def _rehearsed(*words: str, status: int = 0) -> list[str]:
    """The lines of a rehearsal on nodes of the model."""
    return lines(here("upgrade", *words, status=status))


def _facts(*words: str, cwd: Path | None = None, status: int = 0) -> Any:
    """What programs get of a rehearsal."""
    return json.loads(here("upgrade", *words, "--json", cwd=cwd, status=status).stdout)


def test_pods_of_every_kind_that_the_older_release_knows_are_given() -> None:
    """A pod with an init container, one with a sidecar since 1.29, and, with its gate, one with
    CPUs as a whole."""
    machine = ("--machine", "2s-2n-16c-smt2", "--model")
    said = _rehearsed("1.36", "1.37", *machine)
    assert "pod4/init: 2 5,21 5,21 5,21 5,21" in said
    assert "pod5/side: 2 6,22 6,22 6,22 6,22" in said
    assert not any(line.startswith("pod6/") for line in said)
    said = _rehearsed("1.26", "1.28", *machine)
    assert "pod4/init: 2 5,21 5,21 5,21 5,21" in said
    assert not any(line.startswith("pod5/") for line in said)


def test_containers_that_a_kubelet_starts_again_are_marked() -> None:
    said = _rehearsed("1.30", "1.31", *_MACHINE, "--model", status=1)
    assert "pod1/c: 2 2,6 2,6 restarted 2,6 restarted 2,6 restarted" in said
    assert "container pod1/c" in said


def test_containers_that_come_again_are_not_called_restarted_where_they_have_to() -> None:
    for how in ("kill", "drain", "reboot"):
        last = _rehearsed(*_MODELS, "--by", how)[-1]
        assert last.endswith("; none was started again.") is (how == "kill")


def test_programs_are_given_the_same() -> None:
    facts = _facts(*_MODELS)
    assert (facts["verdict"], facts["pinned"], facts["broken"]) == ("pass", 1, [])
    assert [one["exclusive"]["pod1"] for one in facts["stages"]] == [{"c": "2,6"}] * 4
    first, second, *_ = (one["files"]["cpu_manager_state"] for one in facts["stages"])
    assert first["left"] == second["found"] == second["after the start"]
    assert "dataChecksum" in second["left"]
    facts = _facts(*_MODELS, *_FULL, status=1)
    assert facts["verdict"] == "fail"
    (found,) = facts["broken"]
    assert (found["leg"], found["step"]) == ("the way back", "start the kubelet")
    assert found["differences"][0]["expected"] == "running"
    assert facts["replay"].startswith("pinproof upgrade 1.36 1.37 ")


def test_the_command_that_replays_an_upgrade_says_how_the_kubelet_goes_as_it_was_given() -> None:
    words = (*_MODELS, "--by", "kill")
    assert _facts(*words)["replay"].split() == ["pinproof", "upgrade", *words, "--json"]


def test_a_nodes_own_pods_and_state_file_are_taken(tmp_path: Path) -> None:
    """A pod that the file knows by its uid runs when the old kubelet starts."""
    pod = guaranteed("pod1", 2)
    free, held = CPUSet.parse("0-2,4-6"), {pod.uid: {"c": CPUSet([3, 7])}}
    checkpoint = Checkpoint(policy_name="static", default_cpuset=free, entries=held)
    (tmp_path / "state").write_text(checkpoint.dumps(release="1.36"))
    words = (*_MODELS, "--state", "state")
    said = lines(here("upgrade", *words, "--pods", "2,1", cwd=tmp_path, status=0))
    assert "pod1/c: 2 3,7 3,7 3,7 3,7" in said
    assert "pod2/c: 1 1 1 1 1" in said
    assert "later/c: 2 2,6 2,6 2,6" in said
    facts = _facts(*words, cwd=tmp_path)
    assert facts["notes"] == [f"known only from the state file, and assumed to run: {pod.uid}"]
    assert [one["exclusive"][pod.uid] for one in facts["stages"]] == [{"c": "3,7"}] * 4


def test_a_rehearsal_without_a_pinned_container_is_no_verdict() -> None:
    done = here("upgrade", *_MODELS, "--pods", "0.5", status=3)
    assert "no container ran on exclusive CPUs before the upgrade" in done.stderr
    assert "Kept" not in done.stdout


def test_on_a_small_machine_a_pod_has_what_there_is() -> None:
    said = _rehearsed("1.36", "1.37", "--machine", "1s-1n-2c-smt1", "--model")
    assert {"pod1/c: 1 1 1 1 1", "later/c: 1 rejected"} <= {*said}


def test_a_pod_more_that_does_not_fit_takes_nobodys_cpus(tmp_path: Path) -> None:
    """At the next start it would come first by name, and a pod that runs would be rejected."""
    pods = [manifest(guaranteed(name, cpu)) for name, cpu in (("pinned", 2), ("web", "2500m"))]
    (tmp_path / "pods.yaml").write_text("\n---\n".join(map(json.dumps, pods)))
    given = ("--by", "stop", *_MACHINE, "--pods", str(tmp_path / "pods.yaml"))
    assert "later/c: 2 rejected" in _rehearsed("1.36", "1.36", "--model", *given)


def test_an_old_kubelet_that_does_not_start_is_no_verdict() -> None:
    """In one line after the progress."""
    done = here("upgrade", *_MODELS, "--policy-option", "no-such=true", status=3)
    progress, line = done.stderr.splitlines()
    assert progress == "pinproof: upgrade: the model of 1.36 starts"
    assert line.startswith("pinproof: the model of 1.36 has to run before it can be upgraded: it ")
    assert 'unknown CPU Manager Policy option: "no-such"' in line
    assert done.stdout == ""


# -- another machine, other settings ---------------------------------------------------------------

_INCIDENT: Final = ("--machine", "1s-1n-4c-smt1", "--to-machine", "1s-1n-4c-smt2", "--pods", "2")
_SAME: Final = ("1.36", "1.36", "--model")


def test_new_settings_name_whom_they_end_and_why(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(_OF_CORES)
    words = (*_SAME, *_MACHINE, "--to-config", str(tmp_path / "new.yaml"), "--pods", "1,2")
    said = _rehearsed(*words, status=1)
    assert said[1].startswith("then 1s-1n-4c-smt2 with policy static, reservedSystemCPUs 0,4, ")
    assert said[1].endswith("option full-pcpus-only=true")
    assert any(line.startswith("pod1: rejected, Guaranteed: SMTAlignmentError: ") for line in said)
    assert said[-1] == "1 pod that holds CPUs would be ended: pod1."
    facts = _facts(*words, status=1)
    assert (facts["verdict"], [*facts["ended"]], facts["broken"]) == ("fail", ["pod1"], [])
    assert [one["leg"] for one in facts["turns"]] == [str(leg) for leg in (Leg.THERE, Leg.BACK)]
    settings = [one["settings"].endswith("full-pcpus-only=true") for one in facts["stages"]]
    assert settings == [False, True, False]


def test_kept_numbers_on_other_numa_nodes_are_noted() -> None:
    machines = ("--machine", "2s-2n-8c-smt2", "--to-machine", "1s-1n-8c-smt2", "--pods", "2,8")
    said = _rehearsed(*_SAME, *machines)
    assert "note: pod2/c keeps CPUs 4-7,12-15, of NUMA node 1 before and 0 after" in said
    assert said[-1] == (
        "Kept, from the model of 1.36 to the model of 1.36 on 1s-1n-8c-smt2 and back: 2 containers "
        "with exclusive CPUs."
    )


def test_pods_that_did_not_run_before_are_counted() -> None:
    """Nothing can be said of them."""
    last = _rehearsed(*_MODELS, "--pods", "2,64")[-1]
    assert last.endswith("Not rehearsed, as they did not run before: pod2.")
    assert _facts(*_MODELS, "--pods", "2,64")["not rehearsed"] == ["pod2"]


def test_a_real_kubelet_goes_through_the_incident(kubelet_path: str) -> None:
    kubelet = f"kubelet:{kubelet_path}"
    done = pinproof("upgrade", kubelet, kubelet, *_INCIDENT, status=1)
    assert done.stderr.startswith(f"pinproof: upgrade: {kubelet} starts\n")
    said = lines(done)
    assert "kubelet runs gives up runs gives up runs" in said
    assert said[-1].startswith("1 pod that holds CPUs would be ended: pod1. ")


# -- a matrix ------------------------------------------------------------------------------------

_PAIRS: Final = ("1.17", "1.36", "1.37", "--matrix", "--model")


def test_a_matrix_says_in_letters_what_each_upgrade_does() -> None:
    """And why, once for each reason."""
    said = _rehearsed(*_PAIRS, status=1)
    assert said[:4] == [
        "plain, from to 1.17 to 1.36 to 1.37",
        "1.17 (···) (RX·) (X·X)",
        "1.36 (X·X) (···) (···)",
        "1.37 (X·X) (···) (···)",
    ]
    assert "1.36 (S·S) (·S·)" in said
    text = " ".join(said)
    assert "the upgrade, the way back, the second upgrade: X does not start; " in text
    assert "Models, where a kubelet is not built: 1.17, 1.36, 1.37." in text
    assert "please drain this node" in text
    assert "1.17 to 1.37 (plain, the upgrade), 1.17 to 1.37 (plain, the second upgrade)" in text


def test_a_matrix_is_kept_and_gone_on_with(tmp_path: Path) -> None:
    kept = ("upgrade", *_PAIRS, "--report", str(tmp_path / "matrix"))
    here(*kept, status=1)
    page = (tmp_path / "matrix" / "matrix.html").read_text()
    assert '<span class="refuses" title="the upgrade">refuses</span>' in page
    assert "pod-level managers" in page
    file = tmp_path / "matrix" / "cells.jsonl"
    header, *cells = file.read_text().splitlines()
    assert len(cells) == 9 + 4 + 4
    marked = [line.replace('"keeps"', '"moves"') for line in cells[:-1]]
    file.write_text("\n".join([header, *marked]) + "\n")
    facts = _facts(*kept[1:], "--resume", status=1)
    words = [one["words"]["the upgrade"] for one in facts["cells"]]
    assert words.count("moves") > 5  # as the file said
    assert len(file.read_text().splitlines()) == 1 + len(cells)
    other = here(*kept, "--resume", *_MACHINE, status=2)
    assert "cells.jsonl: is of 2s-2n-8c-smt2, and this is 1s-1n-4c-smt2" in other.stderr
    file.write_text("{")
    assert "cells.jsonl: " in here(*kept, "--resume", status=2).stderr
