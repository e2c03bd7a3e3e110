"""The run as JUnit XML, in the dialect that Jenkins, GitLab, GitHub's actions, Prow, TestGrid and
sonobuoy read alike.

``testsuites`` holds one ``testsuite`` an area, with the ``file`` that has its scenarios (two suites
where two files have them). A ``testcase`` has at most one of ``failure`` (broken promise, or a
known failure that passes), ``error`` (could not tell) and ``skipped`` (does not apply, or a known
failure). Its name and class have no digest, version or time in them, so its history goes on. Every
attribute is one that Jenkins' ``junit-10.xsd`` knows. That schema has no properties of a case:
:func:`with_properties` writes them for importers that take a case by its id. A line
``[[ATTACHMENT|file]]`` is how Jenkins and GitLab find a file of a case. Consumers judge by test
cases alone, so a run that is not conformant for a reason no test case shows (cut off, too few, a
node not restored) gets one more, in error.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from junit_xml import TestCase, TestSuite

from conformance.accounts import account
from conformance.known import Standing
from conformance.results import Result
from conformance.verdict import ExitStatus
from reports.run import Run
from reports.stories import known_as, message, story
from reports.text import clean, head, line, tail, utc

# TestGrid cuts a text at 10,000 characters and GitLab refuses files of 30 MB: the whole of it is
# in result.jsonl and report.html.
_MESSAGE: Final = 500
_TEXT: Final = 32_000
_EVIDENCE: Final = 16_000
_CLASS: Final = "conformance."
_FIXED: Final = "it passes, but is listed as a known failure: remove it from the list"
_TOTALS: Final = ("tests", "failures", "errors")


def with_properties(run: Run) -> str:
    """As :func:`document`, where each case has properties too: ``id``, ``area``, ``level``,
    ``machine`` and ``source``. The id is there once more as ``polarion-testcase-id``, by which the
    importer of Polarion finds the case. All but the source are there once more as ``attribute``,
    the only property that the importer of ReportPortal reads (``XunitImportHandler``)."""
    return document(run, properties=True)


def document(run: Run, *, attached: Path | None = None, properties: bool = False) -> str:
    """The XML document. A case that failed or has no verdict names the file ``attached``."""
    root = ET.Element("testsuites", name="pinproof")
    attachment = f"[[ATTACHMENT|{attached}]]" if attached else ""
    for suite, results in _suites(run, attachment):
        if properties:
            for case, result in zip(suite.iter("testcase"), results, strict=False):
                case.insert(0, _of_case(result))
        root.append(suite)
    for total in _TOTALS:
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    root.set("time", _seconds(run.footer.seconds if run.footer else _spent(run.results)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _of_case(result: Result) -> ET.Element:
    element = ET.Element("properties")
    attributes = {
        "id": result.scenario,
        "area": result.area,
        "level": result.level,
        "machine": result.machine.name,
    }
    facts = [
        *attributes.items(),
        ("source", result.source_url),
        ("polarion-testcase-id", result.scenario),
        *(("attribute", f"{name}:{value}") for name, value in attributes.items() if value),
    ]
    for name, value in facts:
        if value:
            ET.SubElement(element, "property", name=name, value=line(value))
    return element


def _suites(run: Run, attachment: str) -> Iterator[tuple[ET.Element, list[Result]]]:
    areas: dict[str, dict[str, list[Result]]] = {}
    for result in sorted(run.ordered, key=lambda one: (line(one.area), line(one.file))):
        areas.setdefault(line(result.area), {}).setdefault(line(result.file), []).append(result)
    met: Counter[str] = Counter()
    for area, files in areas.items():
        for file, results in files.items():
            suite = TestSuite(
                _CLASS + area if len(files) == 1 else f"{_CLASS}{area} ({file})",
                list(_cases(run, results, met, attachment)),
                timestamp=_timestamp(run.header.started),
                properties=_properties(run),
                file=file or None,
            )
            yield _element(suite, results), results
    if trouble := _trouble(run):
        case = TestCase("the run is whole and can be judged", "conformance.run")
        case.add_error_info(head(trouble, _MESSAGE), trouble, "unknown")
        yield _element(TestSuite("conformance.run", [case], properties=_properties(run)), []), []


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


def _cases(
    run: Run, results: Iterable[Result], met: Counter[str], attachment: str
) -> Iterator[TestCase]:
    for result in results:
        name = f"{line(result.scenario)} [{line(result.machine.name)}]"
        met[name] += 1  # readers drop or merge cases of equal name
        case = TestCase(
            name if met[name] == 1 else f"{name} ({met[name]})", f"{_CLASS}{line(result.area)}"
        )
        _judge(case, result, run, attachment)
        yield case


def _judge(case: TestCase, result: Result, run: Run, attachment: str) -> None:
    said = message(result)
    lines = [clean(one) for one in result.kubelet_errors]
    match standing := run.known.standing(result):
        case Standing.FAIL:
            case.add_failure_info(said, story(result, _TEXT), _kind(result))
        case Standing.FIXED:
            case.add_failure_info(_FIXED, _FIXED, "known failure that passes")
        case Standing.UNKNOWN:
            case.add_error_info(said, story(result, _TEXT), "unknown")
        case Standing.SKIP:
            case.add_skipped_info(said, said)
        case Standing.KNOWN:
            entry = run.known.entry(result)
            assert entry is not None
            known = f"{known_as(entry)}: {said}"
            case.add_skipped_info(known, f"{known}\n\n{story(result, _TEXT)}")
    if standing in (Standing.FAIL, Standing.UNKNOWN):
        if result.evidence:
            case.stderr = tail(clean(result.evidence), _EVIDENCE)
        lines += [attachment] if attachment else []
    if lines:
        case.stdout = "\n".join(lines)


def _kind(result: Result) -> str:
    """A failure's type: ``broken promise`` only where a promise is broken."""
    kept = result.failure is not None and not account(result.failure).promised
    return "differs from the witness" if kept else "broken promise"


def _trouble(run: Run) -> str:
    red = (Standing.FAIL, Standing.FIXED, Standing.UNKNOWN)
    shown = any(run.standings[standing] for standing in red)
    judged = run.status in (ExitStatus.NOT_CONFORMANT, ExitStatus.COULD_NOT_TELL) and shown
    if run.caution:
        return f"{run.verdict} {run.caution}"
    return "" if run.status is ExitStatus.CONFORMANT or judged else run.verdict


def _properties(run: Run) -> dict[str, str]:
    header = run.header
    facts = {
        "subject": header.subject.name,
        "release": header.subject.release,
        "version": header.subject.version,
        "digest": header.subject.digest,
        "pinproof": header.pinproof,
        "catalogue": header.catalogue,
        "exit_status": f"{run.status.value} {run.status.name.lower()}",
    }
    facts |= {f"subject.{key}": value for key, value in header.subject.facts.items()}
    facts |= {f"environment.{key}": value for key, value in header.environment.items()}
    facts |= {f"configuration.{key}": value for key, value in header.configuration.items()}
    return {line(key): line(value) for key, value in facts.items() if value}


def _spent(results: Iterable[Result]) -> float:
    return sum(result.seconds for result in results)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}" if 0 <= seconds < 1e9 else "0.000"


def _timestamp(started: str) -> str | None:
    moment = utc(started)
    return moment.isoformat(timespec="seconds") if moment else None
