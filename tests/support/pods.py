"""Pods of the model's tests, and what a view says of them as text."""

from __future__ import annotations

from collections.abc import Mapping

from reference import CPUSet
from reference.steps import Container, Kind, Pod
from reference.view import View


def pod(name: str, *cpus: int | str, init: str = "") -> Pod:
    """A Guaranteed pod: containers c1, c2, … with these cpus as request and limit, after the init
    container i, if ``init`` says how many cpus it requests."""
    apps = [_exclusive(f"c{number}", str(count)) for number, count in enumerate(cpus, 1)]
    before = [_exclusive("i", init, Kind.INIT)] if init else []
    return Pod(name, (*before, *apps))


def _exclusive(name: str, cpus: str, kind: Kind = Kind.APP) -> Container:
    return Container(name, cpus, cpus, "64Mi", "64Mi", kind)


def best_effort(name: str) -> Pod:
    """A pod without any request; its container is c1."""
    return Pod(name, (Container("c1"),))


def assignments(view: View) -> dict[str, dict[str, str]]:
    """The exclusive CPUs by pod and container."""
    return _texts(view.assignments)


def cpusets(view: View) -> dict[str, dict[str, str | None]]:
    """The cpusets by pod and container."""
    return {
        name: {one: None if cpus is None else str(cpus) for one, cpus in named.items()}
        for name, named in view.cpusets.items()
    }


def _texts(given: Mapping[str, Mapping[str, CPUSet]]) -> dict[str, dict[str, str]]:
    return {name: {one: str(c) for one, c in named.items()} for name, named in given.items()}
