"""What a person reads in a terminal, a log, a pipe."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from reports import terminal
from reports.run import Run
from tests.reports.conftest import fakes, headed


def printed(run: Run, width: int = 80, **parts: bool) -> str:
    """The summary as a pipe gets it: without colour."""
    out = io.StringIO()
    terminal.summary(run, Console(file=out, width=width), **parts)
    assert "\x1b" not in out.getvalue()
    return out.getvalue()


def test_the_subject_is_named_with_release_version_and_digest() -> None:
    lines = printed(fakes.run(fakes.result())).splitlines()
    assert lines[0] == "kubelet:1.36  release 1.36  v1.36.3"
    assert lines[1] == "sha256:" + "0f" * 32
    assert lines[2] == "pinproof 0.1.0, 2026-03-01 10:00:00 UTC, 41.2 s"


def test_the_table_counts_each_machine_and_all() -> None:
    text = printed(fakes.one_of_each())
    assert re.search(r"^machine +pass +fail +skip +unknown$", text, re.M)
    assert re.search(r"^2s-2n-8c-smt2 +1 +1 +0 +1$", text, re.M)
    assert re.search(r"^1s-1n-4c-smt1 +1 +0 +1 +0$", text, re.M)
    assert re.search(r"^all +2 +1 +1 +1$", text, re.M)


def test_the_explanation_is_whole_and_nothing_is_said_twice() -> None:
    result = fakes.result("fail")
    text = printed(fakes.run(result))
    assert "FAIL  pinning.whole-cores [2s-2n-8c-smt2]" in text
    assert result.explanation in text
    assert text.count(result.replay) == 2  # in the story and in the list
    assert text.count(result.title) == 1
    assert "Evidence (1 line): in report.html and result.jsonl." in text


def test_a_bare_unknown_still_says_promise_source_and_reason() -> None:
    result = fakes.result("unknown")
    text = printed(fakes.run(result))
    for part in (result.title, result.source_url, result.reason, f"replay\n  {result.replay}"):
        assert part in text


def test_both_sides_are_drawn_below_or_beside_each_other() -> None:
    run = fakes.run(fakes.result("fail"))
    narrow, wide = printed(run, 80), printed(run, 160)
    for text in (narrow, wide):
        assert "web/app" in text.split("replay")[1]
    assert not [line for line in narrow.splitlines() if "expected" in line and "seen" in line]
    assert [line for line in wide.splitlines() if re.search(r"expected\b.*\bseen\b", line)]


def test_a_long_command_or_link_stays_one_line() -> None:
    replay = "pinproof run --subject " + "x" * 200 + " -k pinning"
    for explanation in ("", f"story\n  replay\n    {replay}"):
        result = fakes.result("unknown", replay=replay, explanation=explanation)
        assert replay in printed(fakes.run(result))
    url = "https://kubernetes.io/docs/" + "reserve-compute-resources/" * 5
    result = fakes.result("unknown", explanation=f"  promise   title\n            {url}")
    assert f"            {url}\n" in printed(fakes.run(result))


def test_a_broken_promise_in_words_draws_only_what_was_seen() -> None:
    """Nobody knows all the holdings that would keep it; what the differences name is marked."""
    run = fakes.run(fakes.result("fail", failure=fakes.failure(expected_holdings=[])))
    picture = printed(run).split("replay")[1]
    assert "\nseen\n" in picture
    assert "\nexpected\n" not in picture
    assert "marked: 2,9" in picture


def test_nothing_else_is_wider_than_the_terminal() -> None:
    cpus = ",".join(map(str, range(0, 512, 2)))
    story = f"  promise   {'word ' * 60}\n      expected    {cpus}\n      seen        {cpus}"
    run = fakes.run(
        fakes.result("fail", explanation=story, machine=fakes.machine("m", cpus=512)),
        fakes.result("skip", scenario="s", reason="why " * 50),
    )
    *lines, last = printed(run).splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert last == "Not conformant: 0 promises kept, 1 broken, 1 skipped. Exit status 1."


def test_skips_are_a_number_or_a_line_each_reason_most_first() -> None:
    few = [fakes.result("skip", scenario="one", reason="needs SMT")]
    many = [fakes.result("skip", scenario=f"s{n}", reason="needs release 1.22") for n in range(5)]
    run = fakes.run(*few, *many)
    assert "6 skipped, for 2 reasons (-rs lists them).\n" in printed(run)
    assert "needs SMT" not in printed(run)
    listed = printed(run, skips=True)
    assert "Skipped\n    5 x needs release 1.22\n    1 x needs SMT\n" in listed


def test_failures_of_one_cause_are_one_story_and_a_list() -> None:
    machines = [fakes.machine(f"m{number}") for number in range(3)]
    run = fakes.run(*(fakes.result("fail", machine=one) for one in machines))
    text = printed(run)
    assert text.count("FAIL  pinning.whole-cores") == 1
    names = "".join(f"  pinning.whole-cores [m{number}]\n" for number in range(3))
    sentence = "Broken promise: a container with exclusive CPUs gets whole physical cores."
    said = f"\nFailed\n  {sentence}\n{names}    pinproof run --subject kubelet:1.36 -k"
    assert said in text
    brief = printed(run, stories=False)
    assert "FAIL" not in brief
    assert names in brief


def test_known_failures_are_told_with_their_reason() -> None:
    """And what the list should no longer have."""
    entries = [{}, {"scenario": "x"}, {"scenario": "y", "expires": "1999-01-01"}]
    run = fakes.run(fakes.result("fail"), fakes.result(scenario="x"))
    run = fakes.known(run, *(fakes.entry(**one) for one in entries))
    text = " ".join(printed(run).split())
    known = "pinning.whole-cores [2s-2n-8c-smt2]: known until 2026-06-30 (our allocator takes odd"
    assert f"Known failures {known}" in text
    assert "they pass: remove them from the list x [2s-2n-8c-smt2]" in text
    assert "Past its date: y [*] known until 1999-01-01" in text
    assert "1 of them listed as known failures, 1 broken as is known, 1 past the date" in text
    assert text.endswith("Exit status 1.")


def test_the_last_line_is_the_verdict_with_the_status() -> None:
    """Just before it, a run that was cut off says so."""
    for run, last in (
        (fakes.run(fakes.result()), "Conformant: 1 promise kept. Exit status 0."),
        (fakes.run(), "Too few scenarios ran for a verdict: 0 promises kept. Exit status 4."),
        (
            fakes.one_of_each(),
            "Not conformant: 2 promises kept, 1 broken, 1 without an answer, 1 skipped. "
            "Exit status 1.",
        ),
    ):
        assert printed(run, 40).splitlines()[-1] == last
    run = fakes.run(fakes.result(), footer=None, cut_off="r.jsonl: cut off")
    *_, caution, last = printed(run, 200).splitlines()
    assert "This run was cut off" in caution
    assert last == "Could not tell: 1 promise kept. Exit status 3."


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_gets_colour_unless_it_declines(no_color: bool) -> None:
    out = io.StringIO()
    console = Console(
        file=out, width=80, force_terminal=True, no_color=no_color, color_system="standard"
    )
    terminal.summary(fakes.one_of_each(), console)
    assert ("\x1b[1;31m" in out.getvalue()) is not no_color
    assert re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()) == printed(fakes.one_of_each())


def test_hostile_text_neither_commands_the_terminal_nor_is_markup() -> None:
    text = printed(fakes.hostile(), 400)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]", text)
    assert "[bold red]markup[/] [link=file:///etc]x[/link] red" in text


def test_every_record_can_be_printed_at_any_width() -> None:
    run = headed(fakes.hostile(), machines=[])
    for width in (20, 40, 80, 300):
        assert "Exit status 1." in printed(run, width)


def test_every_cause_has_its_sentence() -> None:
    """Names alone say which scenarios failed, and not what; one below another cause would look like
    one more of that."""
    results = [
        fakes.result("fail", scenario=f"a/{number}", failure=fakes.failure(rule=rule))
        for number, rule in enumerate(("one", "one", "two", "two", "three"))
    ]
    text = " ".join(printed(fakes.run(*results)).split())
    for rule, first in (("one", "a/0"), ("two", "a/2"), ("three", "a/4")):
        assert f"Broken promise: {rule}. {first} [" in text


def test_what_failures_share_is_printed_before_their_names() -> None:
    """And a node that only differs is not counted among the broken promises."""
    start, machine = "start the kubelet", fakes.result().machine
    steps = [f"on {machine.name}, with policy static, option full-pcpus-only=true", start]
    rule = f"After the step “{start}” the node is as the model of 1.36 has it"
    failures = [fakes.failure(), fakes.failure(rule="a promise"), fakes.failure(rule=rule)]
    results = [
        fakes.result("fail", scenario=f"a/{number}", steps=steps, failure=failure)
        for number, failure in enumerate(failures)
    ]
    passed = [fakes.result(scenario=f"b/{n}", steps=[start]) for n in range(9)]
    text = " ".join(printed(fakes.run(*results, *passed)).split())
    shared = "It fails where the option full-pcpus-only is set. 3 of 3 such results failed"
    assert f"Failed {shared}, and none of 9 others." in text
    assert text.index(shared) < text.rindex("a/0 [")
    assert "9 promises kept, 2 broken, 1 where the node differs from its oracle" in text
