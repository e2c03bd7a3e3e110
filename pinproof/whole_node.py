"""A whole node from its archive: the inputs of ``simulate --node`` and ``upgrade --node``.

What belongs here: whether the files of an archive fit together, and what of them a kubelet in a
sandbox can be given. What never does: the form of the archive (``node_archive``), and a rehearsal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import typer

from conformance.kept_files import ALLOCATED, MEMORY
from conformance.subject import SubjectInfo, SubjectUsageError
from conformance.upgrading import Plan
from pinproof.files import documents
from pinproof.inputs import Inputs, Question, discovered, inputs_of, pods_given, state_file
from pinproof.manifests import MIRROR
from pinproof.memory_settings import NOT_ALONE, with_memory
from pinproof.node_archive import RESOURCES, Collected, collected
from pinproof.parameters import flags
from pinproof.settings import Given, settings_of
from pinproof.simulation import answer, known_pods, require_simulated
from reference import NotModelled
from reference.kubelet.reasons import reason_for
from reference.releases import minor_of
from reference.steps import KubeletConfig, Pod
from reports.text import few
from topologies import Machine
from topologies.errors import one_line

#: The parameters whose values the archive has, so that ``--node`` excludes them.
_OF_THE_NODE: Final = {"machine", "pods", "state", *(one.name for one in fields(Given))}


def whole_node(
    context: typer.Context, archive: Path, machine: Machine, question: Question, release: str = ""
) -> Inputs:
    """All that the archive has. Raises :class:`SubjectUsageError` where an option gives a part of
    it too, where it is not the archive of a node, and where its files do not fit together."""
    where = one_line(str(archive))
    if others := flags(context, _OF_THE_NODE):
        raise SubjectUsageError(
            f"--node has all of the node: leave out {', '.join(others)}; of an archive that is "
            "named with --machine each part can be replaced"
        )
    found = collected(str(archive))
    for name, part in (("configuration", found.config), ("state file", found.state)):
        if part is None:
            raise SubjectUsageError(
                f"{where}: it has no {name} of a kubelet: --node takes what pinproof capture "
                "--node has written"
            )
    node = replace(inputs_of(str(archive), Given(), question, release), archive=found)
    _require_fitting(machine, node, found.release or node.release)
    return node


def _require_fitting(machine: Machine, node: Inputs, release: str) -> None:
    """Check that the node's kubelet would start over its state file, and that each pod in it has a
    manifest. A release that is not modelled is not checked. Raises :class:`SubjectUsageError`."""
    try:
        require_simulated(release)
    except (NotModelled, SubjectUsageError):
        return
    assert node.question.state is not None
    config = settings_of(node.given, discovered(machine, release), release=release).config
    file = state_file(node.question.state)
    pods = pods_given(node.question.pods).pods if node.question.pods else ()
    known = known_pods(file, pods, config, release)
    if missing := [one_line(pod.uid, 60) for pod in known if pod not in pods]:
        raise SubjectUsageError(
            f"{file.name}: pods that hold CPUs have no manifest in the archive: {few(missing, 3)}; "
            "capture the node with --pods, or name the archive with --machine to assume them"
        )
    with suppress(NotModelled):
        answer(machine, config, known, state=file, release=release)


# -- what a kubelet in a sandbox is given ------------------------------------------------------


def without_cpus(pods: Sequence[Pod], config: KubeletConfig, release: str) -> list[Pod]:
    """The pods without exclusive CPUs: they can have run although the state file does not name
    them."""
    return [
        pod
        for pod in pods
        if not any(reason_for(pod, one, config, release=release).cpus for one in pod.containers)
    ]


def with_files(
    archive: Collected, config: KubeletConfig
) -> tuple[KubeletConfig, Mapping[str, str], list[str]]:
    """The configuration with the node's memory manager, the files that its managers keep, and
    notes. A file that names resources that the sandbox lacks is left out."""
    assert archive.config is not None
    files, notes = dict(archive.files), list[str]()
    for name in ALLOCATED:
        if others := sorted(set(_resources(files.get(name, ""))) - set(RESOURCES)):
            notes.append(f"{name} is left out, because it names {few(others)}")
            del files[name]
    try:
        return with_memory(config, archive.config), files, notes
    except SubjectUsageError:
        files.pop(MEMORY, None)
        notes.append(f"the memory manager and {MEMORY} are left out: {NOT_ALONE}")
        return config, files, notes


def _resources(text: str) -> Iterator[str]:
    """The resources that a file of allocations names; none where it cannot be read, which the
    kubelet then reports."""
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        yield from _names(json.loads(json.loads(text)["data"]))


def _names(value: Any) -> Iterator[str]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key.lower() in ("requests", "limits") and isinstance(inner, dict):
            yield from inner
        else:
            yield from _names(inner)


def static_pods(archive: Collected) -> set[str]:
    """The uids of the static pods whose manifests state none."""
    found = documents(archive.pods) if archive.pods else ()
    return {uid for document in found for uid in _made_by_the_kubelet(document)}


def _made_by_the_kubelet(document: Any) -> Iterator[str]:
    for item in document.get("items") or ():
        uid = (item["metadata"].get("annotations") or {}).get(MIRROR)
        if uid is not None:
            yield uid


def notes_on_releases(
    archive: Collected, plan: Plan, old: SubjectInfo, new: SubjectInfo
) -> Iterator[str]:
    """Notes on another release than the node's, and on static pods."""
    if archive.release and minor_of(archive.release) != minor_of(old.release):
        yield f"the kubelet of the node is {archive.release}, and FROM is {old.release}"
    if plan.renewed and minor_of(old.release) != minor_of(new.release):
        yield (
            "each release makes another uid for static pods that have none in their manifest, and "
            f"takes them for new ones: {few(plan.renewed, 3)}"
        )
