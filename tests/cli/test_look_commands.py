"""``explain``, ``machines``, ``draw``, ``simulate``: what they print."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from conformance.subject import SubjectUsageError
from pinproof.cli import app
from reference import NotModelled


def invoke(*arguments: str) -> Result:
    """Run a command in this process; an error a user can mend is raised."""
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_explain_says_promise_source_and_steps() -> None:
    """Of one scenario."""
    text = invoke("explain", "machine/cpu-upgrade-incident").stdout
    assert "After a CPU upgrade from CPUs 0-3 to 0-7 the kubelet refuses to start" in text
    assert "https://github.com/kubernetes/kubernetes/pull/66718" in text
    assert "steps on 1s-1n-4c-smt1:" in text
    assert "reboot the machine as 1s-1n-4c-smt2" in text
    assert "remove the state file" in text


def test_explain_lists_every_scenario() -> None:
    """As a table, and as JSON."""
    text = invoke("explain").stdout
    assert "qos/best-effort-shares" in text
    assert "…" not in text
    rows = json.loads(invoke("explain", "--json").stdout)
    assert len(rows) >= 25
    assert all(row["url"].startswith("https://") for row in rows)


def test_explain_as_json_has_the_steps() -> None:
    """For programs."""
    facts = json.loads(invoke("explain", "packing/whole-core", "--json").stdout)
    assert facts["steps"][1] == "start the kubelet"


def test_machines() -> None:
    """With their totals."""
    (_, line) = invoke("machines", "1s-1n-4c-smt2").stdout.splitlines()
    assert line.split(maxsplit=6)[:6] == ["1s-1n-4c-smt2", "8", "4", "1", "1", "described"]
    assert "8 CPUs (0-7), 4 physical" in invoke("machines", "1s-1n-4c-smt2", "--long").stdout
    rows = json.loads(invoke("machines", "--json").stdout)
    assert len(rows) >= 8
    assert all(row["digest"].startswith("sha256:") for row in rows)


def test_draw_as_text_and_as_svg(tmp_path: Path) -> None:
    """The SVG is well-formed, and its path the last line."""
    assert "2s-4n-64c-smt2" in invoke("draw", "2s-4n-64c-smt2").stdout
    path = tmp_path / "machine.svg"
    assert invoke("draw", "2s-4n-64c-smt2", "--svg", str(path)).stdout.strip() == str(path)
    assert ET.parse(path).getroot().tag.endswith("svg")


def test_simulate_shows_what_each_pod_gets() -> None:
    """On the first machine of the incident, with CPU 0 reserved."""
    text = invoke("simulate", "--machine", "1s-1n-4c-smt2", "--pods", "2,1.5,9").stdout
    assert "1,5" in text
    assert "exclusive" in text
    assert "shared pool" in text
    assert "requested=9, available=4" in text


def test_simulate_as_json() -> None:
    """Containers of one pod are joined by a plus."""
    done = invoke("simulate", "--machine", "1s-1n-4c-smt2", "--pods", "1+1", "--json")
    facts = json.loads(done.stdout)
    assert facts["pods"]["pod1"]["exclusive"] == {"c1": "1", "c2": "5"}
    assert facts["shared pool"] == "0,2-4,6-7"
    assert json.loads(facts["state file"])["policyName"] == "static"


@pytest.mark.parametrize("command", ["run", "explain", "machines", "draw", "simulate"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    """The epilog."""
    assert f"Example: pinproof {command}" in " ".join(invoke(command, "--help").stdout.split())


@pytest.mark.parametrize("release", ["nonsense", "1.5", "1.8", "1.99"])
def test_simulate_names_a_release_that_it_cannot_simulate(release: str) -> None:
    """An error that ``main`` turns into one line and status 2."""
    with pytest.raises((SubjectUsageError, NotModelled), match=release):
        invoke("simulate", "--pods", "1", "--release", release)
