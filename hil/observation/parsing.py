"""Reads the output of an observation. Pure; nothing in that output is trusted.

What belongs here: the text form of :mod:`hil.observation.script`, of cgroup files and of ``/proc``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hil.answers import whole
from hil.observation.pod_resources import read_pod_resources
from hil.observation.seen import ContainerObserved, Level, Observation, Process, ServiceState
from hil.shell import NodeUnfit
from reference import CPUSet
from reference.cpuset import CPUSetParseError

_NAME: Final = re.compile(r'^(?P<file>/[^:"]*/config\.json):"(?P<key>[^"]+)":"(?P<value>[^"]*)"$')
_UID_KEYS: Final = ("io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid")
_NAME_KEYS: Final = ("io.kubernetes.cri.container-name", "io.kubernetes.container.name")
_POD_KEYS: Final = ("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name")
_NAMESPACE_KEYS: Final = ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace")
_UID_IN_PATH: Final = re.compile(
    r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
)
_ALLOWED: Final = re.compile(r"^/proc/\d+/task/(\d+)/status:Cpus_allowed_list:\s*(\S*)$")
_FILES: Final = (
    "cpuset.cpus",
    "cpuset.cpus.effective",
    "cpuset.effective_cpus",
    "cpu.max",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
)
_SANDBOX_NAMES: Final = ("", "POD")


class NotAnObservation(NodeUnfit):
    """The answer is not an observation: it is cut off, or not the script's."""


@dataclass(frozen=True, slots=True)
class _Section:
    kind: str
    words: str
    body: str


def read_observation(text: str, mark: str) -> Observation:
    """The observation in ``text``; raises :class:`NotAnObservation`."""
    sections = list(_sections(text, mark))
    if not sections or sections[-1].kind != "end":
        raise NotAnObservation(f"the node's answer is cut off after {len(text)} characters")
    by_kind: dict[str, _Section] = {each.kind: each for each in sections}
    for needed in ("online", "service", "names"):
        if needed not in by_kind:
            raise NotAnObservation(f"the node's answer has no section {needed!r}")
    bodies = {kind: section.body for kind, section in by_kind.items()}
    names, ran = _names(bodies["names"]), _cpus_by_pid(bodies.get("ran", ""))
    found = [_container(section, names, ran) for section in sections if section.kind == "container"]
    return Observation(
        online=_cpus(bodies["online"].strip()),
        service=_service(bodies["service"]),
        state_file=bodies.get("state"),
        containers=tuple(each for each in found if each is not None),
        pods=bodies.get("pods"),
        log=bodies.get("log", ""),
        ended=_ended(bodies.get("ended", "")),
        pod_resources=read_pod_resources(bodies["answer"]) if "answer" in bodies else None,
        reached="late" not in bodies,
        print=_digest_of_seen(text, mark),
        process=_process(by_kind),
        boot=bodies.get("boot", "").strip()[:64],
        files=_files(bodies.get("files", "")),
        notes={
            "before": bodies.get("before", "").strip(),
            "status": by_kind["status"].words if "status" in by_kind else "",
        },
    )


def _files(body: str) -> dict[str, str]:
    """By path; a path may have spaces in it."""
    rows = (line.split(" ", 3) for line in body.splitlines())
    return {row[3]: " ".join(row[:3]) for row in rows if len(row) == 4}


def _digest_of_seen(text: str, mark: str) -> str:
    """What ``sha256sum`` on the node gives for all that is seen, without its markers."""
    begin, end = text.rfind(f"\n{mark} online\n"), text.rfind(f"\n{mark} seen\n")
    if begin < 0 or end < begin:
        return ""
    seen = text[begin:end].replace(mark, "")
    return hashlib.sha256(seen.encode("utf-8", "surrogateescape")).hexdigest()


def _process(sections: Mapping[str, _Section]) -> Process | None:
    service, born = sections["service"].body.rstrip("\n"), sections.get("born")
    pid = _service(service).pid
    return Process(pid, born.words, service) if born is not None and pid else None


def _sections(text: str, mark: str) -> Iterator[_Section]:
    """A section's body ends before the newline that its successor's marker begins with."""
    for part in text.split(f"\n{mark} ")[1:]:
        head, _, body = part.partition("\n")
        kind, _, words = head.partition(" ")
        yield _Section(kind, words, body)


def _cpus(text: str) -> CPUSet:
    try:
        return CPUSet.parse(text)
    except CPUSetParseError as error:
        raise NotAnObservation(f"not a list of CPUs: {text[:80]!r}") from error


def _service(body: str) -> ServiceState:
    values = dict(line.partition("=")[::2] for line in body.splitlines())
    code = values.get("ExecMainCode", "")
    status = values.get("ExecMainStatus", "")
    return ServiceState(
        active=values.get("ActiveState", ""),
        sub=values.get("SubState", ""),
        pid=whole(values.get("MainPID", "0")),
        restarts=whole(values.get("NRestarts", "0")),
        exit_status=whole(status) if code not in ("", "0") else None,
        exit_code={"1": "exited", "2": "killed", "3": "dumped"}.get(code, ""),
        invocation=values.get("InvocationID", ""),
    )


def _ended(body: str) -> tuple[str, int] | None:
    code, _, status = body.strip().partition(" ")
    return (code, whole(status)) if code else None


def _names(body: str) -> dict[str, dict[str, str]]:
    """Annotations and labels, by the folder of a container's config.json."""
    found: dict[str, dict[str, str]] = {}
    for line in body.splitlines():
        match = _NAME.match(line)
        if match:
            folder = match["file"].removesuffix("/config.json")
            found.setdefault(folder, {}).setdefault(match["key"], match["value"])
    return found


def _cpus_by_pid(body: str) -> dict[int, CPUSet]:
    found: dict[int, CPUSet] = {}
    for line in body.splitlines():
        words = line.split()
        if len(words) == 2:
            pid = whole(words[0])
            found[pid] = found.get(pid, CPUSet()) | _cpus(words[1])
    return found


def _container(
    section: _Section, names: Mapping[str, Mapping[str, str]], ran: Mapping[int, CPUSet]
) -> ContainerObserved | None:
    """``None`` for a pod's sandbox, and for a container that ended during the observation."""
    pid, _, folder = section.words.partition(" ")
    known = names.get(folder, {})
    name = _first(known, _NAME_KEYS)
    lines = section.body.splitlines()
    paths = dict(line.partition(" ")[::2] for line in lines[:2])
    path = paths.get("cpuset", "")
    if name in _SANDBOX_NAMES or not path:
        return None
    if ".." in path.split("/"):
        raise NotAnObservation(f"a cgroup outside of the node's own: {path[:200]!r}")
    in_path = _UID_IN_PATH.search(path)
    uid = _first(known, _UID_KEYS) or (in_path[1].replace("_", "-") if in_path else "")
    tasks = {whole(one[1]): _cpus(one[2]) for one in map(_ALLOWED.match, lines) if one}
    return ContainerObserved(
        id=folder.removesuffix("/userdata").rpartition("/")[2],
        pid=whole(pid),
        uid=uid,
        name=name,
        levels=_levels(path, paths.get("cpu", ""), lines[2:]),
        tasks=tasks,
        ran_on=ran.get(whole(pid), CPUSet()),
        pod=_first(known, _POD_KEYS),
        namespace=_first(known, _NAMESPACE_KEYS),
    )


def _first(known: Mapping[str, str], keys: Iterable[str]) -> str:
    return next((known[key] for key in keys if key in known), "")


def _upward(path: str) -> Iterator[str]:
    """A cgroup's path and those above it, without their last slash; the root is ``""``."""
    path = path.rstrip("/")
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


def _levels(path: str, cpu_path: str, lines: list[str]) -> tuple[Level, ...]:
    values = dict(_file_values(lines))
    mount = _mount(values, path, "cpuset.")
    cpu_mount = _mount(values, cpu_path, "cpu.")
    quota_paths = [f"{cpu_mount}{level}" for level in _upward(cpu_path)]
    found = []
    for depth, level in enumerate(_upward(path)):
        folder = f"{mount}{level}"
        asked = values.get(f"{folder}/cpuset.cpus")
        on_v1 = values.get(f"{folder}/cpuset.effective_cpus")
        effective = values.get(f"{folder}/cpuset.cpus.effective", on_v1)
        quota, period = _quota(values, quota_paths[depth] if depth < len(quota_paths) else "")
        found.append(
            Level(
                path=level or "/",
                cpus=None if asked is None else _cpus(asked),
                effective=None if effective is None else _cpus(effective),
                quota=quota,
                period=period,
            )
        )
    return tuple(found)


def _mount(values: Mapping[str, str], path: str, controller: str) -> str:
    """Where the hierarchy is mounted in which a cgroup has this path, by that cgroup's files."""
    path = path.rstrip("/")
    for place in values:
        folder, _, file = place.rpartition("/")
        if folder.endswith(path) and file.startswith(controller):
            return folder.removesuffix(path)
    return ""


def _file_values(lines: list[str]) -> Iterator[tuple[str, str]]:
    """``FOLDER/FILE`` and its only line. Folders of cgroups may have colons in them, the files'
    names have none."""
    for line in lines:
        for file in _FILES:
            place, found, value = line.partition(f"/{file}:")
            if found:
                yield f"{place}/{file}", value
                break


def _quota(values: Mapping[str, str], folder: str) -> tuple[int | None, int]:
    both = values.get(f"{folder}/cpu.max")
    if both is not None:
        quota, _, period = both.partition(" ")
    else:
        quota = values.get(f"{folder}/cpu.cfs_quota_us", "")
        period = values.get(f"{folder}/cpu.cfs_period_us", "")
    return (whole(quota) or None), (whole(period) or 100_000)
