"""What nobody may find in a report, whatever a stream holds."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reports import text
from reports.text import wrapped

ANY_TEXT = st.text(st.characters(), max_size=60) | st.text(
    "\x1b[]\\0;m\x07\x9bP^_X a\r\n", max_size=20
)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("plain, été, 日本\n\ttab", "plain, été, 日本\n\ttab"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b2Jgone", "gone"),
        ("\x1b]0;title\x07x\x1b]8;;http://a\x1b\\y", "xy"),
        ("\x1b]0;never ended", "0;never ended"),
        ("\x1bP1$r\x1b\\z\x1bc", "z"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("nul\x00 bell\x07 del\x7f c1\x85", "nul bell del c1"),
        ("\u202egnp.\u202c\u2066x\u2069\u200f", "gnp.x"),
        ("\ud800\udfff\ufffe\uffff", ""),
    ],
)
def test_clean_takes_out_what_acts_and_leaves_what_reads(raw: str, clean: str) -> None:
    assert text.clean(raw) == clean


@given(ANY_TEXT)
@example("\x1b\x1b[31m[31m")
def test_clean_text_is_xml_and_commands_no_terminal(raw: str) -> None:
    clean = text.clean(raw)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", clean)
    assert text.clean(clean) == clean
    element = ET.Element("x")
    element.text = clean
    assert (ET.fromstring(ET.tostring(element, "utf-8")).text or "") == clean


@given(ANY_TEXT)
def test_a_line_is_one_line(raw: str) -> None:
    line = text.line(raw)
    assert len(line.splitlines()) <= 1
    assert line == line.strip()


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://kubernetes.io/docs/#x", "https://kubernetes.io/docs/#x"),
        ("HTTP://example.org", "HTTP://example.org"),
        (" https://a.b ", "https://a.b"),
        ("javascript:alert(1)", ""),
        ("java\nscript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("//evil.example", ""),
        ("https://a b", ""),
        ("https://a\x00b", ""),
        ("https://", ""),
        ("", ""),
    ],
)
def test_only_web_links_are_links(url: str, link: str) -> None:
    assert text.web_link(url) == link


@pytest.mark.parametrize(
    ("cpus", "named"),
    [
        ("0-3,8", {0, 1, 2, 3, 8}),
        (" 1 , 2 ", {1, 2}),
        ("", set()),
        ("none", set()),
        ("5-2,511", {511}),
        ("0-999999999", {0, 1, 2, 3, 8, 511}),
        ("-1,x,3", {3}),
        ("0-99999999999999999999", set()),
    ],
)
def test_a_cpu_list_names_cpus_of_the_machine(cpus: str, named: set[int]) -> None:
    assert text.cpus(cpus, [0, 1, 2, 3, 8, 511]) == named


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("2026-03-01T12:00:00+02:00", "2026-03-01 10:00:00 UTC"),
        ("2026-03-01T12:00:00Z", "2026-03-01 12:00:00 UTC"),
        ("2026-03-01T12:00:00", "2026-03-01 12:00:00 UTC"),
        ("yester\nday", "yester day"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_times_are_shown_in_utc(time: str, shown: str) -> None:
    assert text.when(time) == shown


def test_a_cut_text_says_what_is_left_out() -> None:
    assert text.head("abcdef", 6) == text.tail("abcdef", 6) == "abcdef"
    assert text.head("abcdef", 2).startswith("ab\n[… 4 more characters")
    assert text.tail("abcdef", 2).endswith("\nef")
    assert "4 characters before this" in text.tail("abcdef", 2)


@given(st.text("ab, .-0123456789", max_size=200), st.integers(10, 80))
def test_wrapping_keeps_the_words_and_the_width(raw: str, width: int) -> None:
    lines = wrapped(raw, width).split("\n")
    assert max(map(len, lines)) <= width
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", raw)


def test_a_wrapped_cpu_list_is_broken_after_a_comma_under_its_label() -> None:
    cpus = ",".join(map(str, range(0, 60, 2)))
    lines = wrapped(f"      expected    {cpus}", 40).split("\n")
    assert len(lines) > 2
    assert all(line.startswith(" " * 18) and line[18].isdigit() for line in lines[1:])
    assert all(line.endswith(",") for line in lines[:-1])
