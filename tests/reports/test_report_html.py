"""The page as text: whole, linked, escaped, bounded. A browser looks at it in
``test_report_browser.py``."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conformance.results import Difference, MachineRecord, Moment, Result
from reports import html
from reports import page as pages
from reports.nodes import groups
from reports.run import Run
from reports.skips import skips
from tests.reports.conftest import HOSTILE, fakes, held

VOID = {"meta", "input", "br", "hr", "img", "link"}
_CELLS = {"td", "th"}
#: Elements that end where such a tag begins, or ends, if they are still open.
_BLOCKS = ("details", "div", "dl", "h4", "ol", "p", "pre", "ul")
ENDS_AT_START = {"li": {"li"}, "td": _CELLS, "th": _CELLS, "tr": {*_CELLS, "tr"}}
ENDS_AT_START |= {block: {"p"} for block in _BLOCKS}
ENDS_AT_END = {"ol": {"li"}, "ul": {"li"}, "tr": _CELLS, "tbody": {*_CELLS, "tr"}}
ENDS_AT_END |= {"details": {"p"}, "div": {"p"}}


class Parsed(HTMLParser):
    """Every tag with its attributes, and the text; refuses tags that do not match. The end tags of
    items, cells, rows and paragraphs may be left out, as in HTML."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(document)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        self._end(ENDS_AT_START.get(tag, set()))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._end(ENDS_AT_END.get(tag, set()))
        assert self._open.pop() == tag

    def _end(self, tags: set[str]) -> None:
        while self._open and self._open[-1] in tags:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, attribute: str) -> list[str]:
        return [attrs[attribute] for _, attrs in self.tags if attribute in attrs]


def parsed(run: Run) -> Parsed:
    return Parsed(html.document(run))


def between(document: str, first: str, last: str) -> str:
    """From the first text up to the one after it."""
    begun = document[document.index(first) :]
    return begun[: begun.index(last)]


RUNS: dict[str, Callable[[], Run]] = {
    "one of each": fakes.one_of_each,
    "hostile": fakes.hostile,
    "few machines": lambda: fakes.large(12, 5),
    "many machines": lambda: fakes.large(12, 20),
    "empty": fakes.run,
}


@pytest.mark.parametrize("name", RUNS)
def test_a_page_is_well_formed_has_its_targets_and_loads_and_runs_nothing_else(name: str) -> None:
    document = html.document(RUNS[name]())
    page = Parsed(document)
    ids = page.all("id")
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    inner = [href for href in page.all("href") if not href.startswith("http")]
    assert inner
    assert {href.removeprefix("#") for href in inner} <= set(ids)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"link", "iframe", "object", "embed", "base", "form", "img"}
    assert page.all("src") == []
    assert all(re.match(r"#|https?://", href) for href in page.all("href"))
    assert not [key for _, attrs in page.tags for key in attrs if key.startswith("on")]
    [policy] = [
        attrs["content"] for tag, attrs in page.tags if tag == "meta" and "http-equiv" in attrs
    ]
    [script] = re.findall(r"<script>(.*?)</script>", document, re.S)
    assert script == Path("reports/templates/report.js").read_text(encoding="utf-8")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert document.count("<script") == 1
    assert not re.search(r"url\(|@import|expression\(", document)


def test_the_head_of_the_page_says_what_was_run_and_what_came_of_it() -> None:
    text = parsed(fakes.one_of_each()).text
    for part in (
        "kubelet:1.36", "release 1.36", "v1.36.3", "sha256:" + "0f" * 32,
        "2026-03-01 10:00:00 UTC", "2026-03-01 10:00:41 UTC (41.2 s)",
        "2s-2n-8c-smt2, 1s-1n-4c-smt1",
        "Not conformant: 2 promises kept, 1 broken, 1 without an answer, 1 skipped.",
        "Exit status 1 · ✓ 2 kept · ✗ 1 failed · \N{EN DASH} 1 skipped · ? 1 could not tell",
        "kernel 6.12.0", "go go1.26.1",
    ):  # fmt: skip
        assert part in text


def test_the_matrix_marks_and_links_to_causes() -> None:
    document = html.document(fakes.one_of_each())
    cells = Counter(attrs.get("class") for tag, attrs in Parsed(document).tags if tag == "td")
    assert {cell: cells[cell] for cell in "pfusn"} == {"p": 2, "f": 1, "u": 1, "s": 1, "n": 1}
    assert '<td class="f"><a href=#fail-pinning.whole-cores-2s-2n-8c-smt2>✗</a></td>' in document
    assert '<td class="u"><a href=#unknown-restart.keeps-2s-2n-8c-smt2>?</a></td>' in document
    assert '<td class="p">✓</td>' in document
    page = parsed(fakes.run(fakes.result(), fakes.result("fail"), fakes.result()))
    assert [attrs.get("class") for tag, attrs in page.tags if tag == "td"][-1] == "f", "the gravest"


def test_a_story_has_everything_in_it() -> None:
    result = fakes.result("fail", witness="the model", kubelet_errors=["E0101 allocation failed"])
    story = between(html.document(fakes.run(result)), '<details class="cause fail"', "<nav ")
    text = Parsed(f"<section>{story}").text
    for part in (
        result.title, "Broken promise: a container with exclusive CPUs gets whole physical cores",
        "what expected seen missing unexpected exclusive CPUs of web/app 1,9 1-2 9 2",
        "What the kubelet said E0101 allocation failed", "Steps, up to where it showed",
        "apply Guaranteed pod web (app: 2 CPUs)", "Judged by the model", result.evidence,
        "pinning.whole-cores on 2s-2n-8c-smt2: the promise is broken",
    ):  # fmt: skip
        assert part in text
    assert f'<a href="{result.source_url}">{result.source}</a>' in story
    assert f"{result.replay}Copy" in re.sub(r"<[^>]*>", "", story)
    assert re.findall(r"<figcaption>(\w+)</figcaption>", story) == ["expected", "seen"]
    assert story.count("<svg") == 2


def test_pictures_of_hostile_owners_are_drawn_as_text() -> None:
    document = html.document(fakes.hostile())
    assert document.count("<svg") == 1  # who holds what does not differ: no picture of that
    assert "&lt;script&gt;" in document
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e\u2066]", document)
    assert "{{ 7*7 }}" in document
    assert "javascript:" not in document
    assert HOSTILE not in document


def test_errors_of_passing_scenarios_are_grouped_by_scenario_and_text() -> None:
    def refused(machine: str, *errors: str) -> Result:
        return fakes.result(
            scenario="state.refused", machine=fakes.machine(machine), kubelet_errors=list(errors)
        )

    run = fakes.run(
        refused("m0", "first error"),
        *(refused(f"n{n}", "other error", "other error") for n in range(2)),
        refused("m3", "third error"),
        *(refused(f"many{n}", "common error") for n in range(9)),
        fakes.result("fail", kubelet_errors=["not as promised"]),
    )
    section = between(html.document(run), '<section id="refusals"', "</section>")
    text = Parsed(f"{section}</section>").text
    assert section.count("class=card") == 1
    assert "on 9 machines common error on n0, n1 other error (2 times) and 2 more texts" in text
    assert "not as promised" not in section


def test_skips_are_grouped_by_reason() -> None:
    skipped = [fakes.result("skip", scenario=f"s{n}", reason="needs\nSMT") for n in range(3)]
    text = parsed(fakes.run(fakes.result(), *skipped)).text
    assert text.count("needs SMT") == 1
    assert "3 \N{MULTIPLICATION SIGN} needs SMT 3 scenarios on 2s-2n-8c-smt2" in text
    assert text.count("Skipped on 1 of 1 machine") == 3


def test_each_scenario_leads_to_why_it_was_skipped() -> None:
    """Machines that one reason keeps from the same scenarios are one entry."""

    def skipped(scenario: str, machine: str, reason: str) -> Result:
        return fakes.result(
            "skip", scenario=scenario, reason=reason, machine=fakes.machine(machine)
        )

    run = fakes.run(
        *(skipped(one, name, "needs SMT") for one in ("s0", "s1") for name in ("m0", "m1")),
        skipped("s0", "m2", "needs NUMA"),
        fakes.result(scenario="s1", machine=fakes.machine("m2")),
    )
    document = html.document(run)
    counted = [(skip.reason, skip.count) for skip in skips(run)]
    assert counted == [("needs SMT", 4), ("needs NUMA", 1)]
    assert Parsed(document).text.count("on m0, m1") == 1
    both, alone = (re.search(f'<li id="(k.)">{count}', document) for count in "21")
    assert both
    assert alone
    links = f"Skipped on <a href=#{both[1]}>2</a> and <a href=#{alone[1]}>1</a> of 3 machines"
    assert links in document
    assert f"Skipped on <a href=#{both[1]}>2</a> of 3 machines" in document


def test_a_row_of_many_machines_is_a_sign_for_each() -> None:
    """Neighbours of one cause are one link; an empty place is a sign too."""
    machines = fakes.different(f"m{n:02}" for n in range(13))
    verdicts = ["pass", "fail", "fail", "skip", "unknown", *["pass"] * 7]
    run = fakes.run(
        *(fakes.result(one, machine=at) for one, at in zip(verdicts, machines, strict=False)),
        fakes.result(scenario="other", machine=machines[-1]),
    )
    document = html.document(run)
    assert re.findall(r"<td colspan=13>(.*)", document) == [
        "............+",
        "+<a href=#c1>xx</a>-<a href=#c2>?</a>+++++++.",
    ]
    assert "<noscript>" in document
    told = "+ kept, x failed, ? could not tell, - skipped, . did not run"
    assert told in Parsed(document).text
    assert "<noscript>" not in html.document(fakes.large(12, 12))


def test_a_cut_off_run_and_an_empty_one_say_so() -> None:
    run = fakes.run(fakes.result(), footer=None, cut_off="r.jsonl: cut off")
    text = parsed(run).text
    assert "This run was cut off; the results up to there are shown. r.jsonl: cut off." in text
    assert "1 results, cut off" in text
    assert "Nothing ran." in parsed(fakes.run()).text


def test_a_machine_with_cpu_511_is_drawn() -> None:
    places = {cpu: (0, 0, cpu, 0) for cpu in (0, 511)}
    machine = MachineRecord(name="holes", shape="", digest="", cpus=places)
    failure = fakes.failure(
        expected_holdings=held({"a/b": "511"}), seen_holdings=held({"a/b": "0"})
    )
    document = html.document(fakes.run(fakes.result("fail", machine=machine, failure=failure)))
    figures = document.split("<figure>")[1:]
    assert len(figures) == 2
    assert all("511" in figure for figure in figures)
    text = Parsed(document).text
    assert "1 NUMA node, 1 socket, 2 physical cores, 1 uncore cache, 2 CPUs" in text


@pytest.mark.parametrize("cpus", [0, 5000])
def test_a_machine_that_cannot_be_drawn_is_told_in_words(cpus: int) -> None:
    places = {cpu: (0, 0, cpu, 0) for cpu in range(cpus)}
    machine = MachineRecord(name="odd", shape="", digest="", cpus=places)
    document = html.document(fakes.run(fakes.result("fail", machine=machine)))
    assert "<svg" not in document
    assert "cannot be drawn" in document


def test_long_messages_are_shown_whole_and_long_evidence_is_cut() -> None:
    result = fakes.result("fail", explanation="x" * 10_000, evidence="y" * 100_000 + "END")
    document = html.document(fakes.run(result))
    assert "x" * 10_000 in document
    assert "84003 characters before this: see result.jsonl" in document
    assert "yyyEND" in document


def test_the_report_of_500_nodes_is_under_15_megabytes() -> None:
    """Even if no node is like another."""
    document = html.document(fakes.nodes(500, 230, alike=False))
    assert document.count('class="machine"') == 500
    assert len(document.encode()) < 15_000_000


def test_each_cause_is_told_once_with_all_that_it_hits() -> None:
    cases = product(map(fakes.machine, ("m0", "m1", "m2")), ("pinning.s0", "pinning.s1"))
    run = fakes.run(*(fakes.result("fail", scenario=name, machine=one) for one, name in cases))
    document = html.document(run)
    assert document.count('<details class="cause') == 1
    assert "6 results: 2 scenarios on m0, m1, m2" in Parsed(document).text
    assert document.index('<details class="cause') < document.index('<section id="matrix"')


def test_known_failures_are_shown_and_not_among_what_broke() -> None:
    run = fakes.run(
        fakes.result("fail", scenario="old/one"),
        fakes.result("pass", scenario="old/two"),
        fakes.result("fail", scenario="new/one"),
    )
    mended = {"reason": "being mended", "expires": "2999-12-31", "link": ""}
    entries = (fakes.entry(scenario=one, **mended) for one in ("old/one", "old/two"))
    run = fakes.known(run, *entries)
    document = html.document(run)
    broken = between(document, '<section id="broken"', '<section id="known"')
    known = between(document, '<section id="known"', "<nav ")
    assert "new/one" in broken
    assert "old/one" not in broken
    text = Parsed(known).text
    assert "known until 2999-12-31 (being mended) old/one on 2s-2n-8c-smt2" in text
    assert "(being mended); it passes: remove it from the list old/two on 2s-2n-8c-smt2" in text
    assert "Broken promise: a container with exclusive CPUs gets whole physical cores" in text


def test_nodes_that_are_alike_are_one_column_and_outliers_come_first() -> None:
    page = parsed(fakes.nodes(60, 10))
    heads = [href for href in page.all("href") if href.startswith("#machine-")]
    assert heads == [f"#machine-node{number}" for number in ("007", "027", "047", "001", "000")]
    for part in (
        "60 nodes , 3 of them with failures · 5 groups of equal machine",
        "node001 and 26 more",
        "29 nodes of the same machine and configuration have other verdicts",
    ):
        assert part in page.text


def test_another_configuration_is_another_column() -> None:
    run = fakes.nodes(4, 3)
    own = msgspec.structs.replace(run.header.subject, facts={"policy": "none"})
    assert len(groups(run)) == 2
    assert len(groups(dataclasses.replace(run, subjects={"node002": own}))) == 3


def test_allocation_over_time_is_shown_as_strips() -> None:
    steps = {"start": {"shared pool": "0-15"}, "apply": {"web/app": "1-2", "shared pool": "0"}}
    moments = [Moment(step=step, holdings=held(cpus)) for step, cpus in steps.items()]
    run = fakes.run(fakes.result("fail", failure=fakes.failure(moments=moments)))
    page = parsed(run)
    labels = page.all("aria-label")
    assert "shared pool: 0-15" in labels
    assert "web/app: 1-2; shared pool: 0" in labels
    assert "A web/app" in page.text


def test_without_cpus_that_differ_there_is_no_picture() -> None:
    app = held({"web/app": "1"})
    same = Difference(what="pod web", expected="running", seen="running: another message")
    failure = fakes.failure(differences=[same], expected_holdings=app, seen_holdings=app)
    assert "<figure>" not in html.document(fakes.run(fakes.result("fail", failure=failure)))


def moments_and_list(text: str) -> Run:
    """With this text in the moments of an allocation and in the list of known failures."""
    both = held({text: "1-2"}), held({text: "1,9"})
    failure = fakes.failure(
        expected_holdings=both[0],
        seen_holdings=both[1],
        moments=[Moment(step=text, holdings=holdings) for holdings in both],
    )
    broken = fakes.result("fail", failure=failure)
    mended = fakes.result(scenario="mended")
    listed = fakes.entry(reason=text, link=text), fakes.entry(scenario="mended", reason=text)
    return fakes.known(fakes.run(broken, mended), *listed)


@cache
def tags_of_plain_text(run: Callable[[str], Run]) -> Counter[str]:
    return Counter(tag for tag, _ in parsed(run("x")).tags)


@pytest.mark.parametrize("run", [fakes.filled, moments_and_list])
@example(HOSTILE)
@given(st.text(max_size=300))
def test_no_text_whatever_becomes_markup(run: Callable[[str], Run], text: str) -> None:
    """Everywhere at once: names, titles, reasons, steps, replay commands, owners, log lines."""
    plain, page = tags_of_plain_text(run), parsed(run(text))
    tags = Counter(tag for tag, _ in page.tags)
    words = len(text.split(" "))
    assert tags <= plain + Counter({"span": 3 * words + 3, "b": 9, "a": 3, "code": 3, "br": 3})
    assert tags.keys() <= plain.keys() | {"span"}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e]", " ".join(page.words))


def test_a_source_that_several_scenarios_share_is_linked_once() -> None:
    """In a list; a scenario without a link names its source all the same."""
    kept = [fakes.result(scenario=name) for name in ("a.one", "a.two")]
    plain = fakes.result(scenario="a.plain", source_url="no link")
    cards = between(html.document(fakes.run(*kept, plain)), 'id="scenarios"', 'id="machines"')
    listed = f'<li id="o1"><a href="{kept[0].source_url}">{kept[0].source}</a></li>'
    assert cards.count(f"<a href=#o1>{kept[0].source}</a>") == 2
    assert (cards.count(kept[0].source_url), listed in cards) == (1, True)
    assert f"<cite>{plain.source}</cite>" in cards


def test_scenarios_of_the_core_level_are_marked() -> None:
    more = fakes.result(scenario="pinning.more", level="extended")
    document = html.document(fakes.run(fakes.result(), more))
    assert "<b>pinning.whole-cores</b> <small>core</small></summary>" in document
    assert "<b>pinning.more</b></summary>" in document


def test_moments_and_known_failures_are_on_that_page() -> None:
    document = html.document(moments_and_list("x"))
    for part in ('class="strip"', 'id="known"'):
        assert part in document


def test_beyond_the_budget_pictures_and_evidence_are_left_out_and_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "EVIDENCE", 100)
    whole = html.document(fakes.run(fakes.result("fail")))
    [expected, seen, machine] = re.findall(r"<svg.*?</svg>\n", whole, re.S)
    monkeypatch.setattr(pages, "PICTURES", len(expected) + len(seen) + len(machine) - 1)
    failures = [fakes.failure(rule=rule) for rule in "abc"]
    run = fakes.run(*(fakes.result("fail", scenario=one.rule, failure=one) for one in failures))
    document = html.document(run)
    assert document.count("<svg") == 2
    assert document.count("The picture was left out to keep this file small.") == 2
    assert document.count("The pictures of 1 machine were left out to keep this file small.") == 1
    assert document.count("Left out to keep this file small: see result.jsonl.") == 1


def test_the_same_results_give_the_same_page() -> None:
    run = fakes.large(6, 3)
    shuffled = dataclasses.replace(run, results=run.results[::-1])
    assert html.document(run) == html.document(shuffled)


def test_small_machines_are_drawn_before_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ((one, fakes.machine(f"m{one}", cpus=one)) for one in (64, 8, 4))
    machines = [msgspec.structs.replace(made, digest=f"sha256:{one}") for one, made in sizes]
    run = fakes.run(*(fakes.result(machine=one) for one in machines))
    pictures = re.findall(r"<svg.*?</svg>\n", html.document(run), re.S)
    monkeypatch.setattr(pages, "PICTURES", sum(map(len, pictures[1:])))
    document = html.document(run)
    assert re.findall(r"<svg.*?</svg>\n", document, re.S) == pictures[1:]
    assert "The pictures of 1 machine were left out" in document
    assert document.count("<svg") == 2


def test_replay_commands_of_further_scenarios_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that shows a cause always has its own."""
    monkeypatch.setattr(pages, "STORIES", 100)
    failed = [
        fakes.result("fail", scenario=f"s{n}", replay=f"again s{n} {'x' * 50}", explanation="")
        for n in range(4)
    ]
    assert parsed(fakes.run(*failed)).text.count("again s") == 1 + 1
