"""docs/tutorials/scheduler-tutorial.md, typed from its first command to its last."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from conformance.kubelets.control_plane import SCHEDULERS, find
from tests.cli.running import ran
from tests.support import lacking
from tests.support.transcripts import blocks

pytestmark = pytest.mark.needs("kubectl")

PAGE: Final = Path(__file__).parents[2] / "docs/tutorials/scheduler-tutorial.md"


@pytest.fixture
def home(fleet_cache: Path, tmp_path: Path) -> Path:
    """A home folder whose cache has kubelets, and no fleet."""
    lacking.module("kubernetes.config")
    if find(SCHEDULERS) is None:
        lacking.skip("scheduler")
    (tmp_path / ".cache").symlink_to(fleet_cache)
    return tmp_path


@pytest.fixture
def environment(home: Path) -> Mapping[str, str]:
    """Of every command; ``pinproof`` and pytest are those of this environment."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kubeconfig = home / ".cache/pinproof/fleets/tutorial/kubeconfig"
    mine = {"HOME": str(home), "PATH": path, "KUBECONFIG": str(kubeconfig)}
    left = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    return left | mine | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def test_the_tutorial_can_be_typed(home: Path, environment: Mapping[str, str]) -> None:
    """Each command succeeds, and writes what the page says it writes."""
    (up,) = [one.text for one in blocks(PAGE) if one.name == "background"]
    with subprocess.Popen(
        ["bash", "-c", f"exec {up}"], stdout=subprocess.PIPE, env=environment, text=True, cwd=home
    ) as fleet:
        try:
            assert fleet.stdout is not None
            assert fleet.stdout.readline().strip() == environment["KUBECONFIG"]
            assert _typed(home, environment) == (7, 2)
            assert fleet.wait(30) == 0
        finally:
            fleet.kill()


def _typed(home: Path, environment: Mapping[str, str]) -> tuple[int, int]:
    """How many commands ran, and how many outputs were compared."""
    commands = compared = 0
    written = ""
    for block in blocks(PAGE):
        language, name, text = block.language, block.name, block.text
        if language == "text":
            assert text in written
            compared += 1
        elif language != "sh":
            (home / name).write_text(text)
            if language == "python":
                text = f"pytest -q -p no:cacheprovider {name}"
                ran("bash", "-ec", text, cwd=home, env=environment, status=0)
                commands += 1
        elif name != "background":
            written = ran("bash", "-ec", text, cwd=home, env=environment, status=0).stdout
            commands += 1
    return commands, compared
