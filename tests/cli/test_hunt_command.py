"""``pinproof hunt``, as a user runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

Command = Callable[..., "CompletedProcess[str]"]
_SMALL = ("--release", "1.37", "--machine", "1s-1n-2c-smt2", "--depth", "1")


def test_a_hunt_says_what_it_found_and_keeps_it(pinproof: Command, tmp_path: Path) -> None:
    """Exit status 1; it goes on only where it is told to."""
    done = pinproof("hunt", *_SMALL, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "#112228" in done.stdout
    assert done.stdout.splitlines()[-1] == "hunt"
    assert (tmp_path / "hunt" / "01-booked-as-asked-112228" / "story.md").exists()
    again = pinproof("hunt", *_SMALL, cwd=tmp_path)
    assert again.returncode == 2
    assert "--resume hunt" in again.stderr
    resumed = pinproof("hunt", *_SMALL, "--resume", "hunt", cwd=tmp_path)
    assert resumed.returncode == 1
    other = pinproof("hunt", "--depth", "2", "--resume", "hunt", cwd=tmp_path)
    assert other.returncode == 2
    assert "other options" in other.stderr


def test_a_hunt_of_other_machines_does_not_go_on(pinproof: Command, tmp_path: Path) -> None:
    """As with every other option that says what is searched."""
    small = ("--cpus", "2", "--depth", "1")
    first = pinproof("hunt", *small, "--shapes", "regular", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    resumed = pinproof("hunt", *small, "--shapes", "regular", "--resume", "hunt", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    for other in ((), ("--shapes", "uneven")):
        done = pinproof("hunt", *small, *other, "--resume", "hunt", cwd=tmp_path)
        assert done.returncode == 2
        assert "other options" in done.stderr


def test_a_hunt_without_a_find_is_conformant(pinproof: Command, tmp_path: Path) -> None:
    """Once what is known is ignored."""
    ignored = ("--ignore", "booked-as-asked", "--ignore", "exclusive-to-one")
    done = pinproof("hunt", *_SMALL, *ignored, "--ignore", "as-state-file", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--shard", "3/2"), "--shard 3/2"),
        (("--release", "1.99"), "--release 1.99"),
        (("--ignore", "nothing"), "the promises are"),
        (("--machine", "no-such"), "no-such"),
        (("--shapes", "round"), "--shapes round: it is regular, uneven or all"),
        (("--resume", "nowhere"), "nowhere"),
        (("merge", "nowhere"), "nowhere"),
    ],
)
def test_wrong_usage_is_one_line(
    pinproof: Command, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    """And exit status 2."""
    done = pinproof("hunt", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_shards_are_merged(pinproof: Command, tmp_path: Path) -> None:
    """Into a folder of their own."""
    for number in ("1", "2"):
        pinproof("hunt", *_SMALL, "--shard", f"{number}/2", "--report", number, cwd=tmp_path)
    done = pinproof("hunt", "merge", "1", "2", "--report", "all", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "all" / "hunt.jsonl").exists()
    assert "#112228" in done.stdout


def test_the_job_searches_one_shard_in_each_index(pinproof: Command) -> None:
    """As batch/v1 has it."""
    done = pinproof("hunt", "job", "--shards", "500", "--image", "example.com/pinproof:1")
    job: dict[str, Any] = yaml.safe_load(done.stdout)
    spec = job["spec"]
    assert (spec["completions"], spec["completionMode"]) == (500, "Indexed")
    command = spec["template"]["spec"]["containers"][0]["command"][-1]
    assert "shard=$((JOB_COMPLETION_INDEX + 1));" in command
    assert "--shard $shard/500" in command
