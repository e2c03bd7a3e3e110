"""``python -m differential.next_release``: what is left to do for a release that comes out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from conformance.identifying.identity import Identity
from conformance.kubelets import cached
from conformance.subject import SubjectSetupError
from differential import next_release
from differential.next_release import STEPS, announced, main, steps_of, table, verdicts
from reference.behaviours import Behaviour
from reference.releases import ANNOUNCED, LATEST, Release
from tests.support import lacking

_PAGE: Final = Path(__file__).parents[2] / "docs/how-to/next-release.md"
_NEXT, _LAST = Release(ANNOUNCED), Release(LATEST)
_EVERY: Final = frozenset(Behaviour)


def _words(fits: str, asked: frozenset[Behaviour] = _EVERY) -> list[bool | None]:
    found = Identity(stated=fits, fits=fits, asked=asked)
    return [as_announced for as_announced, _ in verdicts(_LAST, found)]


# -- the page ------------------------------------------------------------------------------------


def test_the_page_lists_what_the_table_announces() -> None:
    """As ``--page`` prints it."""
    assert f"\n{table(_NEXT)}" in _PAGE.read_text()
    assert f"`python -m differential.next_release {_NEXT} --page`" in _PAGE.read_text()


def test_the_page_has_the_steps_of_the_command() -> None:
    found = re.findall(r"^(\d+)\. \*\*(.+?)\*\*", _PAGE.read_text(), re.MULTILINE)
    assert found == [(str(number), one.title) for number, one in enumerate(STEPS, start=1)]


# -- the steps -----------------------------------------------------------------------------------


def test_the_steps_of_a_release_that_is_known_are_done() -> None:
    """But for a driver that is built on this machine alone, and what nothing keeps."""
    lines = [line.split(": ")[:2] for line in steps_of(_LAST)]
    words = [word for _, word in lines]
    assert [words[0], *words[4:]] == ["done"] * 4
    assert words[2:4] == ["not recorded"] * 2


def test_the_steps_of_the_next_release_are_open() -> None:
    lines = list(steps_of(_NEXT))
    assert not any(": done" in line for line in lines)
    assert lines[-1] == f"  7. Record it: open: python -m conformance.record {_NEXT}"


# -- the behaviours ------------------------------------------------------------------------------


def test_a_kubelet_of_the_release_is_as_announced() -> None:
    assert set(_words("1.37")) == {True}


def test_a_kubelet_of_the_release_before_it_is_not() -> None:
    """Each line says what to change."""
    assert set(_words("1.36")) == {False}
    found = Identity(stated="1.36", fits="1.36", asked=_EVERY)
    lines = {line.split()[1].rstrip(":"): line for _, line in verdicts(_LAST, found)}
    assert (
        "lacks      held-cpus-kept-first: in reference/behaviours.py set its `since`"
        in (lines["held-cpus-kept-first"])
    )
    assert lines["state-migrated"].endswith("reference/behaviours.py remove its `until`")


def test_a_kubelet_with_one_fix_has_that_one() -> None:
    words = dict(zip(announced(_LAST), _words("1.36+held-cpus-kept-first"), strict=True))
    assert [one.behaviour for one, good in words.items() if good] == [
        Behaviour.HELD_CPUS_KEPT_FIRST
    ]


def test_what_could_not_be_asked_is_no_verdict() -> None:
    asked = frozenset({Behaviour.RESIZE_LEFT_ALONE})
    assert _words("1.37", asked).count(None) == len(announced(_LAST)) - 1


# -- the command ---------------------------------------------------------------------------------


def test_without_a_kubelet_there_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(release: Release) -> str:
        raise SubjectSetupError(f"kubelet {release} cannot be built")

    monkeypatch.setattr(next_release, "kubelet_of", nothing)
    assert main([str(_NEXT)]) == 3
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        f"python -m differential.next_release: kubelet {_NEXT} cannot be built"
    ]
    assert said.out.startswith(f"Steps of docs/how-to/next-release.md for {_NEXT}:")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["1.99"], f"1.99: the model has 1.8 to 1.{ANNOUNCED} (ANNOUNCED in "),
        (["new"], "not a Kubernetes release"),
        (["1.37.0"], f"1.37.0: name a minor, such as 1.{ANNOUNCED}"),
        (["1.37", "--kubelet", "/bin/true"], "/bin/true is not a kubelet"),
        (["1.37", "--kubelet", "/no/such"], "/no/such: neither a file nor a release"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.parametrize(("minor", "status"), [("1.37", 0), ("1.36", 1)])
def test_real_kubelets_are_asked(
    minor: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """1.37 as 1.37, and 1.36 as 1.37, which it is not."""
    path = next((one.path for one in cached() if one.version.startswith(f"{minor}.")), None)
    if path is None:
        lacking.skip("kubelet", f"one of {minor}")
    assert main(["1.37", "--kubelet", str(path), "-n", "2"]) == status
    said = capsys.readouterr().out
    word = "lacks" if status else "has"
    assert f"  {word:9}  held-cpus-kept-first" in said
    assert f"\n{0 if status else 9} of 11 are as announced, 2 not asked\n" in said
