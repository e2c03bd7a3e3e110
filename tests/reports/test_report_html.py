"""The page as text: whole, linked, escaped, bounded. A browser looks at it in
``test_report_browser.py``."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from conformance.results import Holding, MachineRecord, Result
from reports import Run, html
from reports import page as pages

if TYPE_CHECKING:
    from tests.reports.conftest import Fakes

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Parsed(HTMLParser):
    """Every tag with its attributes, and the text; refuses tags that do not match."""

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
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, attribute: str) -> list[str]:
        return [attrs[attribute] for _, attrs in self.tags if attribute in attrs]


def parsed(run: Run) -> Parsed:
    return Parsed(html.document(run))


def runs(fakes: Fakes) -> list[Run]:
    return [fakes.one_of_each(), fakes.hostile(), fakes.large(12, 5), fakes.run()]


def test_the_page_is_well_formed_and_every_link_has_its_target(fakes: Fakes) -> None:
    for run in runs(fakes):
        page = parsed(run)
        ids = page.all("id")
        assert [name for name, count in Counter(ids).items() if count > 1] == []
        inner = [href for href in page.all("href") if not href.startswith("http")]
        assert inner
        assert {href.removeprefix("#") for href in inner} <= set(ids)


def test_nothing_is_loaded_and_nothing_runs(fakes: Fakes) -> None:
    for run in runs(fakes):
        page = parsed(run)
        tags = {tag for tag, _ in page.tags}
        assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form", "img"}
        assert page.all("src") == []
        assert all(re.match(r"#|https?://", href) for href in page.all("href"))
        assert not [key for _, attrs in page.tags for key in attrs if key.startswith("on")]
        [policy] = [
            attrs["content"] for tag, attrs in page.tags if tag == "meta" and "http-equiv" in attrs
        ]
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
        assert "script-src" not in policy
        assert not re.search(r"url\(|@import|expression\(", html.document(run))


def test_the_head_of_the_page_says_what_was_run_and_what_came_of_it(fakes: Fakes) -> None:
    text = parsed(fakes.one_of_each()).text
    for part in (
        "kubelet:1.36", "release 1.36", "v1.36.3", "sha256:" + "0f" * 32,
        "2026-03-01 10:00:00 UTC", "2026-03-01 10:00:41 UTC (41.2 s)",
        "2s-2n-8c-smt2, 1s-1n-4c-smt1",
        "Not conformant: 2 promises kept, 1 broken, 1 without an answer, 1 skipped.",
        "Exit status 1", "✓ 2 kept ✗ 1 broken \N{EN DASH} 1 skipped ? 1 could not tell",
        "kernel 6.12.0", "go go1.26.1",
    ):  # fmt: skip
        assert part in text


def test_the_matrix_marks_in_words_and_links(fakes: Fakes) -> None:
    page = parsed(fakes.one_of_each())
    cells = [attrs for tag, attrs in page.tags if tag == "td" and "class" in attrs]
    assert Counter(
        cell["class"] for cell in cells if cell["class"] not in {"missing", "unexpected"}
    ) == {"pass": 2, "fail": 1, "unknown": 1, "skip": 1, "absent": 1}
    links = [
        (attrs["title"], attrs["href"])
        for tag, attrs in page.tags
        if tag == "a" and "title" in attrs
    ]
    assert ("broken on 2s-2n-8c-smt2", "#fail-pinning.whole-cores-2s-2n-8c-smt2") in links
    assert ("could not tell on 2s-2n-8c-smt2", "#unknown-restart.keeps-2s-2n-8c-smt2") in links
    assert ("kept on 1s-1n-4c-smt1", "#scenario-pinning.whole-cores") in links


def test_a_repeated_scenario_shows_its_gravest_result(fakes: Fakes) -> None:
    page = parsed(fakes.run(fakes.result(), fakes.result("fail"), fakes.result()))
    assert "broken on 2s-2n-8c-smt2, gravest of 3" in page.all("title")


def test_a_story_has_everything_in_it(fakes: Fakes) -> None:
    result = fakes.result("fail", witness="the model", kubelet_errors=["E0101 allocation failed"])
    document = html.document(fakes.run(result))
    story = document[document.index('<details class="story fail" open>') :]
    story = story[: story.index('<section id="scenarios">')]
    text = Parsed(f"<section>{story}").text
    for part in (
        result.title, "Broken: a container with exclusive CPUs gets whole physical cores",
        "what expected seen missing unexpected exclusive CPUs of web/app 1,9 1-2 9 2",
        "What the kubelet said E0101 allocation failed", "Steps, up to where it showed",
        "apply Guaranteed pod web (app: 2 CPUs)", "Judged by the model", result.evidence,
        "pinning.whole-cores on 2s-2n-8c-smt2: the promise is broken",
    ):  # fmt: skip
        assert part in text
    assert f'<a href="{result.source_url}" rel="noopener noreferrer">{result.source}</a>' in story
    assert f'<pre class="copy">{result.replay}</pre>' in story
    assert re.findall(r"<figcaption>(\w+)</figcaption>", story) == ["expected", "seen"]
    assert story.count("<svg") == 2


def test_pictures_of_hostile_owners_are_drawn_as_text(fakes: Fakes, hostile_text: str) -> None:
    document = html.document(fakes.hostile())
    assert document.count("<svg") == 3
    assert "<script" not in document
    assert "&lt;script&gt;" in document
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e\u2066]", document)
    assert "{{ 7*7 }}" in document
    assert "javascript:" not in document
    assert hostile_text not in document


def test_errors_of_passing_scenarios_are_grouped_by_scenario_and_text(fakes: Fakes) -> None:
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
    document = html.document(run)
    section = document[document.index('<section id="refusals">') :]
    section = section[: section.index("</section>") + len("</section>")]
    text = Parsed(section).text
    assert section.count('class="card"') == 1
    assert "on 9 machines common error on n0, n1 other error (2 times) 2 more on m0 first" in text
    assert section.index("common error") < section.index("<summary>2 more") < section.index("third")
    assert "not as promised" not in section


def test_skips_are_grouped_by_reason(fakes: Fakes) -> None:
    run = fakes.run(
        fakes.result(),
        *(fakes.result("skip", scenario=f"s{n}", reason="needs\nSMT") for n in range(3)),
    )
    assert "3 \N{MULTIPLICATION SIGN} needs SMT s0 on 2s-2n-8c-smt2 s1 on" in parsed(run).text


def test_a_cut_off_run_and_an_empty_one_say_so(fakes: Fakes) -> None:
    run = fakes.run(fakes.result(), footer=None, cut_off="r.jsonl: cut off")
    text = parsed(run).text
    assert "This run was cut off; what arrived before that is shown. r.jsonl: cut off." in text
    assert "1 results, cut off" in text
    assert "Nothing ran." in parsed(fakes.run()).text


def test_a_machine_with_cpu_511_is_drawn(fakes: Fakes) -> None:
    places = {cpu: (0, 0, cpu, 0) for cpu in (0, 511)}
    machine = MachineRecord(name="holes", shape="", digest="", cpus=places)
    failure = fakes.failure(
        expected_holdings=[Holding(owner="a/b", cpus="511")],
        seen_holdings=[Holding(owner="a/b", cpus="0")],
    )
    run = fakes.run(fakes.result("fail", machine=machine, failure=failure))
    figures = html.document(run).split("<figure>")[1:]
    assert len(figures) == 2
    assert all("511" in figure for figure in figures)
    assert "1 NUMA node, 1 socket, 2 physical cores, 1 uncore cache, 2 CPUs" in parsed(run).text


@pytest.mark.parametrize("cpus", [0, 5000])
def test_a_machine_that_cannot_be_drawn_is_told_in_words(cpus: int, fakes: Fakes) -> None:
    places = {cpu: (0, 0, cpu, 0) for cpu in range(cpus)}
    machine = MachineRecord(name="odd", shape="", digest="", cpus=places)
    document = html.document(fakes.run(fakes.result("fail", machine=machine)))
    assert "<svg" not in document
    assert "cannot be drawn" in document


def test_long_messages_are_shown_whole_and_long_evidence_is_cut(fakes: Fakes) -> None:
    result = fakes.result("fail", explanation="x" * 10_000, evidence="y" * 100_000 + "END")
    document = html.document(fakes.run(result))
    assert "x" * 10_000 in document
    assert "36003 characters before this: see result.jsonl" in document
    assert "yyyEND" in document


def test_a_large_matrix_stays_small_and_starts_folded(fakes: Fakes) -> None:
    run = fakes.large()
    document = html.document(run)
    assert len(run.results) == 1200
    assert len(document.encode()) < 8_000_000
    assert '<details class="story fail">' in document
    assert document.count('class="row') == 60


def test_beyond_the_budget_pictures_and_evidence_are_left_out_and_said_to_be(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "EVIDENCE", 100)
    whole = html.document(fakes.run(fakes.result("fail")))
    [expected, seen, _machine] = re.findall(r"<svg.*?</svg>\n", whole, re.S)
    monkeypatch.setattr(pages, "PICTURES", len(expected) + len(seen))
    run = fakes.run(*(fakes.result("fail", scenario=f"s{n}") for n in range(3)))
    document = html.document(run)
    assert document.count("<svg") == 3
    assert document.count("The picture was left out to keep this file small.") == 2
    assert document.count("Left out to keep this file small: see result.jsonl.") == 1


def test_the_same_results_give_the_same_page(fakes: Fakes) -> None:
    run = fakes.large(6, 3)
    shuffled = dataclasses.replace(run, results=run.results[::-1])
    assert html.document(run) == html.document(shuffled)
