"""Hypothesis strategies for inputs of the model and of subjects.

Each function returns a strategy; drawn values are valid unless its name has ``any``::

    from hypothesis import given
    from conformance import strategies

    @given(strategies.topologies(), strategies.cpusets())
    def test_mine(topology, cpus): ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from reference.behaviours import Behaviour
from reference.cpumanager.state.state_checkpoint import Checkpoint
from reference.cpuset import CPUSet
from reference.machine.topology import CPUTopology
from reference.releases import LATEST, AnyRelease, Release, has
from reference.steps import (
    Apply,
    AwaitReconcile,
    Configure,
    Container,
    Delete,
    Kind,
    KubeletConfig,
    Pod,
    PodResources,
    Reboot,
    RemoveState,
    Start,
    Step,
    Stop,
    WriteState,
)

__all__ = [
    "any_cpu_list_texts",
    "any_quantity_texts",
    "checkpoints",
    "containers",
    "cpu_list_texts",
    "cpusets",
    "guaranteed_pods",
    "kubelet_configs",
    "machine_specs",
    "pod_level_pods",
    "pods",
    "quantity_texts",
    "releases",
    "steps",
    "topologies",
]

_MAX_CPU: Final = 63
_NAMES: Final = ("a", "b", "c", "d", "app", "sidecar")
_POD_NAMES: Final = st.integers(1, 99).map(lambda number: f"pod{number}")


def releases(first: int = 18, last: int = LATEST) -> SearchStrategy[str]:
    """Minor releases, ``1.18`` to the newest that the model knows."""
    return st.integers(first, last).map(lambda minor: f"1.{minor}")


# -- CPUs --------------------------------------------------------------------------------------


def cpusets(*, min_size: int = 0, max_cpu: int = _MAX_CPU) -> SearchStrategy[CPUSet]:
    """Sets of CPU ids from 0 to ``max_cpu``."""
    return st.frozensets(st.integers(0, max_cpu), min_size=min_size).map(CPUSet)


@st.composite
def cpu_list_texts(draw: st.DrawFn, *, max_cpu: int = _MAX_CPU) -> str:
    """CPU lists that every kubelet accepts, also in forms that it does not write: overlaps, any
    order, signs, leading zeros, ranges of one CPU."""
    number = st.integers(0, max_cpu)
    pieces = []
    for _ in range(draw(st.integers(0, 5))):
        low, high = sorted((draw(number), draw(number)))
        zeros = draw(st.sampled_from(["", "", "0", "+", "+00"]))
        pieces.append(draw(st.sampled_from([f"{zeros}{low}", f"{zeros}{low}-{high}"])))
    return ",".join(pieces)


def any_cpu_list_texts() -> SearchStrategy[str]:
    """CPU lists, near misses of them, and texts of any kind."""
    piece = st.sampled_from(
        ["", "0", "3", "0-3", "5-1", "1-2-3", "1--3", "-1", "0-", "+3", "007", " 1", "1 ", "0x1",
         "1.3", "a", "0-6:2", "all", "9" * 20, "\u0663", "0-3\n"]
    )  # fmt: skip
    return st.one_of(cpu_list_texts(), st.lists(piece, max_size=4).map(",".join), st.text())


@st.composite
def topologies(
    draw: st.DrawFn, *, max_cpus: int = 64, even: bool = True, uncore: bool = True
) -> CPUTopology:
    """Machines as the kubelet sees them: sockets of NUMA nodes of uncore caches of cores.

    The CPUs of a core have neighbouring ids, or ids go core by core for each thread. Without
    ``even`` some cores lack a CPU, as if CPUs were offline. Without ``uncore`` each NUMA node has
    one cache.
    """
    threads = draw(st.sampled_from([1, 2, 4]))
    sockets = draw(st.sampled_from([1, 2, 4]))
    nodes = draw(st.sampled_from([1, 2, 4]))
    caches = draw(st.sampled_from([1, 2])) if uncore else 1
    parts = sockets * nodes * caches
    cores = draw(st.integers(1, max(1, max_cpus // (parts * threads))))
    near = draw(st.booleans())
    total = parts * cores
    missing = draw(st.frozensets(st.integers(0, total - 1), max_size=3)) if not even else ()
    places = {}
    for core in range(total):
        cache = core // cores
        node = cache // caches
        for thread in range(threads):
            if thread and core in missing:
                continue
            cpu = core * threads + thread if near else core + thread * total
            places[cpu] = (node, node // nodes, core, cache)
    return CPUTopology.of(places)


@st.composite
def machine_specs(draw: st.DrawFn, *, max_cpus: int = 64) -> str:
    """Specs of machines by their totals, as ``topologies.describe`` takes them."""
    sockets = draw(st.sampled_from([1, 2, 4]))
    nodes = sockets * draw(st.sampled_from([1, 2, 4]))
    threads = draw(st.sampled_from([1, 2, 4]))
    cores = nodes * draw(st.integers(1, max(1, max_cpus // (nodes * threads))))
    suffixes = draw(
        st.lists(st.sampled_from(["near", "interleaved", "cpustep2", "pkgstep3"]), unique=True)
    )
    order = [one for one in ("near", "interleaved", "cpustep2", "pkgstep3") if one in suffixes]
    return "-".join([f"{sockets}s", f"{nodes}n", f"{cores}c", f"smt{threads}", *order])


# -- pods --------------------------------------------------------------------------------------


def quantity_texts() -> SearchStrategy[str]:
    """Quantities of up to a few thousand CPUs, in every form that Kubernetes accepts."""
    number = st.integers(0, 4000)
    return st.one_of(
        number.map(str),
        st.builds(lambda whole, suffix: f"{whole}{suffix}", number, st.sampled_from("num")),
        st.builds(lambda whole, part: f"{whole}.{part:03}", number, st.integers(0, 999)),
        st.sampled_from(["1k", "1Ki", "2e0", "2E0", "2000e-3", ".5", "5.", "+1", "1e+1", "0"]),
    )


def any_quantity_texts() -> SearchStrategy[str]:
    """Quantities, near misses of them, and texts of any kind."""
    return st.one_of(
        quantity_texts(),
        st.from_regex(r"[+-]?[0-9.]{0,25}[eEinumkKMGTP]{0,2}[+-]?[0-9]{0,2}", fullmatch=True),
        st.text(),
    )


def containers(kind: Kind = Kind.APP) -> SearchStrategy[Container]:
    """Containers with or without requests and limits; a request is never above its limit."""
    amounts = st.integers(1, 16).map(lambda half: f"{half * 500}m")
    equal = st.builds(
        lambda name, cpu: Container(name, cpu, cpu, "64Mi", "64Mi", kind=kind),
        st.sampled_from(_NAMES), amounts | st.integers(1, 8).map(str),
    )  # fmt: skip
    request_only = st.builds(
        lambda name, cpu: Container(name, cpu_request=cpu, kind=kind),
        st.sampled_from(_NAMES), amounts,
    )  # fmt: skip
    bare = st.builds(lambda name: Container(name, kind=kind), st.sampled_from(_NAMES))
    return st.one_of(equal, request_only, bare)


@st.composite
def pods(draw: st.DrawFn, *, names: SearchStrategy[str] = _POD_NAMES) -> Pod:
    """Valid pods of any QoS class: some init containers and sidecars, then at least one app
    container, all of different names."""
    before = draw(st.lists(st.sampled_from([Kind.INIT, Kind.SIDECAR]), max_size=2))
    apps = draw(st.integers(1, 2))
    parts = [draw(containers(kind)) for kind in [*before, *[Kind.APP] * apps]]
    named = [
        Container(f"{one.name}{number}", one.cpu_request, one.cpu_limit, one.memory_request,
                  one.memory_limit, one.kind)
        for number, one in enumerate(parts)
    ]  # fmt: skip
    return Pod(draw(names), tuple(named))


@st.composite
def guaranteed_pods(
    draw: st.DrawFn, *, max_cpus: int = 8, names: SearchStrategy[str] = _POD_NAMES
) -> Pod:
    """Pods whose containers all get exclusive CPUs."""
    wanted = draw(st.lists(st.integers(1, max_cpus).map(str), min_size=1, max_size=3))
    made = [
        Container(f"c{number}", cpus, cpus, "64Mi", "64Mi") for number, cpus in enumerate(wanted)
    ]
    return Pod(draw(names), tuple(made))


@st.composite
def pod_level_pods(
    draw: st.DrawFn, *, max_cpus: int = 8, names: SearchStrategy[str] = _POD_NAMES
) -> Pod:
    """Guaranteed pods that request CPUs as a whole, with containers that request some of them and
    containers that request none. Some leave no CPU for the latter."""
    before = draw(st.lists(st.sampled_from([Kind.INIT, Kind.SIDECAR]), max_size=2))
    kinds = [*before, *[Kind.APP] * draw(st.integers(1, 3))]
    left, parts = max_cpus, []
    for number, kind in enumerate(kinds):
        cpus = draw(st.integers(0, left))
        if kind is not Kind.INIT:
            left -= cpus
        cpu, memory = (str(cpus), "16Mi") if cpus else (None, None)
        parts.append(Container(f"c{number}", cpu, cpu, memory, memory, kind))
    whole = str(max_cpus)
    resources = PodResources(whole, whole, "256Mi", "256Mi")
    return Pod(draw(names), tuple(parts), resources=resources)


# -- settings ----------------------------------------------------------------------------------

#: The first minor in which an option is stable.
_SINCE: Final[Mapping[str, int]] = {
    "full-pcpus-only": 33,
    "strict-cpu-reservation": 35,
    "prefer-align-cpus-by-uncorecache": 36,
}


@st.composite
def kubelet_configs(draw: st.DrawFn, *, release: AnyRelease = f"1.{LATEST}") -> KubeletConfig:
    """Settings that a kubelet of ``release`` accepts on any machine with at least two CPUs: a
    policy, one reserved CPU, and stable options that need no feature gate."""
    minor = Release.parse(str(release)).minor
    known = [name for name, since in _SINCE.items() if since <= minor]
    policy = draw(st.sampled_from(["static", "static", "static", "none"]))
    chosen = draw(st.frozensets(st.sampled_from(known))) if known and policy == "static" else ()
    options = {name: draw(st.sampled_from(["true", "false"])) for name in sorted(chosen)}
    if draw(st.booleans()) and has(release, Behaviour.RESERVED_CPU_LIST):
        return KubeletConfig(policy, CPUSet([0]), policy_options=options)
    reserved = draw(st.sampled_from(["1", "500m", "1000m"]))
    return KubeletConfig(policy, system_reserved=reserved, policy_options=options)


# -- state files -------------------------------------------------------------------------------


@st.composite
def checkpoints(
    draw: st.DrawFn,
    *,
    release: AnyRelease = f"1.{LATEST}",
    feature_gates: Mapping[str, bool] | None = None,
    names: SearchStrategy[str] | None = None,
    max_cpu: int = _MAX_CPU,
) -> Checkpoint:
    """State files that a kubelet of ``release`` may write and will read: up to 1.17 by container
    id, later by pod, with pod entries and baselines if the release and its gates have them."""
    gates = feature_gates or {}
    name = st.text(st.characters(codec="utf-8"), max_size=8) if names is None else names
    cpus = cpusets(max_cpu=max_cpu)
    by_name = st.dictionaries(name, cpus, max_size=3)
    policy = draw(st.sampled_from(["static", "static", "none"]))
    default = draw(cpus)
    if not has(release, Behaviour.KEYED_BY_POD):
        held = draw(by_name)
        return Checkpoint(policy, default, {"": held} if held else {})
    entries = draw(st.dictionaries(name, by_name, max_size=3))
    pod_entries, baselines = {}, {}
    if has(release, Behaviour.POD_LEVEL_MANAGERS) and gates.get("PodLevelResourceManagers"):
        pod_entries = draw(st.dictionaries(name, cpus, max_size=2))
    if has(release, Behaviour.STATE_WITH_DATA) and gates.get(
        "InPlacePodVerticalScalingExclusiveCPUs"
    ):
        # Each container has a baseline; a kubelet reads a file without any as if they were the
        # entries.
        baselines = {uid: {one: draw(cpus) for one in held} for uid, held in entries.items()}
    return Checkpoint(policy, default, entries, pod_entries, baselines)


# -- steps -------------------------------------------------------------------------------------


def steps(
    *, release: AnyRelease = f"1.{LATEST}", pod_names: tuple[str, ...] = ("p1", "p2", "p3")
) -> SearchStrategy[Step]:
    """Any one step; whether a node can take it depends on its state."""
    names = st.sampled_from(pod_names)
    return st.one_of(
        st.sampled_from([Start(), Stop(), Stop(kill=True), Reboot(), RemoveState()]),
        st.just(AwaitReconcile()),
        st.builds(Apply, pods(names=names) | guaranteed_pods(names=names)),
        st.builds(Delete, names),
        st.builds(Configure, kubelet_configs(release=release)),
        checkpoints(release=release, names=st.sampled_from(_NAMES)).map(
            lambda one: WriteState(one.dumps(release=release))
        ),
    )
