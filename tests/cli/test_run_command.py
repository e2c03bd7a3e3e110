"""``pinproof run`` as a user runs it: a process, its exit status, its words, its files."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec
import pytest

from conformance.aliases import ALIASES
from conformance.recording import recorded_releases
from conformance.results import Result
from conformance.subject import SubjectUsageError
from pinproof import pytest_arguments
from reference import NEWEST
from tests.cli.conftest import Judges, Stream
from tests.cli.running import Done, here, python
from tests.support.until import content, until

INCIDENT: Final = "machine/cpu-upgrade-incident"
RECORDED: Final = recorded_releases()
TRUSTING: Final = ("--subject", "miniature:trusts-its-state")
FORGETFUL: Final = ("--subject", "miniature:forgets-to-give-back")


def test_a_miniature_is_caught_and_its_replay_command_reproduces_it(
    judged: Judges, tmp_path: Path
) -> None:
    run = judged(*TRUSTING, "--machine", "1s-1n-4c-smt2", "-k", INCIDENT, status=1)
    (one,) = run.failed
    for part in (INCIDENT, "1s-1n-4c-smt1", "reboot the machine as 1s-1n-4c-smt2", one.replay):
        assert part in one.explanation
        assert part in " ".join(run.done.stdout.split()) or part in run.done.stdout
    command, *words = shlex.split(one.replay)
    assert command == "pinproof"
    assert INCIDENT in here(*words, cwd=tmp_path, status=1).stdout


@pytest.mark.parametrize(
    ("subject", "machines", "more", "pays"),
    [
        ("reference", 53, "", True),
        ("reference", 1, "", False),
        ("kubelet:1.36", 1, "", True),
        ("kubelet:1.36", 1, "-k pool/one", False),
        ("node:lab.toml", 53, "", False),
        ("of-somebody-else:x", 53, "", False),
        ("reference", 53, "-k 'not pool/one'", True),
        ("reference", 53, "--ff", True),
        *(
            ("reference", 53, more, False)
            for more in (
                "-k pool/one",
                "-n 0",
                "-n3",
                "-x",
                "--lf",
                "--pdb",
                "--collect-only",
                "-s",
            )
        ),
    ],
)
def test_both_cpus_are_used_where_that_pays(
    subject: str, machines: int, more: str, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where the user has not said anything else."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    scenarios = ["pool/one", *(f"qos/{number}" for number in range(1, 140))]
    cases = [f"{one}@m{machine}" for one in scenarios for machine in range(machines)]
    config = pytest_arguments.parsed(shlex.split(more)) if more else None
    assert pytest_arguments.workers(subject, cases, config) == (["-n", "2"] if pays else [])


@pytest.mark.parametrize("strictly", [[], ["--strict-markers"]])
def test_the_markers_of_the_suite_are_known(strictly: list[str]) -> None:
    config = pytest_arguments.parsed([*strictly, "-m", "core and not extended"])
    assert config.option.markexpr == "core and not extended"
    with pytest.raises(SubjectUsageError, match=r"Unknown marker\(s\)") as caught:
        pytest_arguments.parsed(["--strict-markers", "-m", "cor"])
    assert "cor." in str(caught.value)


def test_one_cpu_has_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert pytest_arguments.workers("reference", ["a"] * 9999, None) == []


@pytest.mark.parametrize(("options", "release"), [((), "1.22"), (("--release", "1.26"), "1.26")])
def test_a_behaviour_switched_is_judged_by_the_plain_release(
    options: tuple[str, ...], release: str
) -> None:
    """By the first that has it, or by the one that is asked for."""
    which = ("--machine", "1s-1n-4c-smt2-off7", "-k", "uneven/reserved-cpu-is-given-away")
    subject = ("--subject", "miniature:ordered-allocation=off")
    done = here("run", *subject, *options, *which, status=1)
    assert f"judged by the model of {release}\n" in done.stdout


#: A run that takes few cases for enough, on a host of two CPUs.
_SPREAD: Final = """
import os
from pinproof import pytest_arguments
pytest_arguments.PAYS_FROM["reference"] = pytest_arguments.PAYS_FROM["miniature"] = 2
os.sched_getaffinity = lambda _: {0, 1}
from pinproof.cli import main
main()
"""


def test_processes_that_nobody_asked_for_find_the_same(results: Stream, tmp_path: Path) -> None:
    """The streams differ in order, worker and times alone."""
    which = ("run", *FORGETFUL, "--machine", "1s-1n-4c-smt?", "-k", "pool/ or qos/ or restart/")
    alone = here(*which, "-n", "0", "--report", str(tmp_path / "one"))
    spread = python("-c", _SPREAD, *which, "--report", str(tmp_path / "two"))
    assert spread.returncode == alone.returncode == 1, spread.stderr
    header, one, footer = results(tmp_path / "one")
    same_header, two, same_footer = results(tmp_path / "two")
    assert {x.worker for x in two} == {"gw0", "gw1"}
    assert header.environment == same_header.environment
    assert (header.machines, footer.counts) == (same_header.machines, same_footer.counts)

    def plain(x: Result) -> Result:
        # The first pass of a scenario has its steps, and which is the first is a matter of time.
        steps = {"steps": [], "replay": ""} if x.verdict == "pass" else {}
        return msgspec.structs.replace(x, worker="", seconds=0.0, **steps)

    both = [sorted(map(plain, found), key=lambda x: (x.scenario, x.machine.name))
            for found in (one, two)]  # fmt: skip
    assert both[0] == both[1]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_first_failure_ends_a_run_that_is_told_to(judged: Judges, workers: str) -> None:
    """Its stream is whole, and a promise is broken: that is no interrupt."""
    which = ("--machine", "1s-1n-4c-smt?", "-k", "pool/ or qos/ or restart/")
    run = judged(*FORGETFUL, *which, "-x", "-n", workers, status=1)
    assert run.footer.exit_status == 1
    assert 1 <= len(run.failed) <= max(1, int(workers) * 2)


@pytest.mark.parametrize("whole_group", [True, False])
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_processes(
    tmp_path: Path, whole_group: bool, sign: signal.Signals
) -> None:
    """Ctrl-C reaches the whole process group, ``kill`` only the first process."""
    environment = {**os.environ, "PINPROOF_TEST_MARK": str(tmp_path)}
    running = subprocess.Popen(
        [sys.executable, "-c", _SPREAD, "run", "--machine", "2s-*", "--report", tmp_path / "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    stream = tmp_path / "out" / "result.jsonl"
    assert until(lambda: len(content(stream).splitlines()) > 5, 120)
    assert len(_marked(tmp_path)) == 3
    (os.killpg if whole_group else os.kill)(running.pid, sign)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 3, out + err
    assert "Traceback" not in out + err
    assert "cut off" in out
    assert _marked(tmp_path) == []


def _marked(mark: Path) -> list[str]:
    """The processes that have this mark in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"PINPROOF_TEST_MARK={mark}".encode() in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_text())
    return found


def test_what_failed_last_is_run_again(
    judged: Judges, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--lf``: those alone; ``--ff``: those first; each subject has its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    which = ("--machine", "1s-1n-4c-smt2", "-k", "pool/")
    first = judged(*which, *FORGETFUL, status=1)
    failed = {one.scenario for one in first.failed}
    assert 0 < len(failed) < len(first.found)
    last = judged(*which, *FORGETFUL, "--lf", status=1)
    assert {one.scenario for one in last.found} == failed
    again = judged(*which, *FORGETFUL, "--ff", status=1).found
    assert len(again) == len(first.found)
    assert {one.scenario for one in again[: len(failed)]} == failed
    assert len(judged(*which, "--lf", status=0).found) == len(first.found)


def test_a_run_does_not_read_the_callers_pytest_settings(tmp_path: Path) -> None:
    """They are the caller's, for the caller's tests."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError\n")
    here("run", "-k", INCIDENT, cwd=tmp_path, status=0)


def test_the_suite_runs_under_plain_pytest(results: Stream, tmp_path: Path) -> None:
    """As an operator with a lab runs it; a scenario is found under its old id too."""
    former = "topology/none-refuses-nobody"
    done = python(
        *("-m", "pytest", "--pyargs", "conformance.suite", "-q"),
        *("-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-c", "/dev/null"),
        *("--pin-machine", "2s-2n-8c-smt2", "--pin-report", str(tmp_path)),
        *("--pin-subject", "miniature:forgets-to-give-back"),
        *("-k", f"pool/ or {former}"),
        status=1,
    )
    assert "pool/deletion-returns-cpus on 2s-2n-8c-smt2: the promise is broken" in done.stdout
    header, found, footer = results(tmp_path)
    assert header.subject.name == "miniature:forgets-to-give-back"
    assert footer.exit_status == 1
    assert Counter(footer.counts) == Counter(one.verdict for one in found)
    assert footer.counts.keys() >= {"pass", "fail"}
    assert {one.machine.name for one in found} == {"2s-2n-8c-smt2"}
    assert ALIASES[former] in {one.scenario for one in found}
    assert all((tmp_path / name).stat().st_size for name in ("junit.xml", "report.html"))


def test_an_earlier_report_is_not_taken_for_this_runs(tmp_path: Path) -> None:
    """A run that ends before its first scenario has no report."""
    here("run", "-k", INCIDENT, "--report", str(tmp_path), status=0)
    assert (tmp_path / "result.jsonl").exists()
    nothing = ("--machine", "1s-1n-4c-smt1", "-k", "whole and nothing")
    here("run", *nothing, "--report", str(tmp_path), status=4)
    assert list(tmp_path.iterdir()) == []


#: A run that sends itself a signal after its first result.
_ENDED: Final = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
for sign in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(sign, signal.SIG_DFL)
from conformance.stream import StreamWriter
add = StreamWriter.add
def once(self, result):
    add(self, result)
    {first}
    os.kill(os.getpid(), signal.{sign})
StreamWriter.add = once
from conformance.subject import SubjectNotRestored
from conformance.subjects.reference import ReferenceSubject
def unable(self):
    ReferenceSubject.close = lambda self: None
    raise SubjectNotRestored("node7 is not as it was before: cpu 3: was 1, is 0")
from pinproof.cli import main
main()
"""


def _ended(tmp_path: Path, sign: str, first: str = "") -> Done:
    (tmp_path / "tmp").mkdir()
    arguments = ("run", "--machine", "1s-1n-4c-smt2", "--report", str(tmp_path / "out"))
    return python(
        "-c", _ENDED.format(sign=sign, first=first), *arguments, TMPDIR=str(tmp_path / "tmp")
    )


@pytest.mark.parametrize("sign", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_run_cannot_tell_and_leaves_nothing(tmp_path: Path, sign: str) -> None:
    """Its stream has no footer, so that it cannot look whole."""
    done = _ended(tmp_path, sign)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "footer" in done.stdout or "cut off" in done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "out" / "report.html").exists()
    assert done.stderr.endswith(
        f"report: none, the run was cut off; with --resume it goes on in {tmp_path / 'out'}\n"
    )


def test_an_interrupted_run_that_leaves_a_node_changed_is_status_5(tmp_path: Path) -> None:
    """That is what its user has to know first."""
    done = _ended(tmp_path, "SIGTERM", "ReferenceSubject.close = unable")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "not restored: node7 is not as it was before: cpu 3: was 1, is 0" in done.stdout
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("A node was not left as it was found")
    assert last.endswith("Exit status 5.")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        *((more, True) for more in ("", "-n 2 -rs", "-n auto")),
        *((more, False) for more in ("-k pool", "-x", "--lf -n 2", "--deselect 2")),
    ],
)
def test_a_number_of_processes_leaves_all_scenarios_asked(more: str, expected: bool) -> None:
    """A certificate of a run with ``-n 2`` is whole."""
    assert pytest_arguments.asks_all(more.split()) == expected


#: A plugin of pytest that ends the worker of one scenario.
_KILLER: Final = """
import os
from conformance.session import judging
judge_item = judging.judge_item
def dying(case, subject, item):
    if case.scenario.id == "qos/fraction-shares":
        os._exit(9)
    return judge_item(case, subject, item)
judging.judge_item = dying
"""


def test_a_worker_that_dies_is_unknown_never_a_pass(results: Stream, tmp_path: Path) -> None:
    (tmp_path / "killer.py").write_text(_KILLER)
    which = ("--machine", "1s-1n-4c-smt2", "-n", "2", "-p", "killer")
    words = ("-m", "pinproof", "run", *which, "--report", str(tmp_path / "out"))
    python(*words, PYTHONPATH=str(tmp_path), status=3)
    _, found, footer = results(tmp_path / "out")
    unknown = [one for one in found if one.verdict == "unknown"]
    assert [one.scenario for one in unknown] == ["qos/fraction-shares"]
    assert "failed before it had a verdict" in unknown[0].reason
    assert footer.counts["pass"] > 30
    assert footer.counts["unknown"] == 1


def test_a_fork_is_judged_by_what_it_has(judged: Judges) -> None:
    fork = ("--behaviour", "distribution-ends=on", "-k", INCIDENT)
    run = judged(*TRUSTING, "--machine", "1s-1n-4c-smt2", *fork, status=1)
    assert run.header.environment["judged by release"].endswith("+distribution-ends")
    assert "+distribution-ends" in run.failed[0].replay


@pytest.mark.parametrize(
    ("words", "release"),
    [((), NEWEST), *((("--release", one), one) for one in (RECORDED[0], RECORDED[-1]))],
)
def test_a_release_is_judged_by_the_recording_of_its_own_kubelet(
    words: tuple[str, ...], release: str, judged: Judges, tmp_path: Path
) -> None:
    """The model of the release that was asked for, beside a kubelet of that release, never by
    itself; the report says so."""
    which = ("--machine", "1s-1n-4c-smt2", "-k", "packing/whole-core")
    run = judged(*words, *which, status=0)
    (one,) = run.found
    assert (run.header.subject.release, one.verdict) == (release, "pass")
    assert one.witness.startswith(f"a recording of a real kubelet v{release}.")
    assert f"Judged by {one.witness} (1)" in run.done.stdout
    assert f"{one.witness} (1 scenario)" in (tmp_path / "report.html").read_text()


def test_without_a_recording_the_report_says_who_judges() -> None:
    done = here("run", "--release", "1.25", "--machine", "1s-1n-4c-smt2", "-k", "packing", status=0)
    assert "Judged by the promise in words alone (" in done.stdout


def test_witnesses_are_listed() -> None:
    rows = json.loads(here("witnesses", "--json").stdout)
    assert [one["release"] for one in rows] == RECORDED
    assert all(one["recorded"] > 50 and one["machines"] > 0 for one in rows)
    (newest,) = (one for one in rows if one["release"] == "1.36")
    machines = json.loads(here("witnesses", "1.36", "--json").stdout)
    assert len(machines) == newest["machines"]
    assert sum(one["recorded"] for one in machines) == newest["recorded"]
    # Some scenarios turn out not to apply once they are driven, and some are decided by chance:
    # test_recordings.py holds that every other one is recorded.
    assert all(0 < one["recorded"] <= one["apply"] for one in machines)
    assert sum(one["recorded"] >= one["apply"] - 6 for one in machines) > len(machines) // 2
    assert machines[0]["machine"] in here("witnesses", "1.36").stdout


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("none/x", "none/x: a recording is a file in a folder that exists"),
        (".", ".: a recording is a file in a folder that exists"),
        ("other", "other: not a recording: "),
    ],
)
def test_a_recording_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, place: str, said: str
) -> None:
    (tmp_path / "other").write_text("{}")
    done = here("run", "-k", "pool/", "--record", place, cwd=tmp_path, status=2)
    assert done.stderr.startswith(f"pinproof: {said}")
    assert done.stdout == ""
