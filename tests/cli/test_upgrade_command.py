"""``pinproof upgrade``, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from conformance.kubelets import cached
from conformance.pods import guaranteed
from conformance.upgrading import Leg
from reference import Checkpoint, CPUSet
from tests.cli.running import Done, pinproof

_MACHINE: Final = ("--machine", "1s-1n-4c-smt2")
_FULL: Final = ("--policy-option", "full-pcpus-only=true", "--pods", "4")


def _lines(done: Done) -> list[str]:
    """What was printed, without the blanks around it and between the words."""
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_who_holds_which_cpus_is_shown_at_each_stage() -> None:
    done = pinproof("upgrade", "1.36", "1.37", *_MACHINE, "--model", status=0)
    lines = _lines(done)
    assert lines[:10] == [
        "1s-1n-4c-smt2 with policy static, reservedSystemCPUs 0,4",
        "1.36 1.37 back at 1.36 1.37 again",
        "kubelet runs runs runs runs",
        "pod1/c: 2 2,6 2,6 2,6 2,6",
        "pod2/c: 0.5 shared shared shared shared",
        "later/c: 2 1,5 1,5 1,5",
        "later2/c: 2 rejected",
        "later3/c: 2 rejected",
        "shared pool 0-1,3-5,7 0,3-4,7 0,3-4,7 0,3-4,7",
        "cpu_manager_state v2 v2 to v4 v4 to v2 v2 to v4",
    ]
    assert "B pod1/c: 2,6 (2)" in lines
    assert lines[-1] == (
        "Kept, from the model of 1.36 to the model of 1.37, back and again: 1 container with "
        "exclusive CPUs; none was started again."
    )


def test_pods_of_every_kind_that_the_older_release_knows_are_given() -> None:
    """A pod with an init container, one with a sidecar since 1.29, and, with its gate, one with
    CPUs as a whole."""
    machine = ("--machine", "2s-2n-16c-smt2", "--model")
    lines = _lines(pinproof("upgrade", "1.36", "1.37", *machine, status=0))
    assert "pod4/init: 2 5,21 5,21 5,21 5,21" in lines
    assert "pod5/side: 2 6,22 6,22 6,22 6,22" in lines
    assert not any(line.startswith("pod6/") for line in lines)
    lines = _lines(pinproof("upgrade", "1.26", "1.28", *machine, status=0))
    assert "pod4/init: 2 5,21 5,21 5,21 5,21" in lines
    assert not any(line.startswith("pod5/") for line in lines)


def test_containers_that_a_kubelet_starts_again_are_marked() -> None:
    done = pinproof("upgrade", "1.30", "1.31", *_MACHINE, "--model", status=1)
    assert "pod1/c: 2 2,6 2,6 restarted 2,6 restarted 2,6 restarted" in _lines(done)
    assert "container pod1/c" in _lines(done)


def test_containers_that_come_again_are_not_called_restarted_where_they_have_to() -> None:
    for how in ("kill", "drain", "reboot"):
        arguments = ("upgrade", "1.36", "1.37", *_MACHINE, "--model", "--by", how)
        last = _lines(pinproof(*arguments, status=0))[-1]
        assert last.endswith("; none was started again.") is (how == "kill")


def test_a_pod_that_moves_is_shown_with_a_command_that_shows_it_again() -> None:
    arguments = ("upgrade", "1.36", "miniature:allocates-again", *_MACHINE, "--model")
    done = pinproof(*arguments, status=1)
    lines = _lines(done)
    assert "pod1/c: 2 2,6 1,5 moved 1,5 2,6 moved" in lines
    at = lines.index("broken A running container keeps its exclusive CPUs until it ends")
    assert lines[at + 1].startswith("https://kubernetes.io/docs/")
    assert lines[at + 2 : at + 8] == [
        "after miniature:allocates-again: start the kubelet",
        "exclusive CPUs pod1/c",
        "expected 2,6",
        "seen 1,5",
        "missing 2,6",
        "unexpected 1,5",
    ]
    assert lines[-2] == f"pinproof {' '.join(arguments)}"
    assert lines[-1] == (
        "Rehearsed from the model of 1.36 to miniature:allocates-again: the upgrade and the second "
        "upgrade break a promise; the way back breaks none."
    )


def test_a_file_that_is_refused_is_shown_in_the_kubelets_words() -> None:
    """The way back is tried all the same."""
    done = pinproof("upgrade", "1.17", "1.37", *_MACHINE, "--model", status=1)
    lines = _lines(done)
    assert "kubelet runs gives up runs gives up" in lines
    assert "cpu_manager_state v1 v1 v1 written v1" in lines
    assert any(
        line.startswith("seen gave up with exit status 1: could not restore state from checkpoint")
        for line in lines
    )
    assert lines[-1].endswith(
        "the upgrade and the second upgrade break a promise; the way back breaks none."
    )


def test_a_way_back_that_stops_pods_is_shown() -> None:
    done = pinproof("upgrade", "1.36", "1.37", *_MACHINE, *_FULL, "--model", status=1)
    assert any(line.startswith("pod1/c: 4 1-2,5-6 1-2,5-6 rejected") for line in _lines(done))
    assert "the way back breaks a promise; the upgrade and " in _lines(done)[-1]


def test_programs_are_given_the_same() -> None:
    kept = pinproof("upgrade", "1.36", "1.37", *_MACHINE, "--model", "--json", status=0)
    facts = json.loads(kept.stdout)
    assert (facts["verdict"], facts["pinned"], facts["broken"]) == ("pass", 1, [])
    assert [one["exclusive"]["pod1"] for one in facts["stages"]] == [{"c": "2,6"}] * 4
    first, second, *_ = (one["files"]["cpu_manager_state"] for one in facts["stages"])
    assert first["left"] == second["found"] == second["after the start"]
    assert "dataChecksum" in second["left"]
    broken = pinproof("upgrade", "1.36", "1.37", *_MACHINE, *_FULL, "--model", "--json", status=1)
    facts = json.loads(broken.stdout)
    assert facts["verdict"] == "fail"
    (found,) = facts["broken"]
    assert (found["leg"], found["step"]) == ("the way back", "start the kubelet")
    assert found["differences"][0]["expected"] == "running"
    assert facts["replay"].startswith("pinproof upgrade 1.36 1.37 ")


def test_the_command_that_replays_an_upgrade_says_how_the_kubelet_goes_as_it_was_given() -> None:
    words = ("upgrade", "1.36", "1.37", *_MACHINE, "--model", "--by", "kill", "--json")
    done = pinproof(*words, status=0)
    assert json.loads(done.stdout)["replay"].split() == ["pinproof", *words]


def test_a_nodes_own_pods_and_state_file_are_taken(tmp_path: Path) -> None:
    """A pod that the file knows by its uid runs when the old kubelet starts."""
    pod = guaranteed("pod1", 2)
    (tmp_path / "state").write_text(
        Checkpoint(
            policy_name="static",
            default_cpuset=CPUSet.parse("0-2,4-6"),
            entries={pod.uid: {"c": CPUSet([3, 7])}},
        ).dumps(release="1.36")
    )
    arguments = ("upgrade", "1.36", "1.37", *_MACHINE, "--model", "--state", "state")
    done = pinproof(*arguments, "--pods", "2,1", cwd=tmp_path, status=0)
    lines = _lines(done)
    assert "pod1/c: 2 3,7 3,7 3,7 3,7" in lines
    assert "pod2/c: 1 1 1 1 1" in lines
    assert "later/c: 2 2,6 2,6 2,6" in lines
    alone = pinproof(*arguments, "--json", cwd=tmp_path, status=0)
    facts = json.loads(alone.stdout)
    assert facts["notes"] == [f"known only from the state file, and assumed to run: {pod.uid}"]
    assert [one["exclusive"][pod.uid] for one in facts["stages"]] == [{"c": "3,7"}] * 4


def test_a_rehearsal_without_a_pinned_container_is_no_verdict() -> None:
    done = pinproof("upgrade", "1.36", "1.37", *_MACHINE, "--model", "--pods", "0.5", status=3)
    assert "no container ran on exclusive CPUs before the upgrade" in done.stderr
    assert "Kept" not in done.stdout


def test_on_a_small_machine_a_pod_has_what_there_is() -> None:
    done = pinproof("upgrade", "1.36", "1.37", "--machine", "1s-1n-2c-smt1", "--model", status=0)
    assert "pod1/c: 1 1 1 1 1" in _lines(done)
    assert "later/c: 1 rejected" in _lines(done)


def test_a_pod_more_that_does_not_fit_takes_nobodys_cpus(tmp_path: Path) -> None:
    """At the next start it would come first by name, and a pod that runs would be rejected."""
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "containers": [
                    {"name": "c", "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}}
                ]
            },
        }
        for name, cpu in (("pinned", "2"), ("web", "2500m"))
    ]
    (tmp_path / "pods.yaml").write_text("\n---\n".join(map(json.dumps, pods)))
    done = pinproof(
        *("upgrade", "1.36", "1.36", "--by", "stop", *_MACHINE, "--model"),
        *("--pods", str(tmp_path / "pods.yaml")),
        status=0,
    )
    assert "later/c: 2 rejected" in _lines(done)


def test_an_old_kubelet_that_does_not_start_is_no_verdict() -> None:
    done = pinproof(
        "upgrade", "1.36", "1.37", "--model", "--policy-option", "no-such=true", status=3
    )
    assert "the model of 1.36 has to run before it can be upgraded: it gave up" in done.stderr


@pytest.mark.parametrize("name", ["exec:driver", "kubelet:/bin/true", "kubelet:/no/such"])
def test_nothing_is_built_for_a_name_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Where no kubelet is, and no Go to build one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    done = pinproof("upgrade", "1.36", name)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert name.removeprefix("kubelet:") in done.stderr


def test_a_real_kubelet_that_refuses_its_configuration_is_no_verdict(
    kubelet_path: str, tmp_path: Path
) -> None:
    """In one line after the progress."""
    kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    policy = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'
    (tmp_path / "c.yaml").write_text(
        f"{kind}{policy}cpuManagerPolicyOptions: {{no-such: 'true'}}\n"
    )
    name = f"kubelet:{kubelet_path}"
    done = pinproof(
        *("upgrade", name, name, "--by", "stop", *_MACHINE, "--config", "c.yaml"),
        cwd=tmp_path,
        status=3,
    )
    progress, line = done.stderr.splitlines()
    assert progress == f"pinproof: upgrade: {name} starts"
    assert line.startswith(f"pinproof: {name} has to run before it can be upgraded: it gave up")
    assert 'unknown CPU Manager Policy option: "no-such"' in line
    assert done.stdout == ""


def test_models_and_kubelets_are_not_mixed(kubelet_path: str) -> None:
    done = pinproof(
        "upgrade", f"kubelet:{kubelet_path}", "miniature:splits-cores", *_MACHINE, status=2
    )
    assert "only on nodes of the model" in done.stderr


def test_a_real_kubelet_is_upgraded(kubelet_path: str) -> None:
    """To the next release where that is built, else to itself."""
    newer = [one.path for one in cached() if one.version.startswith("1.37.")]
    names = [f"kubelet:{path}" for path in (kubelet_path, newer[0] if newer else kubelet_path)]
    done = pinproof("upgrade", *names, "--by", "stop", *_MACHINE, status=0)
    lines = _lines(done)
    assert "pod1/c: 2 2,6 2,6 2,6 2,6" in lines
    assert lines[-1].startswith("Kept, from kubelet:")


# -- another machine, other settings ---------------------------------------------------------------

_INCIDENT: Final = ("--machine", "1s-1n-4c-smt1", "--to-machine", "1s-1n-4c-smt2", "--pods", "2")
_SAME: Final = ("upgrade", "1.36", "1.36", "--model")
_OF_CORES: Final = """
kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0,4"
"""


def test_the_incident_names_whom_it_ends_and_what_helps() -> None:
    """Before and after are columns of one table."""
    done = pinproof(*_SAME, *_INCIDENT, status=1)
    lines = _lines(done)
    assert lines[:2] == [
        "1s-1n-4c-smt1 with policy static, reservedSystemCPUs 0",
        "then 1s-1n-4c-smt2 with policy static, reservedSystemCPUs 0",
    ]
    assert "kubelet runs gives up runs gives up runs" in lines
    assert any(line.startswith("1s-1n-4c-smt2: 8 CPUs (0-7)") for line in lines)
    refusal = (
        'the model of 1.36 refuses to start: current set of available CPUs "0-7" doesn\'t match '
        'with CPUs in state "0-3"'
    )
    assert lines[lines.index(refusal) + 1] == (
        "It starts once cpu_manager_state is removed; 1 pod holds other CPUs then: pod1."
    )
    assert f"pinproof upgrade 1.36 1.36 --pods 2 --machine {_INCIDENT[1]} --model" in done.stdout
    assert lines[-1] == (
        "1 pod that holds CPUs would be ended: pod1. 2 pods that hold CPUs would be ended on the "
        "way back: pod1, later."
    )


def test_new_settings_name_whom_they_end_and_why(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(_OF_CORES)
    arguments = (*_SAME, *_MACHINE, "--to-config", "new.yaml", "--pods", "1,2")
    done = pinproof(*arguments, cwd=tmp_path, status=1)
    lines = _lines(done)
    assert lines[1].startswith("then 1s-1n-4c-smt2 with policy static, reservedSystemCPUs 0,4, ")
    assert lines[1].endswith("option full-pcpus-only=true")
    assert any(line.startswith("pod1: rejected, Guaranteed: SMTAlignmentError: ") for line in lines)
    assert lines[-1] == "1 pod that holds CPUs would be ended: pod1."
    facts = json.loads(pinproof(*arguments, "--json", cwd=tmp_path).stdout)
    assert (facts["verdict"], [*facts["ended"]], facts["broken"]) == ("fail", ["pod1"], [])
    assert [one["leg"] for one in facts["turns"]] == [str(leg) for leg in (Leg.THERE, Leg.BACK)]
    settings = [one["settings"].endswith("full-pcpus-only=true") for one in facts["stages"]]
    assert settings == [False, True, False]


def test_kept_numbers_on_other_numa_nodes_are_noted() -> None:
    machines = ("--machine", "2s-2n-8c-smt2", "--to-machine", "1s-1n-8c-smt2", "--pods", "2,8")
    done = pinproof(*_SAME, *machines, status=0)
    assert "note: pod2/c keeps CPUs 4-7,12-15, of NUMA node 1 before and 0 after" in _lines(done)
    assert _lines(done)[-1] == (
        "Kept, from the model of 1.36 to the model of 1.36 on 1s-1n-8c-smt2 and back: 2 containers "
        "with exclusive CPUs."
    )


def test_pods_that_did_not_run_before_are_counted() -> None:
    """Nothing can be said of them."""
    done = pinproof("upgrade", "1.36", "1.37", *_MACHINE, "--model", "--pods", "2,64", status=0)
    assert _lines(done)[-1].endswith("Not rehearsed, as they did not run before: pod2.")
    facts = json.loads(
        pinproof("upgrade", "1.36", "1.37", *_MACHINE, "--model", "--pods", "2,64", "--json").stdout
    )
    assert facts["not rehearsed"] == ["pod2"]


def test_a_real_kubelet_goes_through_the_incident(kubelet_path: str) -> None:
    kubelet = f"kubelet:{kubelet_path}"
    done = pinproof("upgrade", kubelet, kubelet, *_INCIDENT, status=1)
    lines = _lines(done)
    assert "kubelet runs gives up runs gives up runs" in lines
    assert lines[-1].startswith("1 pod that holds CPUs would be ended: pod1. ")


# -- a matrix ------------------------------------------------------------------------------------

_PAIRS: Final = ("upgrade", "1.17", "1.36", "1.37", "--matrix", "--model")


def test_a_matrix_says_in_letters_what_each_upgrade_does() -> None:
    """And why, once for each reason."""
    done = pinproof(*_PAIRS, status=1)
    lines = _lines(done)
    assert lines[:4] == [
        "plain, from to 1.17 to 1.36 to 1.37",
        "1.17 (···) (RX·) (X·X)",
        "1.36 (X·X) (···) (···)",
        "1.37 (X·X) (···) (···)",
    ]
    assert "1.36 (S·S) (·S·)" in lines
    text = " ".join(lines)
    assert "the upgrade, the way back, the second upgrade: X does not start; " in text
    assert "Models, where a kubelet is not built: 1.17, 1.36, 1.37." in text
    assert "please drain this node" in text
    assert "1.17 to 1.37 (plain, the upgrade), 1.17 to 1.37 (plain, the second upgrade)" in text


def test_a_matrix_is_kept_and_gone_on_with(tmp_path: Path) -> None:
    kept = (*_PAIRS, "--report", "matrix")
    pinproof(*kept, cwd=tmp_path, status=1)
    page = (tmp_path / "matrix" / "matrix.html").read_text()
    assert '<span class="refuses" title="the upgrade">refuses</span>' in page
    assert "pod-level managers" in page
    file = tmp_path / "matrix" / "cells.jsonl"
    header, *cells = file.read_text().splitlines()
    assert len(cells) == 9 + 4 + 4
    marked = [line.replace('"keeps"', '"moves"') for line in cells[:-1]]
    file.write_text("\n".join([header, *marked]) + "\n")
    facts = json.loads(pinproof(*kept, "--resume", "--json", cwd=tmp_path, status=1).stdout)
    words = [one["words"]["the upgrade"] for one in facts["cells"]]
    assert words.count("moves") > 5  # as the file said
    assert len(file.read_text().splitlines()) == 1 + len(cells)
    other = pinproof(*kept, "--resume", "--machine", "1s-1n-4c-smt2", cwd=tmp_path, status=2)
    assert "cells.jsonl: is of 2s-2n-8c-smt2, and this is 1s-1n-4c-smt2" in other.stderr
    file.write_text("{")
    assert "cells.jsonl: " in pinproof(*kept, "--resume", cwd=tmp_path, status=2).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("1.36", "1.37", "1.32"), "FROM and TO are all"),
        (("1.36", "1.37", "--resume"), "FROM and TO are all"),
        (("1.36", "1.37", "--matrix", "--resume"), "--report DIR, which is not given"),
        (("1.36", "1.36.4", "--matrix"), "--matrix takes each minor once"),
        (("1.36", "kubelet:./k", "--matrix"), "kubelet:./k"),
    ],
)
def test_a_matrix_of_something_else_is_refused(arguments: tuple[str, ...], said: str) -> None:
    done = pinproof("upgrade", *arguments, "--model", status=2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
