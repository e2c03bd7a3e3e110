"""Histories on the model: what a release shows, and whether a subject showed the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import topologies
from conformance.answers import metric_differences
from conformance.checks import differences, each
from conformance.identifying.history import History
from conformance.oracle import ModelOracle
from conformance.results import Difference
from conformance.subject import Capability
from reference import IllegalStep, NotModelled
from reference.behaviours import Behaviour
from reference.releases import has
from reference.steps import Step
from reference.view import Phase, View

EVERYTHING: Final = frozenset(Capability)
#: By how many updates of a container a kubelet may differ from its model.
_SPARE: Final = 4


class Walker(ModelOracle):
    """The model of a release, overrides included. No release has some of these mixes of behaviours,
    so the model may fail; that is :class:`NotModelled`. ``idle_updates``: whether reconcile rounds
    update containers for which nothing has changed."""

    idle_updates = False

    def after(self, step: Step) -> View:
        """As :class:`ModelOracle`. Raises :class:`NotModelled`, :class:`IllegalStep`."""
        try:
            expected = super().after(step)
        except (AttributeError, LookupError, TypeError, ValueError, AssertionError) as error:
            raise NotModelled(f"{type(error).__name__}: {error}") from error
        assert expected is not None  # the model knows, or raises
        return expected


def walker(history: History, release: str, *, architecture: str | None = None) -> Walker:
    """The model of a release on a history's machine. Raises :class:`NotModelled`."""
    model = Walker(
        topologies.machine(history.machine),
        history.config,
        machines=topologies.machine,
        release=release,
        architecture=architecture,
    )
    model.idle_updates = not has(release, Behaviour.UPDATED_ON_CHANGE)
    return model


def views(history: History, release: str) -> list[View] | None:
    """What the release shows after each step. Views end with the step in which the kubelet hangs,
    or before a step that is not possible. ``None`` if the model does not know."""
    shown: list[View] = []
    try:
        model = walker(history, release)
        for step in history.steps:
            shown.append(model.after(step))
            if shown[-1].hangs:
                break
    except NotModelled:
        return None
    except IllegalStep:
        return shown or None
    return shown


def departs(
    history: History,
    seen: Sequence[View],
    release: str,
    can: Collection[Capability] = EVERYTHING,
    *,
    architecture: str | None = None,
) -> tuple[int, list[Difference]] | None:
    """The first step after which ``seen`` differs from what the release shows, and the differences;
    ``None`` if there is no such step. What chance decides is not compared. Raises
    :class:`NotModelled` if the model does not know."""
    try:
        model = walker(history, release, architecture=architecture)
        for number, (step, view) in enumerate(zip(history.steps, seen, strict=False)):
            found = unlike(model, model.after(step), view, can)
            if found:
                return number, found
            if view.hangs or _waits(view):
                break
    except IllegalStep as error:
        raise NotModelled(str(error)) from error
    return None


def unlike(
    model: Walker, expected: View, seen: View, can: Collection[Capability]
) -> list[Difference]:
    """The differences between a view and what ``model`` expects after its last step."""
    if expected.hangs:
        hangs = bool(seen.hangs) or _waits(seen)
        return [] if hangs else [Difference(what="kubelet", expected="hangs", seen="answers")]
    if seen.hangs:
        return [Difference(what="kubelet", expected="answers", seen="hangs")]
    asked = _asked(expected, seen, can)
    rows = differences(expected, seen, can)
    if rows and expected != seen and model.follow(seen, late=True):
        rows = []  # equal views may still differ in quotas
    if Capability.CALLS in can:
        asked += _idle_updates(expected, seen, always=model.idle_updates)
    return [*rows, *asked]


def _idle_updates(expected: View, seen: View, *, always: bool) -> Iterator[Difference]:
    """Differences in how often containers were updated. The model does not know how many reconcile
    rounds there were. If rounds ``always`` update, only too few updates are a difference; otherwise
    only too many are."""
    have = {(pod, name): one.updates for pod, name, one in each(seen.asked)}
    for pod, name, one in each(expected.asked):
        updates, least = have.get((pod, name), one.updates), one.updates - _SPARE
        if updates < least if always else updates > one.updates + _SPARE:
            what = f"updates of {pod}/{name}"
            yield Difference(what=what, expected=f"about {one.updates}", seen=str(updates))


def alike(one: Sequence[View], other: Sequence[View]) -> bool:
    """Whether two releases show the same in every part of their views."""
    return one == other and [_unequal_parts(view) for view in one] == [
        _unequal_parts(view) for view in other
    ]


def _unequal_parts(view: View) -> tuple[object, ...]:
    """The parts of a view that ``==`` does not compare."""
    parts = (view.cfs, view.devices, view.pod_resources, view.got_pod, view.allocatable)
    return (
        *parts,
        view.pod_resources_error,
        view.flood_answers,
        view.metrics,
        {(pod, name): one.updates for pod, name, one in each(view.asked)},
        _meet(view),
        view.hangs,
    )


def _meet(view: View) -> bool:
    """Whether a version of the state file has a CPU both in the shared pool and exclusive. Which
    versions exist depends on how the writes of a step are joined."""
    return any(one.shared_pool & one.exclusive for one in view.versions or ())


def tells(history: History, one: str, other: str, can: Collection[Capability] = EVERYTHING) -> bool:
    """Whether the history tells two releases apart, overrides included: neither shows what the
    other may show by chance."""
    try:
        by_one, by_other = views(history, one), views(history, other)
        if by_one is None or by_other is None or alike(by_one, by_other):
            return False
        return bool(departs(history, by_other, one, can) and departs(history, by_one, other, can))
    except NotModelled:
        return False


def _waits(view: View) -> bool:
    return any(pod.phase is Phase.PENDING for pod in view.pods.values()) and view.running


def _asked(expected: View, seen: View, can: Collection[Capability]) -> list[Difference]:
    """Differences in answers of the pod-resources socket and in metrics. Not compared are how many
    simultaneous calls are refused, and how much longer than expected an admission takes, which
    depend on the host; metrics of other managers; and the text of a refusal, which names the pod as
    the API does."""
    pairs = (
        ("CPUs at the pod-resources socket", expected.pod_resources, seen.pod_resources),
        ("CPUs of one pod at the pod-resources socket", expected.got_pod, seen.got_pod),
        ("allocatable CPUs", expected.allocatable, seen.allocatable),
        ("devices at the pod-resources socket", expected.devices, seen.devices),
        ("answers to many calls", {*(expected.flood_answers or ())}, {*(seen.flood_answers or ())}),
        (
            "refusal by the socket",
            bool(expected.pod_resources_error),
            bool(seen.pod_resources_error),
        ),
        (
            "CPUs both shared and exclusive in a version of the state file",
            _meet(expected) and Capability.RENAMES in can,
            _meet(seen) and Capability.RENAMES in can,
        ),
    )
    return [
        *(
            Difference(what=what, expected=str(want), seen=str(found))
            for what, want, found in pairs
            if want != found
        ),
        *metric_differences(expected.metrics or {}, seen.metrics or {}),
    ]
