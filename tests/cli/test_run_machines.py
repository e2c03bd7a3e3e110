"""``pinproof run``: which scenarios run on which machines, and what is said of a machine on which
none applied."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import topologies
from tests.cli.conftest import Judges
from tests.cli.running import here

INCIDENT: Final = "machine/cpu-upgrade-incident"
ITS_MACHINE: Final = "1s-1n-4c-smt1"
#: One that every machine with a CPU beside its first core takes.
USUAL: Final = "pool/deletion-returns-cpus"


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    """A machine on which the kubelet would not start: no CPU has a topology."""
    tree = topologies.machine("1s-1n-2c-smt1").tree
    kept = {path: text for path, text in tree.items() if "/topology/" not in path}
    path = tmp_path / "machines" / "dead.tar.xz"
    path.parent.mkdir()
    topologies.pack(topologies.Tree(kept), path)
    return path


@pytest.mark.parametrize("more", [(), ("-n", "2"), ("--level", "core")])
def test_a_machine_on_which_nothing_applied_is_not_green(
    judged: Judges, dead: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    run = judged("--machine", str(dead), *more, folder="out", status=4)
    assert run.header.machines == ["dead"]
    assert {(one.machine.name, one.verdict) for one in run.found} == {("dead", "skip")}
    assert (run.footer.idle, run.footer.exit_status) == (["dead"], 4)
    last = run.done.stdout.strip().splitlines()[-1]
    assert last.startswith("Too few scenarios ran for a verdict: 0 promises kept, ")
    assert last.endswith(" skipped, no scenario applied on dead. Exit status 4.")
    for name in ("report.html", "junit.xml"):
        page = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "no scenario applied on dead" in page


@pytest.mark.parametrize(
    ("subject", "status", "said"),
    [
        ("reference", 4, "1 promise kept, 1 skipped, no scenario applied on dead."),
        ("miniature:forgets-to-give-back", 1, "no scenario applied on dead. Exit status 1."),
    ],
    ids=["its neighbour's passes are not its own", "a broken promise elsewhere stays broken"],
)
def test_one_of_several_machines_is_named(
    judged: Judges, dead: Path, subject: str, status: int, said: str
) -> None:
    chosen = ("--machine", str(dead), "--machine", "1s-1n-4c-smt2", "-k", USUAL)
    run = judged("--subject", subject, *chosen, folder="out", status=status)
    assert said in run.done.stdout
    assert run.footer.idle == ["dead"]


@pytest.mark.parametrize(
    ("chosen", "status"), [((), 0), (("--machine", "1s-1n-4c-smt2", "--machine", "dea*"), 4)]
)
def test_a_machine_of_the_catalogue_is_asked_for_by_its_name(
    dead: Path, monkeypatch: pytest.MonkeyPatch, chosen: tuple[str, ...], status: int
) -> None:
    """Of the whole catalogue, some machines are nothing for a scenario or a release."""
    monkeypatch.setenv("PINPROOF_MACHINES", str(dead.parent))
    which = "deletion-returns-cpus and (1s-1n-4c-smt2 or dead)"
    done = here("run", *chosen, "-k", which, status=status)
    assert ("no scenario applied on dead" in done.stdout) is (status == 4)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["-k", INCIDENT], 0),
        (["--machine", "all", "-k", INCIDENT], 0),
        (["--machine", ITS_MACHINE, "-k", "incident"], 0),
        # Asked for by its id: it runs, and says nothing of the machine that was named.
        (["--machine", "2s-2n-8c-smt2", "-k", INCIDENT], 4),
    ],
)
def test_a_scenario_with_a_machine_of_its_own_runs_there_where_it_is_asked_for(
    judged: Judges, arguments: list[str], status: int
) -> None:
    found = judged(*arguments, status=status).found
    expected = (INCIDENT, ITS_MACHINE, "pass")
    assert [(one.scenario, one.machine.name, one.verdict) for one in found] == [expected]
