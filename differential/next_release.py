"""What is left to do for a release that comes out: docs/how-to/next-release.md as a program.

    python -m differential.next_release 1.38
    python -m differential.next_release 1.38 --kubelet BINARY

It says which steps of the page are done. Then it asks a kubelet of the release which of the
behaviours it has that the table announces for it, and says what to change where it lacks one. The
kubelet is built from the Go module, of a pre-release where there is nothing else. Exit status 0: it
has every behaviour that it could be asked for; 1: it lacks one; 3: there is no kubelet, or it could
not be asked.

    python -m differential.next_release 1.38 --page

prints the list of behaviours in docs/how-to/next-release.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from conformance.identifying.identify import identify
from conformance.identifying.identity import Identity
from conformance.kubelets import builder, forks, releases
from conformance.kubelets.golang import Go
from conformance.kubelets.recipe import KUBERNETES
from conformance.recording import recorded_releases
from conformance.subject import SubjectError, SubjectSetupError, SubjectUsageError
from conformance.subjects import open_subject
from conformance.subjects.exec import drivers
from conformance.verdict import ExitStatus
from differential import markdown
from differential.command import status_of
from reference.releases import ANNOUNCED, LATEST, OLDEST, Change, Release, behaviours, changes

_COMMAND: Final = "python -m differential.next_release"
#: Seconds after which no more histories are begun.
_SECONDS: Final = 600.0
#: What to change where a kubelet is not as announced: where a behaviour was to come, or to go.
_TODO: Final = {
    True: (
        "in reference/behaviours.py set its `since` to None, and remove the `until` of the "
        "defect's scenario"
    ),
    False: "in reference/behaviours.py remove its `until`",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A step of docs/how-to/next-release.md. ``is_done``: ``None`` where no file records it."""

    title: str
    is_done: Callable[[Release], bool] | None
    todo: str


def _is_driven(release: Release) -> bool:
    return any(one.version.startswith(f"{release}.") for one in drivers.cached())


#: In the order of the page. ``{}`` in a text is the release.
STEPS: Final = (
    Step("Build its kubelet", lambda one: releases.Minor(1, one.minor) in releases.KNOWN_GOOD,
         "no patch release in KNOWN_GOOD of conformance/kubelets/releases.py"),
    Step("Build its driver", _is_driven, "pinproof build driver {}"),
    Step("Compare the allocator", None, "python -m differential.exactness --release {}"),
    Step("Run the catalogue", None, "pinproof run --subject kubelet:{} --release {}"),
    Step("Check each announced behaviour", lambda one: one.minor <= LATEST,
         f"{_COMMAND} {{}}, then LATEST"),
    Step("Raise `LATEST` and `ANNOUNCED`", lambda one: one.minor <= LATEST < ANNOUNCED,
         "reference/releases.py"),
    Step("Record it", lambda one: str(one) in recorded_releases(),
         "python -m conformance.record {}"),
)  # fmt: skip


def steps_of(release: Release) -> Iterator[str]:
    """Each step of the page, whether it is done, and what is left to do."""
    for number, step in enumerate(STEPS, start=1):
        done = step.is_done(release) if step.is_done else None
        word = {True: "done", False: "open", None: "not recorded"}[done]
        todo = "" if done else f": {step.todo.replace('{}', str(release))}"
        yield f"  {number}. {step.title}: {word}{todo}"


def announced(release: Release) -> list[Change]:
    """The changes of the release since the minor before it, as the table has them."""
    return changes(Release(release.minor - 1), release)


def table(release: Release) -> str:
    """The behaviours that are announced, as docs/how-to/next-release.md lists them."""
    rows = []
    for one in announced(release):
        known = one.behaviour.value
        number = known.source.rpartition("/")[2]
        says = known.says if one.gained else f"No longer: {known.says}"
        rows.append((f"`{one.behaviour.title}`", f"[{number}]({known.source})", says))
    return markdown.page([markdown.table(("behaviour", "announced by", "what changes"), rows)])


def verdicts(release: Release, found: Identity) -> Iterator[tuple[bool | None, str]]:
    """Of each announced behaviour: whether the kubelet is as announced (``None``: it could not be
    asked), and a line that says what to change where it is not."""
    own = behaviours(found.fits)
    for one in announced(release):
        title = one.behaviour.title
        if one.behaviour not in found.asked:
            yield None, f"  not asked  {title}: see {one.behaviour.value.source}"
        else:
            has = one.behaviour in own
            todo = "" if has is one.gained else f": {_TODO[one.gained]}"
            yield has is one.gained, f"  {'has' if has else 'lacks':9}  {title}{todo}"


def kubelet_of(release: Release) -> str:
    """The name of a subject: the kubelet of the release, built where it has not been yet; that of
    its newest pre-release where there is no other. Raises :class:`SubjectSetupError`."""
    try:
        return f"kubelet:{builder.build(str(release))}"
    except SubjectSetupError as error:
        module = _pre_release(release)
        if not module:
            raise SubjectSetupError(f"{error}; --kubelet BINARY names one") from error
    return f"kubelet:{forks.build(forks.Module.of_fork(module, ''))}"


def _pre_release(release: Release) -> str:
    words = Go.find().run(["list", "-m", "-versions", KUBERNETES]).split()
    found = [one for one in words if one.startswith(f"v{release}.0-")]
    return f"{KUBERNETES}@{found[-1]}" if found else ""


def release_of(text: str) -> Release:
    """The minor that the text names. Raises :class:`SubjectUsageError`."""
    try:
        asked = Release.parse(text)
    except ValueError as error:
        raise SubjectUsageError(str(error)) from error
    if asked != Release(asked.minor):
        raise SubjectUsageError(f"{text}: name a minor, such as 1.{ANNOUNCED}")
    if not OLDEST < asked.minor <= ANNOUNCED:
        known = f"1.{OLDEST} to 1.{ANNOUNCED} (ANNOUNCED in reference/releases.py)"
        raise SubjectUsageError(f"{text}: the model has {known}")
    return asked


def _run(asked: argparse.Namespace) -> int:
    release = release_of(asked.release)
    if asked.page:
        sys.stdout.write(table(release))
        return ExitStatus.CONFORMANT
    print(f"Steps of docs/how-to/next-release.md for {release}:")
    print("\n".join(steps_of(release)), flush=True)
    name = f"kubelet:{asked.kubelet}" if asked.kubelet else kubelet_of(release)
    with closing(open_subject(name)) as subject:
        found = identify(name, subject, workers=asked.n, seconds=asked.time, say=lambda one: None)
        print(f"{subject.info.version} ({name}), as announced for {release}:")
    lines = list(verdicts(release, found))
    print("\n".join(line for _, line in lines))
    for why in found.lost:
        print(f"  a history was lost: {why}")
    is_asked = [good for good, _ in lines if good is not None]
    print(
        f"{sum(is_asked)} of {len(lines)} are as announced, {len(lines) - len(is_asked)} not asked"
    )
    if not is_asked:
        raise SubjectError("no announced behaviour could be asked for")
    return ExitStatus.CONFORMANT if all(is_asked) else ExitStatus.NOT_CONFORMANT


def main(arguments: list[str]) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(prog=_COMMAND, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("release", help="the minor that comes out, such as 1.38")
    parser.add_argument("--kubelet", type=Path, metavar="BINARY", help="its kubelet")
    parser.add_argument("--page", action="store_true", help="print the list of the page")
    parser.add_argument("-n", type=int, default=min(os.cpu_count() or 1, 4), metavar="N",
                        help="how many histories run at a time")  # fmt: skip
    parser.add_argument("--time", type=float, default=_SECONDS, metavar="SECONDS",
                        help="begin no history after this many seconds")  # fmt: skip
    return status_of(_COMMAND, partial(_run, parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
