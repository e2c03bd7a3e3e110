"""Processes of the lab outlive who starts them, and are never lost. Programs that it runs say
how far they are, and end with us."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.lab import debian, process, tools
from hil.lab.errors import LabError, LabToolMissing
from tests.support.until import has_ended

SLEEP = ["/bin/sleep", "600"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "node1"
    place.mkdir()
    yield place
    if place.is_dir():
        process.end(place)


def _pid(folder: Path) -> int:
    """Its number; the process writes it when it gets to that."""
    while (found := process.pid(folder)) is None:
        assert process.alive(folder), process.complaint(folder)
    return found


def test_a_process_runs_in_its_folder_until_it_is_ended(folder: Path) -> None:
    process.start(folder, SLEEP)
    assert process.alive(folder)
    assert not process.gone(folder, deadline=0)
    number = _pid(folder)
    assert Path(f"/proc/{number}/cwd").readlink() == folder
    for _ in range(2):  # ending what does not run is no error
        process.end(folder)
        assert not process.alive(folder)
        assert process.pid(folder) is None


def test_a_folder_has_one_process(folder: Path) -> None:
    process.start(folder, SLEEP)
    number = _pid(folder)
    with pytest.raises(LabError, match="runs already"):
        process.start(folder, SLEEP)
    assert _pid(folder) == number


def test_a_number_that_belongs_to_somebody_else_is_left_alone(folder: Path) -> None:
    """The kernel gives numbers again; a file may be older than a reboot."""
    with subprocess.Popen(SLEEP) as other:
        (folder / process.PID).write_text(str(other.pid))
        assert process.pid(folder) is None
        process.end(folder)
        assert other.poll() is None
        other.kill()


def test_a_number_is_not_believed_while_another_process_holds_the_lock(folder: Path) -> None:
    """Nobody is killed whose folder is another."""
    process.start(folder, SLEEP)
    ours = _pid(folder)
    with subprocess.Popen(SLEEP) as other:
        (folder / process.PID).write_text(str(other.pid))
        assert process.alive(folder)
        assert process.pid(folder) is None
        other.kill()
    (folder / process.PID).write_text(str(ours))


def test_it_outlives_who_started_it_and_is_found_again(folder: Path) -> None:
    """By a starter that is killed at once."""
    script = (
        "import os, signal, sys; from pathlib import Path; from hil.lab import process; "
        "process.start(Path(sys.argv[1]), ['/bin/sleep', '600']); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    number = _pid(folder)
    process.end(folder)
    assert has_ended(number)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["/bin/sh", "-c", "echo it broke >&2; echo a warning: none >&2"], "it broke"),
        (["/bin/echo", "$(touch gone)", "a b"], "$(touch gone) a b"),
    ],
    ids=["warnings are not what it died of", "its words pass no shell"],
)
def test_what_it_complained_of_is_kept(folder: Path, words: list[str], complaint: str) -> None:
    process.start(folder, words)
    assert process.gone(folder, deadline=30)
    assert process.complaint(folder) == complaint
    assert not (folder / "gone").exists()


def test_a_program_that_is_not_installed_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(LabToolMissing, match="apt-get install qemu-system-x86"):
        process.start(folder, ["qemu-system-x86_64"])


# ---- programs that end with us ----------------------------------------------------------------


def test_what_a_program_says_is_heard_while_it_runs(tmp_path: Path) -> None:
    """It ends only once its first line was heard."""
    heard: list[str] = []
    mark = tmp_path / "heard"

    def hear(line: str) -> None:
        heard.append(line)
        mark.touch()

    script = f"echo 'I: one...' >&2; until [ -e {mark} ]; do sleep 0.05; done; echo out"
    assert tools.run(["sh", "-c", script], deadline=60, heard=hear) == "out\n"
    assert heard == ["I: one..."]


def test_a_program_that_fails_says_why() -> None:
    script = "for line in 'E: no such package: gone' 'W: later' 'E: sh failed to run'; do"
    script += ' echo "$line" >&2; done; exit 3'
    with pytest.raises(LabError, match=r"^sh failed: E: no such package: gone$") as caught:
        tools.run(["sh", "-c", script], deadline=60)
    assert caught.value.evidence == "E: no such package: gone\nW: later\nE: sh failed to run\n"


def test_a_program_that_hangs_is_ended_with_all_that_it_started() -> None:
    """A child that keeps stderr open would keep us waiting."""
    with pytest.raises(LabError, match=r"^sh took more than 0.2 s$"):
        tools.run(["sh", "-c", "sleep 600 & wait"], deadline=0.2)


def test_stages_of_an_image_are_said() -> None:
    """Hooks hold paths of this host, and warnings are no stages."""
    said: list[str] = []
    for line in (
        "I: installing essential packages...",
        "W: locales were not found",
        "I: running --customize-hook in shell: sh '/root/hook' exec /tmp/x...",
        "I: success in 61.2 seconds",
    ):
        debian.stage(line, said.append)
    assert said == ["building the image: installing essential packages"]
