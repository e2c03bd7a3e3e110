"""Why a result is not a pass, in one line and at length, for reports that are text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from conformance.accounts import account
from conformance.known import Standing
from conformance.results import Difference, KnownFailure, Result
from reports.causes import Cause, causes, otherwise
from reports.run import Run
from reports.text import clean, few, head, line

_MESSAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, with all that it hits. ``entry``: its entry in the list of known failures."""

    standing: Standing
    cause: Cause
    entry: KnownFailure | None = None

    @property
    def title(self) -> str:
        """``qos/whole on 2s-4n-64c-smt2``, the example of the cause, and how many more scenarios
        and machines there are."""
        shown = self.cause.example
        scenarios = dict.fromkeys([shown.scenario, *self.cause.scenarios])
        machines = dict.fromkeys([shown.machine.name, *self.cause.machines])
        return f"{few([*map(line, scenarios)], 1)} on {few([*map(line, machines)], 1)}"

    @property
    def why(self) -> str:
        if self.standing is Standing.FIXED:
            return "it passes, but is listed as a known failure: remove it from the list"
        if self.entry is not None and self.standing is Standing.KNOWN:
            return f"{known_as(self.entry)}: {message(self.cause.example)}"
        if self.cause.is_common:
            return line(f"{self.cause.headline}. {self.cause.detail}")
        return message(self.cause.example)


def known_as(entry: KnownFailure) -> str:
    """A known failure's reason, link and date in one line."""
    link = f", {line(entry.link)}" if entry.link else ""
    until = f" until {line(entry.expires)}" if entry.expires else ""
    name = f": {line(entry.name)}" if entry.name else ""
    return f"known{until}{name} ({line(entry.reason)}{link})"


def findings(run: Run) -> list[Finding]:
    """The findings in this order: broken promises, results without a verdict, listed failures that
    pass, known failures."""
    found = [
        Finding(standing, cause)
        for standing in (Standing.FAIL, Standing.UNKNOWN)
        for cause in causes(run.standings[standing], run.standings[Standing.PASS])
    ]
    return [*found, *_listed(run, Standing.FIXED), *_listed(run, Standing.KNOWN)]


def _listed(run: Run, standing: Standing) -> Iterator[Finding]:
    for entry in run.known.entries:
        results = tuple(one for one in run.standings[standing] if run.known.entry(one) is entry)
        if results:
            yield Finding(standing, Cause(results[0], results, settings=otherwise(results)), entry)


def message(result: Result) -> str:
    """Why a result is not a pass, in one line that is never empty (an empty one would read as a
    pass)."""
    if result.failure:
        said = account(result.failure)
        rest = result.failure.differences[bool(said.promised) :]  # the sentence has the first
        differences = "; ".join(map(_difference, rest))
        glue = "; " if said.promised else ": "
        reason = line(glue.join(filter(None, (said.sentence, differences))))
    else:
        reason = line(result.reason) or line(result.explanation)
    return head(reason or f"{line(result.verdict)}: no reason", _MESSAGE).replace("\n", " ")


def _difference(difference: Difference) -> str:
    return f"{difference.what}: expected {difference.expected}, seen {difference.seen}"


def story(result: Result, limit: int) -> str:
    """The whole of it with the replay command, in at most ``limit`` characters and a note."""
    text = clean(result.explanation) or "\n".join([message(result), *map(line, result.steps)])
    replay = clean(result.replay)
    if replay and replay not in text:
        text = f"{text}\n\nReplay: {replay}"
    return head(f"{line(result.title)}\n\n{text}", limit)
