"""Planting faults in Go source: a small program is planted in, built, and run with each on."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance.kubelets.golang import Go, environment
from differential.mutants import planting
from tests.support import lacking

#: What the package of the switches imports.
SWITCH_IMPORTS = ("cmp", "errors", "os", "strconv", "strings", "sync/atomic")
SOURCE = """\
package main

import (
	"errors"
	"fmt"
)

type sum int

func between(low, value, high int) bool {
	if low < value && value <= high {
		return true
	}
	return false
}

func checked(value int) (int, error) {
	if value > 3 {
		return 0, errors.New("too large")
	}
	return value, nil
}

func named() sum {
	return 7
}

func minus(left, right int) int { return left - right }

func total(values []int) int {
	count := 0
	for i := 0; i < len(values); i++ {
		if values[i] == 9 {
			continue
		}
		count += values[i]
	}
	return count
}

func main() {
	_, err := checked(2)
	_, bad := checked(4)
	seven := int(named())
	three := minus(5, 2) * seven / 7
	fmt.Println(between(1, 3, 3), between(1, 1, 3), err, bad, three, total([]int{1, 9, 2}))
}
"""
UNCHANGED = "true false <nil> too large 3 3"


@dataclass(frozen=True)
class Small:
    """The small program, planted in and built."""

    mutants: tuple[planting.Mutant, ...]
    sources: dict[str, str]
    program: Path

    def says(self, *on: planting.Mutant, notes: Path | None = None) -> str:
        """What it prints with these mutants on."""
        variables = {"PINPROOF_MUTANT": ",".join(str(one.number) for one in on)} if on else {}
        if notes is not None:
            variables["PINPROOF_REACHED"] = str(notes)
        ran = subprocess.run(
            [self.program], env={**os.environ, **variables}, capture_output=True, text=True,
            check=False, timeout=20,
        )  # fmt: skip
        return ran.stdout.strip() or ran.stderr.splitlines()[0]

    def one(self, function: str, kind: str, before: str) -> planting.Mutant:
        """The one mutant of this function, kind and text."""
        (found,) = (
            one
            for one in self.mutants
            if (one.function, one.kind, one.before) == (function, kind, before)
        )
        return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    if shutil.which("go") is None:
        lacking.skip("go")
    folder = tmp_path_factory.mktemp("small")
    (folder / "go.mod").write_text("module small.invalid/small\n\ngo 1.22\n")
    (folder / "main.go").write_text(SOURCE)
    go = Go.find()
    asked = {
        "packages": [
            {
                "path": "small.invalid/small",
                "files": [str(folder / "main.go")],
                "plant": {str(folder / "main.go"): "main.go"},
                "functions": "^(between|checked|named|minus|total|main)$",
            }
        ],
        "exports": planting.exports(go, ["fmt", *SWITCH_IMPORTS], folder),
        "switch": "small.invalid/small/switches",
    }
    answer = planting.run_plant(go, asked)
    (folder / "switches").mkdir()
    for path, text in answer["sources"].items():
        (Path(path) if path else folder / "switches/mutant.go").write_text(text)
    subprocess.run(
        [go.program, "build", "-o", "small", "."], cwd=folder, env=environment(), check=True
    )
    return Small(planting.mutants_of(answer), answer["sources"], folder / "small")


def test_with_no_mutant_on_the_program_behaves_as_written(small: Small) -> None:
    assert small.says() == UNCHANGED


@pytest.mark.parametrize(
    ("function", "kind", "before", "says"),
    [
        ("between", "and-or", "low < value && value <= high", "true true <nil> too large 3 3"),
        ("between", "negated", "low < value", "false true <nil> too large 3 3"),
        ("between", "bound", "low < value", "true true <nil> too large 3 3"),
        ("between", "bound", "value <= high", "false false <nil> too large 3 3"),
        ("between", "one-more", "low < value", "true true <nil> too large 3 3"),
        ("between", "result-flipped", "return true", "false false <nil> too large 3 3"),
        ("checked", "body-left-out", "if value > 3", "true false <nil> <nil> 3 3"),
        ("checked", "result-nil", 'return errors.New("too large")', "true false <nil> <nil> 3 3"),
        ("checked", "result-error", "return nil", "true false planted fault too large 3 3"),
        ("checked", "negated", "value > 3", "true false too large <nil> 3 3"),
        ("minus", "arithmetic", "left - right", "true false <nil> too large 7 3"),
        ("total", "left-out", "continue", "true false <nil> too large 3 12"),
        ("total", "left-out", "count += values[i]", "true false <nil> too large 3 0"),
        ("total", "result-plus-one", "return count", "true false <nil> too large 3 4"),
    ],
)
def test_each_kind_of_fault_changes_what_it_says(
    small: Small, function: str, kind: str, before: str, says: str
) -> None:
    assert small.says(small.one(function, kind, before)) == says


def test_arguments_of_one_type_are_exchanged(small: Small) -> None:
    swapped = [one for one in small.mutants if one.kind == "swapped" and one.before == "5, 2"]
    assert [small.says(one) for one in swapped] == ["true false <nil> too large -3 3"]


def test_a_fault_that_crashes_crashes_the_program(small: Small) -> None:
    beyond = small.one("total", "bound", "i < len(values)")
    assert "index out of range" in small.says(beyond)


def test_several_mutants_can_be_on_at_once(small: Small) -> None:
    both = [
        small.one("minus", "arithmetic", "left - right"),
        small.one("total", "left-out", "continue"),
    ]
    assert small.says(*both) == "true false <nil> too large 7 12"


def test_it_notes_which_places_were_reached(small: Small, tmp_path: Path) -> None:
    notes = tmp_path / "reached"
    assert small.says(notes=notes) == UNCHANGED
    reached = {int(line) for line in notes.read_text().split()}
    assert small.one("minus", "arithmetic", "left - right").number in reached
    assert reached <= {one.number for one in small.mutants}


def test_lines_stay_where_they_were(small: Small) -> None:
    (text,) = (text for path, text in small.sources.items() if path)
    assert small.mutants
    for one in small.mutants:
        assert one.source == SOURCE.splitlines()[one.line - 1].strip()
    # One line is added at the end.
    assert len(text.splitlines()) == len(SOURCE.splitlines()) + 2


def test_what_does_not_compile_is_left_out(small: Small) -> None:
    """``return 7`` of a type of its own, plus one, would be an ``int``."""
    assert not [one for one in small.mutants if one.function == "named"]
    assert "named" in SOURCE


def test_ids_are_stable_and_unique(small: Small) -> None:
    ids = [one.id for one in small.mutants]
    assert len(ids) == len(set(ids))
    assert "main.go:minus:28:arithmetic" in ids
