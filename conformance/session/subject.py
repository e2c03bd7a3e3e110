"""The subject of a run inside pytest, and the release by which it is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import pytest

from conformance.catalogue import find
from conformance.kubelets.put import with_files
from conformance.progress import now_and_then
from conformance.session.ahead import PLUGIN
from conformance.session.knowing import fork_of
from conformance.smoke import smoke
from conformance.subject import (
    CouldDoMore,
    CountsTrips,
    Subject,
    SubjectNotRestored,
    judging_release,
)
from conformance.subjects import open_subject
from conformance.subjects.reference import ReferenceSubject
from reference.releases import Release, newest_known
from topologies.errors import one_line

NOT_RESTORED: Final = "pinproof-not-restored"
SUBJECT_KEY: Final = pytest.StashKey[Subject]()


def subject_of(config: pytest.Config) -> Subject:
    """The subject of this run, opened once in each process; the controller runs :func:`smoke`."""
    if SUBJECT_KEY not in config.stash:
        name = with_files(config.getoption("--pin-subject"), fork_of(config).files)
        subject = open_subject(name, progress=say(config))
        if isinstance(subject, ReferenceSubject):
            subject = _of_the_release(config, subject)
        config.stash[SUBJECT_KEY] = subject
        if not config.getoption("--pin-no-smoke") and not hasattr(config, "workerinput"):
            smoke(subject)
    return config.stash[SUBJECT_KEY]


def _of_the_release(config: pytest.Config, subject: ReferenceSubject) -> ReferenceSubject:
    """The subject as a model of the release that was asked for. ``reference`` gets overrides of
    behaviours, too. A miniature does not: it is judged by them."""
    if subject.info.name == "reference":
        return subject.of(_judged_by(config, subject))
    release = config.getoption("--pin-release")
    return subject.of(str(Release.parse(release))) if release else subject


def say(config: pytest.Config) -> Callable[[str], None]:
    """A progress callback that writes lines between those of pytest, by :func:`now_and_then`."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")

    def write(stage: str) -> None:
        if reporter is not None:
            reporter.write_line(f"pinproof: {one_line(stage)}")

    return now_and_then(write)


def say_on_its_own(config: pytest.Config, line: str) -> None:
    """Write a line of its own, after a line break."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write(f"\npinproof: {one_line(line)}\n")


def release_of(config: pytest.Config) -> str:
    """The release by whose behaviour the run judges, with the given overrides. Raises
    ``ValueError`` for an unknown release or behaviour."""
    return _judged_by(config, subject_of(config))


def judged_by(config: pytest.Config) -> str:
    """:func:`release_of` as text for a reader, which says if the release is only announced, and if
    it stands for a newer one."""
    release, own = release_of(config), Release.parse(subject_of(config).info.release)
    text = f"{release} (announced, not yet seen)" if Release.parse(release).announced else release
    stands_in = not config.getoption("--pin-release") and own != newest_known(own)
    return f"{text}, because {own} is not known" if stands_in else text


def _judged_by(config: pytest.Config, subject: Subject) -> str:
    asked = config.getoption("--pin-release")
    base = Release.parse(asked) if asked else judging_release(subject.info)
    own = fork_of(config).overrides
    return str(base.overridden(*own, *config.getoption("--pin-behaviour")))


def close_subject(config: pytest.Config) -> str:
    """Close the subject of this process. Returns what it could not restore, in words, or ``""``."""
    if ahead := config.pluginmanager.get_plugin(PLUGIN):
        ahead.stop()
    if SUBJECT_KEY in config.stash:
        try:
            config.stash[SUBJECT_KEY].close()
        except SubjectNotRestored as error:
            return str(error)
    return ""


def not_tested(config: pytest.Config, skipped: Iterable[str]) -> list[str]:
    """A line for each missing program or permission for which these scenarios were skipped."""
    subject: object = config.stash.get(SUBJECT_KEY, None)
    if not isinstance(subject, CouldDoMore):
        return []
    asked = [one for name in skipped if (one := find(name)) is not None]
    lines = []
    for capability, remedy in subject.lacking.items():
        count = sum(capability in one.capabilities for one in asked)
        if count:
            lines.append(f"NOT TESTED: {count} scenarios that need to {capability.value}: {remedy}")
    return lines


def round_trips(config: pytest.Config) -> list[str]:
    """A line for each node with its round trips, if the subject counts them."""
    subject: object = config.stash.get(SUBJECT_KEY, None)
    if not isinstance(subject, CountsTrips):
        return []
    return [
        f"{name}: {count} round trips in {scenarios} scenarios, {count / scenarios:.1f} each"
        for name, (scenarios, count) in subject.trips.items()
        if scenarios
    ]
