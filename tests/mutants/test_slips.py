"""Slips: their list, the released source that they change, and what a command catches of them."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from conformance.kubelets.golang import Go
from conformance.kubelets.recipe import KUBERNETES
from conformance.subject import SubjectError
from differential.named_faults import slips
from differential.named_faults.faults import Fault, known_faults, known_slips, planted
from differential.named_faults.programs import RELEASE
from differential.named_faults.slips import Ran, Runs, measure
from tests.support import lacking

# -- the list ------------------------------------------------------------------------------------


def test_no_name_and_no_change_is_in_both_lists() -> None:
    every: list[Fault] = [*known_faults(), *known_slips()]
    assert [name for name, count in Counter(one.name for one in every).items() if count > 1] == []
    edits = Counter(
        (edit.file, edit.put) for one in every for edit in one.edit if "$ON" in edit.put
    )
    assert [put for (_, put), count in edits.items() if count > 1] == [
        # Two faults of a shared container without a cpuset differ in a second edit.
        "if !allocatedCPUs.IsEmpty() && !($ON && i.cpuManager.GetExclusiveCPUs(string(pod.UID), "
        "container.Name).IsEmpty()) {"
    ]


def test_each_kind_has_slips(capsys: pytest.CaptureFixture[str]) -> None:
    """The command lists those of one."""
    assert {one.kind for one in known_slips()} == {"meeting", "size", "time", "output", "machine"}
    assert slips.main(["--kind", "time"]) == 0
    listed = capsys.readouterr().out
    assert {one.name for one in known_slips() if one.name in listed} == {
        one.name for one in known_slips() if one.kind == "time"
    }


def test_the_released_source_has_a_place_for_every_fault_and_slip() -> None:
    try:
        cache = Path(Go.find().run(["env", "GOMODCACHE"]).strip())
    except SubjectError as error:
        lacking.skip("go", error)
    module = cache / f"{KUBERNETES}@v{RELEASE}"
    if not module.is_dir():
        lacking.skip("kubelet", f"no source of {RELEASE}")
    every = [*known_faults(), *known_slips()]
    sources = planted(every, lambda path: (module / path).read_text())
    for one in every:
        assert any(f'mutant_.On("{one.name}")' in text for text in sources.values()), one.name


# -- runs ----------------------------------------------------------------------------------------

#: Ends with 1 where a slip is on whose name begins with c, with 3 where it begins with x.
PROGRAM = """\
import os, sys
name = os.environ["PINPROOF_MUTANT"]
open(sys.argv[1], "a").write(f"{name},")
print("one line")
print(f"{sys.argv[2]} said of {name or 'none'}")
sys.exit({"c": 1, "x": 3}.get(name[:1], 0))
"""


def runs(folder: Path, program: str = PROGRAM) -> Runs:
    command = [sys.executable, "-c", program, str(folder / "said"), "{kubelet}"]
    return Runs(folder / "rows.jsonl", command, Path("/the/kubelet"))


def said(folder: Path) -> list[str]:
    return (folder / "said").read_text().split(",")[:-1]


def test_a_command_runs_once_for_each_slip_and_once_with_none(tmp_path: Path) -> None:
    told: list[Ran] = []
    assert measure(["caught", "lives", "x"], runs(tmp_path), 2, told.append)
    assert {row.slip: row.word for row in told} == {
        "": "lives",
        "caught": "caught",
        "lives": "lives",
        "x": "no verdict",
    }
    assert said(tmp_path)[0] == ""
    assert sorted(said(tmp_path)) == ["", "caught", "lives", "x"]
    assert runs(tmp_path).rows()["caught"].tail == "one line\n/the/kubelet said of caught"


def test_what_has_told_nothing_is_run_again_alone(tmp_path: Path) -> None:
    """Rows of another command do not count."""
    ran: list[list[str]] = []
    for slips_, program in (
        (["caught", "x"], PROGRAM),
        (["caught", "lives", "x"], PROGRAM),
        (["caught"], PROGRAM + "# another"),
    ):
        measure(slips_, runs(tmp_path, program), 1, lambda row: None)
        ran.append(said(tmp_path)[sum(len(one) for one in ran) :])
    assert ran == [["", "caught", "x"], ["lives", "x"], ["", "caught"]]


def test_nothing_is_measured_where_the_command_fails_with_none_on(tmp_path: Path) -> None:
    program = PROGRAM + "sys.exit(1)\n"
    broken = program.replace("sys.exit({", "print({")
    assert not measure(["caught"], runs(tmp_path, broken), 1, lambda row: None)
    assert said(tmp_path) == [""]


def test_a_run_in_progress_ends_with_an_interrupt(tmp_path: Path) -> None:
    program = "import os, time\nif os.environ['PINPROOF_MUTANT'] == 'long': time.sleep(600)"

    def interrupt(row: Ran) -> None:
        if row.slip:
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        measure(["short", "long"], runs(tmp_path, program), 2, interrupt)
    assert time.monotonic() - began < 300


# -- the command ---------------------------------------------------------------------------------


def test_the_command_counts_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = [one.name for one in known_slips() if one.kind == "time"][:2]
    program = f"import os, sys; sys.exit(os.environ['PINPROOF_MUTANT'] == '{first}')"
    argv = ["--kubelet", "/k", "--kept", str(tmp_path / "rows"), "--only", first, "--only", second]
    assert slips.main([*argv, "--", sys.executable, "-c", program]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "time: 1 of 2 caught, 1 live, 0 no verdict",
        "all: 1 of 2 caught, 1 live, 0 no verdict",
    ]


def test_exit_status_3_without_a_verdict(tmp_path: Path) -> None:
    name = known_slips()[0].name
    argv = ["--kubelet", "/k", "--kept", str(tmp_path / "rows"), "--only", name, "--"]
    program = f"import os, sys; sys.exit(4 * (os.environ['PINPROOF_MUTANT'] == '{name}'))"
    assert slips.main([*argv, sys.executable, "-c", program]) == 3
    assert slips.main([*argv, "no-such-program"]) == 3


def test_exit_status_4_where_no_slip_has_the_name() -> None:
    assert slips.main(["--only", "nothing-*"]) == 4
