"""``pinproof hunt``, as a user runs it."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import here

_SMALL = ("--release", "1.37", "--machine", "1s-1n-2c-smt2", "--depth", "1")


def test_a_hunt_says_what_it_found_and_keeps_it(tmp_path: Path) -> None:
    """Exit status 1; it goes on only where it is told to."""
    done = here("hunt", *_SMALL, cwd=tmp_path, status=1)
    assert "#112228" in done.stdout
    assert done.stdout.splitlines()[-1] == "hunt"
    assert (tmp_path / "hunt" / "01-booked-as-asked-112228" / "story.md").exists()
    again = here("hunt", *_SMALL, cwd=tmp_path, status=2)
    assert "--resume hunt" in again.stderr
    here("hunt", *_SMALL, "--resume", "hunt", cwd=tmp_path, status=1)
    other = here("hunt", "--depth", "2", "--resume", "hunt", cwd=tmp_path, status=2)
    assert "other options" in other.stderr


def test_a_hunt_of_other_machines_does_not_go_on(tmp_path: Path) -> None:
    """As with every other option that says what is searched."""
    small = ("--cpus", "2", "--depth", "1")
    here("hunt", *small, "--shapes", "regular", cwd=tmp_path, status=0)
    here("hunt", *small, "--shapes", "regular", "--resume", "hunt", cwd=tmp_path, status=0)
    for other in ((), ("--shapes", "uneven")):
        done = here("hunt", *small, *other, "--resume", "hunt", cwd=tmp_path, status=2)
        assert "other options" in done.stderr


def test_a_hunt_without_a_find_is_conformant(tmp_path: Path) -> None:
    """Once what is known is ignored."""
    ignored = ("--ignore", "booked-as-asked", "--ignore", "exclusive-to-one")
    here("hunt", *_SMALL, *ignored, "--ignore", "as-state-file", cwd=tmp_path, status=0)


def test_shards_are_merged(tmp_path: Path) -> None:
    for number in ("1", "2"):
        here("hunt", *_SMALL, "--shard", f"{number}/2", "--report", number, cwd=tmp_path)
    done = here("hunt", "merge", "1", "2", "--report", "all", cwd=tmp_path, status=0)
    assert (tmp_path / "all" / "hunt.jsonl").exists()
    assert "#112228" in done.stdout
