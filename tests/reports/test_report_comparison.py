"""Two runs compared: what is a regression, and what is not."""

from __future__ import annotations

import dataclasses
import json

import pytest

from conformance.results import Shard
from conformance.verdict import ExitStatus
from reports import comparison
from reports.comparison import Comparison, Kind
from reports.run import Run
from tests.reports.conftest import fakes, headed, with_subject


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        ("pass", "pass", None),
        ("pass", "fail", Kind.REGRESSION),
        ("skip", "fail", Kind.REGRESSION),
        ("unknown", "fail", Kind.REGRESSION),
        ("", "fail", Kind.NEW),
        ("fail", "fail", Kind.STILL),
        ("fail", "pass", Kind.FIX),
        ("pass", "unknown", Kind.UNCLEAR),
        ("fail", "unknown", Kind.UNCLEAR),
        ("unknown", "unknown", None),
        ("unknown", "pass", None),
        ("pass", "skip", Kind.GONE),
        ("pass", "", Kind.GONE),
        ("", "pass", Kind.NEW),
        ("skip", "pass", Kind.NEW),
        ("skip", "skip", None),
        ("", "skip", None),
    ],
)
def test_what_became_of_a_case(was: str, now: str, kind: Kind | None) -> None:
    def run(verdict: str) -> Run:
        results = [fakes.result(verdict)] if verdict else []
        return fakes.run(fakes.result(scenario="other"), *results)

    found = Comparison(run(was), run(now)).changes
    assert [one for one, changes in found.items() if changes] == ([kind] if kind else [])


def test_only_a_regression_is_status_1() -> None:
    red, green = fakes.run(fakes.result("fail")), fakes.run(fakes.result())
    assert Comparison(green, red).status is ExitStatus.NOT_CONFORMANT
    assert Comparison(green, fakes.known(red, fakes.entry())).status is ExitStatus.CONFORMANT
    assert Comparison(red, red).status is ExitStatus.CONFORMANT
    assert Comparison(red, green).status is ExitStatus.CONFORMANT
    assert Comparison(green, fakes.run(fakes.result("unknown"))).status is ExitStatus.COULD_NOT_TELL
    assert Comparison(green, fakes.run(fakes.result("skip"))).status is ExitStatus.TOO_FEW
    cut = dataclasses.replace(green, footer=None, cut_off="r: cut off")
    assert Comparison(green, cut).status is ExitStatus.COULD_NOT_TELL


def test_runs_that_share_no_case_are_not_compared() -> None:
    """As those of two machines: that nothing broke was not seen."""
    small = fakes.machine("small", cpus=4, sockets=1)
    here, there = fakes.run(fakes.result()), fakes.run(fakes.result(machine=small))
    found = Comparison(here, there)
    assert found.status is ExitStatus.TOO_FEW
    assert found.verdict == (
        "Nothing was compared: the two runs share no case that applies: 1 new case, 1 case gone."
    )
    skipped = fakes.result("skip", scenario="x")
    here, there = fakes.run(*here.results, skipped), fakes.run(*there.results, skipped)
    assert Comparison(here, there).status is ExitStatus.TOO_FEW


def _two() -> Comparison:
    small = fakes.machine("small", cpus=4, sockets=1)
    old = fakes.run(fakes.result(), fakes.result("fail", machine=small), fakes.result(scenario="x"))
    new = fakes.run(fakes.result("fail"), fakes.result(machine=small), fakes.result(scenario="y"))
    return Comparison(old, new)


def test_the_text_goes_machine_by_machine_and_ends_with_the_verdict() -> None:
    text = comparison.text(_two())
    assert "Regressions (1)\n  2s-2n-8c-smt2\n    pinning.whole-cores: pass, now fail\n" in text
    assert "      promised: a container with exclusive CPUs gets whole physical cores; " in text
    assert "      pinproof run --subject kubelet:1.36 -k pinning.whole-cores\n" in text
    assert "Fixes (1)\n  small\n    pinning.whole-cores: fail, now pass\n" in text
    assert "Gone (1)\n  2s-2n-8c-smt2\n    x: pass, now absent" in text
    assert text.splitlines()[-1] == ("1 regression: 1 fix, 1 new case, 1 case gone. Exit status 1.")


def test_lines_fold_at_80_columns() -> None:
    """But for the command, which is copied, and the last line, which logs are searched for."""
    long = " ".join(["word"] * 60)
    replay = f"pinproof run --subject kubelet:{'x' * 90} -k a"
    failure = fakes.failure(rule=long)
    machine = fakes.machine("m" * 30)
    new = fakes.run(fakes.result("fail", machine=machine, failure=failure, replay=replay))
    old = fakes.run(fakes.result(machine=machine))
    new = with_subject(new, name="kubelet:/" + "some/folder/" * 9)
    lines = comparison.text(Comparison(old, new)).splitlines()
    wide = [one for one in lines[:-1] if len(one) > 80]
    assert wide == [f"      {replay}"]
    assert " ".join(" ".join(lines).split()).count(" word word") > 20


def test_what_a_missing_shard_has_is_not_gone() -> None:
    """Nothing can be said of it."""
    old = fakes.run(fakes.result(), fakes.result(scenario="b"))
    new = fakes.run(fakes.result())
    assert Comparison(old, new).status is ExitStatus.CONFORMANT
    part = headed(new, shard=Shard(of=2, parts=[1]))
    assert Comparison(old, part).status is ExitStatus.COULD_NOT_TELL
    assert Comparison(part, part).status is ExitStatus.CONFORMANT
    assert "The new run: This is a part of a run: shard 1 of 2." in Comparison(old, part).notes


def test_markdown_and_json_say_the_same() -> None:
    both = _two()
    found = json.loads(comparison.as_json(both))
    assert (found["exit_status"], len(found["regression"]), len(found["fix"])) == (1, 1, 1)
    assert found["regression"][0]["replay"].startswith("pinproof run")
    text = comparison.as_markdown(both)
    assert "## 1 regression: 1 fix" in text
    assert "| 2s-2n-8c-smt2 | pinning.whole-cores | pass | fail | promised: a container" in text


def test_other_scenarios_or_another_machine_are_said() -> None:
    run = fakes.run(fakes.result())
    old = headed(run, digests={"2s-2n-8c-smt2": "sha256:5a"})
    new = headed(run, digests={"2s-2n-8c-smt2": "sha256:other"}, catalogue="sha256:other")
    notes = Comparison(old, new).notes
    assert len(notes) == 2
    assert "Another machine has the name 2s-2n-8c-smt2 now." in notes
