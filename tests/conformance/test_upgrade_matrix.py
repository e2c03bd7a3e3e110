"""Upgrades between several releases: which there are, and what each comes to in a word."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Final, NoReturn

import pytest
from rich.console import Console

import topologies
from conformance.discovered import info_of
from conformance.subject import Subject, SubjectSetupError
from conformance.subjects.reference import ReferenceSubject
from conformance.upgrade_matrix import MACHINE, SETTINGS, Cell, Setting, cells, pairs
from conformance.upgrading import Leg
from pinproof.upgrade_matrix import read, show
from reference import Node
from reference.steps import KubeletConfig, Reboot, RemoveState, Start, Step, WriteState
from tests.conformance.doctored import TakingOver

PLAIN, WHOLE, POD_LEVEL = SETTINGS
_MACHINE = topologies.machine(MACHINE)


def _model(release: str) -> ReferenceSubject:
    return ReferenceSubject(f"the model of {release}", release=release)


def _words(found: Cell) -> list[str]:
    return [found.words[str(leg)] for leg in Leg]


def _cell(old: Subject, new: Subject, setting: Setting = PLAIN) -> Cell:
    """What an upgrade comes to, beside plain restarts of both."""
    both = ((old, old), (new, new), (old, new))
    wanted = [(one.info.release, two.info.release, setting) for one, two in both]
    taken = iter(both)
    return list(cells(wanted, lambda *_: next(taken), _MACHINE, at_a_time=1))[-1]


class Down(ReferenceSubject):
    """Has no node."""

    def node(self, *_: object, **__: object) -> NoReturn:
        raise SubjectSetupError("no kubelet starts here")


@pytest.mark.parametrize(
    ("steps", "word"),
    [
        ([], "keeps"),
        ([RemoveState()], "moves"),
        ([Reboot()], "restarts"),
        ([WriteState("{")], "refuses"),
    ],
)
def test_the_worst_that_a_leg_does_is_its_word(steps: Sequence[Step], word: str) -> None:
    found = _cell(_model("1.36"), TakingOver("1.37", *steps))
    assert _words(found)[0] == word
    assert bool(found.reasons.get(str(Leg.THERE))) is (word != "keeps")


def test_pods_that_a_restart_stops_are_told_of_each_leg() -> None:
    """kubernetes/kubernetes#129078, which 1.37 does not have."""
    assert _words(_cell(_model("1.36"), _model("1.37"), WHOLE)) == ["keeps", "stops", "keeps"]
    assert _words(_cell(_model("1.36"), _model("1.36"), WHOLE))[0] == "stops"


def test_what_a_kubelet_breaks_by_itself_is_no_fault_of_an_upgrade() -> None:
    """Up to 1.32 pinned containers have a quota; those that such a kubelet has started keep it,
    which is one on the way back to a release without, unless that sets it once more."""
    assert _words(_cell(_model("1.36"), _model("1.32"))) == ["keeps"] * 3
    assert _words(_cell(_model("1.31"), _model("1.32"))) == ["keeps"] * 3
    found = _cell(_model("1.37"), _model("1.32"))
    assert _words(found) == ["keeps", "breaks", "keeps"]
    assert found.reasons == {
        str(Leg.BACK): (
            "A container with exclusive CPUs has no CFS quota: CFS quota of later/c: "
            "200000 of 100000 us",
        )
    }


def test_a_pair_that_cannot_be_rehearsed_has_no_verdict() -> None:
    found = _cell(Down("down", release="1.36"), _model("1.37"))
    assert _words(found) == ["no verdict"] * 3
    assert found.reasons[str(Leg.BACK)] == ("no kubelet starts here",)


class Waiting(ReferenceSubject):
    """Waits until it is interrupted."""

    at_a_time = 4

    def __init__(self) -> None:
        super().__init__("waits", release="1.37")
        self.begun, self.interrupted = Event(), Event()

    def node(self, *_: object, **__: object) -> NoReturn:
        self.begun.set()
        assert self.interrupted.wait(60)
        raise SubjectSetupError("interrupted")

    def interrupt(self) -> None:
        self.interrupted.set()


def test_rehearsals_under_way_end_when_nobody_waits_for_them() -> None:
    """As after Ctrl-C."""
    slow, model = Waiting(), _model("1.36")
    of = {"1.36": model, "1.37": slow}
    found = cells(pairs(["1.36", "1.37"]), lambda *both: (of[both[0]], of[both[1]]), _MACHINE)
    next(found)
    assert slow.begun.wait(60)
    found.close()  # type: ignore[attr-defined]
    assert slow.interrupted.is_set()


def test_containers_start_again_where_they_are_known_by_another_hash() -> None:
    """kubernetes/kubernetes#129385; seen between 1.26.15 and 1.32.2. A kubelet that does not start
    ends none."""
    for old, new in (("1.30", "1.31"), ("1.37", "1.26")):
        assert _words(_cell(_model(old), _model(new))) == ["restarts"] * 3
    assert _words(_cell(_model("1.17"), _model("1.37"))) == ["refuses", "keeps", "refuses"]


def test_each_ordered_pair_is_rehearsed_with_what_both_have() -> None:
    found = [(old, new, each.name) for old, new, each in pairs(["1.22", "1.26", "1.36", "1.37"])]
    assert len(found) == 16 + 9 + 4
    assert ("1.22", "1.22", "plain") in found
    assert ("1.26", "1.37", "full-pcpus-only") in found
    assert {one[:2] for one in found if one[2] == "pod-level managers"} == {
        ("1.36", "1.36"), ("1.36", "1.37"), ("1.37", "1.36"), ("1.37", "1.37"),
    }  # fmt: skip


def test_what_is_known_is_not_rehearsed_again() -> None:
    first = list(cells(pairs(["1.36"]), lambda *_: (_model("1.36"),) * 2, _MACHINE))

    down = Down("the model of 1.36", release="1.36")
    assert list(cells(pairs(["1.36"]), lambda *_: (down, down), _MACHINE, known=first)) == first


# -- what was recorded of unmodified kubelets ------------------------------------------------------

_PAGES: Final = Path(__file__).parents[2] / "docs"
#: Under full-pcpus-only it depends on the order in which pods are admitted again whom a full node
#: refuses. Each of them has its own word for one leg or another, by that order.
_BY_ORDER: Final = "full-pcpus-only"


def _recorded() -> list[Cell]:
    return read(_PAGES / "tables" / "upgrade-matrix.jsonl")


class _OrderedNode(Node):
    """It admits pods in another order at a start, where the order matters."""

    number = 0

    def do(self, step: Step) -> None:
        super().do(step)
        if isinstance(step, Start) and self._branches:
            self._take(self._branches[self.number % len(self._branches)])


def _in_order(release: str, number: int) -> Subject:
    def make(
        trees: Callable[[str], Mapping[str, str]], name: str, config: KubeletConfig, release: str
    ) -> Node:
        made = _OrderedNode(trees, name, config, release=release, discovering=info_of)
        made.number = number
        return made

    return ReferenceSubject(f"the model of {release}", release=release, make=make)


def _words_by_order(old: str, new: str) -> Iterator[list[str]]:
    """What an upgrade comes to by each of some orders."""
    for one, two in itertools.product(range(6), repeat=2):
        yield _words(_cell(_in_order(old, one), _in_order(new, two), WHOLE))


def test_the_models_could_follow_every_kubelet_of_the_recorded_matrix() -> None:
    """After each step the node was as the model of the kubelet on it has it."""
    recorded = _recorded()
    assert {one.kind for one in recorded} == {"kubelets"}
    assert len({one.old for one in recorded}) >= 7
    assert {one.key[:3]: one.silent for one in recorded if one.silent} == {}


def test_the_models_do_what_the_kubelets_of_the_recorded_matrix_did() -> None:
    recorded = {one.key[:3]: one for one in _recorded()}
    releases = list(dict.fromkeys(one.old for one in recorded.values()))
    models = {one: _model(one) for one in releases}
    found = cells(pairs(releases), lambda old, new: (models[old], models[new]), _MACHINE)
    unlike = [one.key[:3] for one in found if one.words != recorded[one.key[:3]].words]
    for old, new, setting in unlike:
        assert setting == _BY_ORDER
        assert _words(recorded[old, new, setting]) in _words_by_order(old, new)
    assert len(unlike) <= 4, "that were chance in nearly every cell"
    assert len(recorded) == len(pairs(releases))


def test_the_page_shows_the_recorded_matrix() -> None:
    console = Console(width=100, record=True, file=StringIO(), highlight=False)
    show(_recorded(), _MACHINE, console)
    tables = console.export_text().partition("\nthe upgrade, the way back")[0]
    page = (_PAGES / "how-to/upgrading.md").read_text(encoding="utf-8")
    shown = "\n".join(line.rstrip() for line in tables.splitlines())
    assert shown in page, shown
