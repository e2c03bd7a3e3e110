"""The run as JUnit XML, in the dialect that Jenkins, GitLab, GitHub's actions, Prow, TestGrid and
sonobuoy read alike.

``testsuites`` holds one ``testsuite`` a machine; a ``testcase`` has at most one of ``failure``
(broken promise), ``error`` (could not tell) and ``skipped``. Every attribute is one that Jenkins'
``junit-10.xsd`` knows. Consumers judge by test cases alone, so a run that is not conformant for a
reason no test case shows (cut off, too few, a node not restored) gets one more, in error.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from junit_xml import TestCase, TestSuite

from conformance.results import Difference, Result
from conformance.verdict import ExitStatus, Verdict
from reports.files import write_atomically
from reports.run import Run, verdict_of
from reports.text import clean, head, line, tail, utc

# TestGrid cuts a text at 10,000 characters and GitLab refuses files of 30 MB: the whole of it is
# in result.jsonl and report.html.
_MESSAGE: Final = 500
_TEXT: Final = 32_000
_EVIDENCE: Final = 16_000
_TOTALS: Final = ("tests", "failures", "errors")


def write(run: Run, path: Path) -> None:
    """Write the run to ``path``, atomically. Raises :class:`OSError`."""
    write_atomically(path, document(run))


def document(run: Run) -> str:
    """The run as the text of an XML document."""
    root = ET.Element("testsuites", name="pinproof")
    root.extend(_suites(run))
    for total in _TOTALS:
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    root.set("time", _seconds(run.footer.seconds if run.footer else _spent(run.results)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suites(run: Run) -> Iterator[ET.Element]:
    subject = line(run.header.subject.name)
    by_machine: dict[str, list[Result]] = {machine: [] for machine in run.machines}
    for result in run.ordered:
        by_machine[result.machine.name].append(result)
    for machine, results in by_machine.items():
        if results:
            yield _element(
                TestSuite(
                    f"{subject} on {line(machine)}",
                    list(_cases(results)),
                    timestamp=_timestamp(run.header.started),
                    properties=_properties(run, results[0]),
                ),
                results,
            )
    if trouble := _trouble(run):
        case = TestCase("the run is whole and can be judged", "conformance.run")
        case.add_error_info(head(trouble, _MESSAGE), trouble, "unknown")
        properties = _properties(run, None)
        yield _element(TestSuite(f"{subject}: the run", [case], properties=properties), [])


def _element(suite: TestSuite, results: list[Result]) -> ET.Element:
    element: ET.Element = suite.build_xml_doc()
    # junit-xml writes a count and a type that readers' schemas do not know, and float times that
    # may come out as "1e-05"; a time of zero it leaves out, which others require.
    element.attrib.pop("disabled", None)
    for skipped in element.iter("skipped"):
        skipped.attrib.pop("type", None)
    element.set("time", _seconds(_spent(results)))
    for case, seconds in zip(
        element.iter("testcase"), [r.seconds for r in results] or [0.0], strict=True
    ):
        case.set("time", _seconds(seconds))
    return element


def _cases(results: Iterable[Result]) -> Iterator[TestCase]:
    met: Counter[str] = Counter()
    for result in results:
        name = f"{line(result.scenario)} [{line(result.machine.name)}]"
        met[name] += 1  # readers drop or merge cases of equal name
        case = TestCase(
            name if met[name] == 1 else f"{name} ({met[name]})",
            f"conformance.{line(result.area)}",
        )
        _judge(case, result)
        if result.kubelet_errors:
            case.stdout = "\n".join(map(clean, result.kubelet_errors))
        yield case


def _judge(case: TestCase, result: Result) -> None:
    message = head(_message(result), _MESSAGE)
    match verdict_of(result):
        case Verdict.FAIL:
            case.add_failure_info(message, _story(result), "broken promise")
        case Verdict.UNKNOWN:
            case.add_error_info(message, _story(result), "unknown")
        case Verdict.SKIP:
            case.add_skipped_info(message, message)
        case Verdict.PASS:
            return
    if result.evidence and verdict_of(result) is not Verdict.SKIP:
        case.stderr = tail(clean(result.evidence), _EVIDENCE)


def _message(result: Result) -> str:
    """Why, in one line that is never empty (an empty one would read as a pass)."""
    if result.failure:
        differences = "; ".join(map(_difference, result.failure.differences))
        return line(f"{result.failure.rule}: {differences}" if differences else result.failure.rule)
    return line(result.reason) or line(result.explanation) or f"{line(result.verdict)}: no reason"


def _difference(difference: Difference) -> str:
    return f"{difference.what}: expected {difference.expected}, seen {difference.seen}"


def _story(result: Result) -> str:
    story = clean(result.explanation) or "\n".join([_message(result), *map(line, result.steps)])
    replay = clean(result.replay)
    if replay and replay not in story:
        story = f"{story}\n\nReplay: {replay}"
    return head(f"{line(result.title)}\n\n{story}", _TEXT)


def _trouble(run: Run) -> str:
    shown = run.counts[Verdict.FAIL] or run.counts[Verdict.UNKNOWN]
    judged = run.status in (ExitStatus.NOT_CONFORMANT, ExitStatus.COULD_NOT_TELL) and shown
    if run.caution:
        return f"{run.verdict} {run.caution}"
    return "" if run.status is ExitStatus.CONFORMANT or judged else run.verdict


def _properties(run: Run, result: Result | None) -> dict[str, str]:
    header = run.header
    facts = {
        "subject": header.subject.name,
        "release": header.subject.release,
        "version": header.subject.version,
        "digest": header.subject.digest,
        "pinproof": header.pinproof,
        "exit_status": f"{run.status.value} {run.status.name.lower()}",
    }
    if result is not None:
        facts |= {
            "machine": result.machine.name,
            "machine_shape": result.machine.shape,
            "machine_digest": result.machine.digest,
        }
    facts |= {f"subject.{key}": value for key, value in header.subject.facts.items()}
    facts |= {f"environment.{key}": value for key, value in header.environment.items()}
    return {line(key): line(value) for key, value in facts.items() if value}


def _spent(results: Iterable[Result]) -> float:
    return sum(result.seconds for result in results)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}" if 0 <= seconds < 1e9 else "0.000"


def _timestamp(started: str) -> str | None:
    moment = utc(started)
    return moment.isoformat(timespec="seconds") if moment else None
