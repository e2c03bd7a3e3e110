"""Findings where a forge shows them: GitHub's annotations, GitLab's code quality, SARIF.

Each has one entry for each cause, so that a hundred failures of one cause are one annotation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

from conformance.known import Standing
from conformance.results import Result
from reports.run import Run
from reports.stories import Finding, findings, known_as, story
from reports.text import line, web_link

_COMMANDS: Final = {
    Standing.FAIL: "error",
    Standing.FIXED: "error",
    Standing.UNKNOWN: "warning",
    Standing.KNOWN: "notice",
}
_SEVERITIES: Final = {"error": "major", "warning": "minor", "notice": "info"}
_LEVELS: Final = {"error": "error", "warning": "warning", "notice": "note"}
#: GitHub shows at most ten annotations of a kind from one step, and 4 KB of each.
_MOST: Final = 10
_STORY: Final = 3500
#: Forges want a file for each finding, and the scenarios' own are not in the reader's repository.
_PLACE: Final = "result.jsonl"
_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def github(run: Run) -> str:
    """Workflow commands, one for each of the ten gravest findings of a kind, and the verdict."""
    shown: dict[str, int] = {}
    lines = []
    for finding in findings(run):
        command = _COMMANDS[finding.standing]
        shown[command] = shown.get(command, 0) + 1
        if shown[command] < _MOST or (shown[command] == _MOST and command != "error"):
            text = f"{finding.why}\n\n{story(finding.cause.example, _STORY)}"
            lines.append(_command(command, finding.title, text))
    bad = run.status.value != 0
    lines.append(_command("error" if bad else "notice", "pinproof", run.verdict))
    return "".join(f"{one}\n" for one in lines)


def _command(name: str, title: str, text: str) -> str:
    return f"::{name} title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def gitlab(run: Run) -> str:
    """A code quality report: a JSON list."""
    return _json(
        [
            {
                "description": f"{finding.title}: {finding.why}",
                "check_name": line(finding.cause.example.scenario),
                "fingerprint": _fingerprint(finding),
                "severity": _SEVERITIES[_COMMANDS[finding.standing]],
                "location": {"path": _PLACE, "lines": {"begin": 1}},
            }
            for finding in findings(run)
        ]
    )


def _fingerprint(finding: Finding) -> str:
    """A digest of standing, headline and scenarios. Without CPUs and machines it is the same in
    every run."""
    parts = (finding.standing.value, finding.cause.headline, *sorted(finding.cause.scenarios))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def sarif(run: Run) -> str:
    """SARIF 2.1.0. Known failures are results that were suppressed."""
    found = findings(run)
    rules = {line(one.cause.example.scenario): one.cause.example for one in found}
    return _json(
        {
            "$schema": _SARIF,
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "pinproof",
                            "version": line(run.header.pinproof),
                            "rules": [_rule(name, result) for name, result in rules.items()],
                        }
                    },
                    "results": list(_results(found, list(rules))),
                    "properties": {
                        "subject": line(run.header.subject.name),
                        "verdict": run.verdict,
                    },
                }
            ],
        }
    )


def _rule(name: str, result: Result) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": name, "shortDescription": {"text": line(result.title) or name}}
    if link := web_link(result.source_url):
        rule["helpUri"] = link
    return rule


def _results(found: list[Finding], rules: list[str]) -> Iterator[dict[str, Any]]:
    for finding in found:
        result = finding.cause.example
        name = line(result.scenario)
        entry: dict[str, Any] = {
            "ruleId": name,
            "ruleIndex": rules.index(name),
            "level": _LEVELS[_COMMANDS[finding.standing]],
            "message": {"text": f"{finding.title}: {finding.why}"},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": _PLACE}},
                    "logicalLocations": [
                        {"name": line(one), "kind": "resource"} for one in finding.cause.machines
                    ],
                }
            ],
            "partialFingerprints": {"cause/v1": _fingerprint(finding)},
        }
        if finding.entry is not None and finding.standing is Standing.KNOWN:
            justification = known_as(finding.entry)
            entry["suppressions"] = [{"kind": "external", "justification": justification}]
        yield entry


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=True) + "\n"
