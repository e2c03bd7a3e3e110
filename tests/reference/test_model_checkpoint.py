"""The state file: to the byte, with every text of a refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import Checkpoint, CheckpointError, CPUSet, NotModelled, parse_leniently
from reference.golang.json_text import JSONError, parse, quote

GOOD = '{"policyName":"static","defaultCpuSet":"0-3","checksum":611748604}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD + "\n",
        GOOD.replace(',"checksum":611748604', ""),
        GOOD.replace("policyName", "POLICYNAME").replace("checksum", "\u212ahec\u212asum"[1:]),
        GOOD.replace("{", '{"extra":[1,{"a":null}],'),
        GOOD.replace("{", '{"policyName":"other",'),
        GOOD.replace("}", ',"policyName":null}'),
    ],
)
def test_what_a_kubelet_lets_pass(text: str) -> None:
    assert Checkpoint.loads(text) == Checkpoint("static", CPUSet.parse("0-3"))


def test_a_map_that_comes_twice_is_added_to() -> None:
    text = (
        '{"policyName":"static","entries":{"a":{"c":"1","d":"2"},"b":{"c":"3"}},'
        '"Entries":{"a":{"c":"4"}}}'
    )
    entries = {"a": {"c": CPUSet([4])}, "b": {"c": CPUSet([3])}}
    assert Checkpoint.loads(text) == Checkpoint("static", CPUSet(), entries)


def test_of_several_faults_any_may_be_named() -> None:
    with pytest.raises(CheckpointError) as caught:
        Checkpoint.loads('{"policyName":"static","entries":{"x":"1","w":"2"}}')
    assert [text.split("'")[1] for text in caught.value.possible] == ["w", "x"]


def test_a_set_that_no_machine_has_is_not_modelled() -> None:
    with pytest.raises(NotModelled):
        Checkpoint.loads('{"policyName":"static","defaultCpuSet":"0-99999999"}')


# Each text was given to Go's own encoding/json by those who recorded the golden files, or is
# a state of its scanner (scanner.go).
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{'a':1}", r"invalid character '\'' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("tru ", "invalid character ' ' in literal true (expecting 'e')"),
        ("01", "invalid character '1' after top-level value"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ('"\n"', r"invalid character '\n' in string literal"),
        (r'"\q"', "invalid character 'q' in string escape code"),
        (r'"\u12g4"', r"invalid character 'g' in \u hexadecimal character escape"),
        ("\u00e4", "invalid character '\u00c3' looking for beginning of value"),
        ('"abc', "unexpected end of JSON input"),
        # The scanner takes the end for a blank.
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("-", "invalid character ' ' in numeric literal"),
        ("1e+", "invalid character ' ' in exponent of numeric literal"),
        ("fals", "invalid character ' ' in literal false (expecting 'e')"),
        ('"\\', "invalid character ' ' in string escape code"),
        (r'"\u12', r"invalid character ' ' in \u hexadecimal character escape"),
        ("", "unexpected end of JSON input"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
    ],
)
def test_syntax_errors_are_gos(text: str, error: str) -> None:
    with pytest.raises(JSONError) as caught:
        parse(text)
    assert str(caught.value) == error


# What encoding/json of Go 1.27.3 said to each.
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' in numeric literal"),
        ("1.", "unexpected end of JSON input"),
        ("fals", "unexpected end of JSON input"),
        ("tru ", "invalid character ' ' in literal true (expecting 'e')"),
        ('"\n"', r"invalid character '\n' in string"),
        (r'"\q"', r"invalid escape sequence `\q` in string"),
        (r'"\`"', r'invalid escape sequence "\\`" in string'),
        (r'"\u12g4"', r"invalid escape sequence `\u12g4` in string"),
        (r'"\u1"', r'invalid escape sequence `\u1"` in string'),
        ('"\\\u00e4"', r'invalid escape sequence "\\\xc3" in string'),
        (r'"\u12', "unexpected end of JSON input"),
        ("\u00e4", "invalid character '\u00e4' looking for beginning of value"),
        ("\udcff", r"invalid character '\xff' looking for beginning of value"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
    ],
)
def test_newer_go_has_words_of_its_own(text: str, error: str) -> None:
    with pytest.raises(JSONError) as caught:
        parse(text)
    assert caught.value.possible[-1] == error


_OLDER = "CPUManagerCheckpoint.CPUManagerCheckpointV2"
_NEWER = "CPUManagerCheckpoint"


@pytest.mark.parametrize(
    ("content", "older", "newer"),
    [
        ({"entries": {"a": {"c/d~": 1}}, "data": "x"}, f"{_OLDER}.entries",
         f"{_NEWER}.entries.a.c~1d~0"),
        ({"PolicyName": [], "data": "x"}, f"{_OLDER}.policyName", f"{_NEWER}.PolicyName"),
        ({"data": json.dumps({"baselines": {"a": {"b": {"baseline": 1}}}})},
         "ContainerCPUs.baselines.baseline", "CPUManagerCheckpointData.baselines.a.b.baseline"),
        ({"data": json.dumps({"podEntries": {"a": {"cpuSet": 1}}})},
         "CPUManagerCheckpointData.podEntries.cpuSet", "podEntryJSON.cpuSet"),
    ],
)  # fmt: skip
def test_newer_go_says_the_place_in_the_keys_of_the_file(
    content: dict[str, Any], older: str, newer: str
) -> None:
    """Seen of drivers of 1.37, built with Go 1.26 and 1.27.3."""
    with pytest.raises(CheckpointError) as caught:
        Checkpoint.loads(json.dumps(content), release="1.37")
    places = [one.partition("Go struct field ")[2] for one in caught.value.possible]
    assert places == [f"{older} of type string", f"{newer} of type string"]


def test_too_deep_a_text_is_no_crash() -> None:
    with pytest.raises(NotModelled):
        parse("[" * 100_000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_every_json_text_is_taken(value: Any) -> None:
    parse(json.dumps(value))


@given(st.text())
def test_a_string_is_written_as_json(text: str) -> None:
    assert json.loads(quote(text)) == text
    assert not set(quote(text)) & set("<>&\u2028\u2029")


def test_what_is_no_character_becomes_the_replacement_character() -> None:
    assert quote("a\udc80") == r'"a\ufffd"'
    assert parse('"a\udc80\\ud800"') == "a\ufffd\ufffd"


@pytest.mark.parametrize("text", [None, "", "{", "[]", "5", '{"defaultCpuSet":"x"}', "[" * 9999,
                                  '{"defaultCpuSet":"0","entries":{"a":1}}'])  # fmt: skip
def test_lenient_parsing_of_nonsense_shows_nothing(text: str | None) -> None:
    assert parse_leniently(text) == (CPUSet(), {})
