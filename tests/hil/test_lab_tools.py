"""Programs that the lab runs: they say how far they are, and end with us."""

from __future__ import annotations

from pathlib import Path

import pytest

from hil.lab import debian, tools
from hil.lab.errors import LabError


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
