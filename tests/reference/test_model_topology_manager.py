"""The Topology Manager: settings, merging and admission. Texts were seen on the real kubelets
1.17.17, 1.20.15, 1.26.15, 1.32.2 and 1.36.4 unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from reference import ConfigurationError, CPUSet, NotModelled
from reference.errors import InvalidConfiguration, NotEnoughCPUs, TopologyAffinityError
from reference.kubelet.admission import Refusal, refusal_of
from reference.machine.machineinfo import MachineInfo, NUMANode
from reference.steps import Container, Kind, KubeletConfig, Pod
from reference.topologymanager.hint import ANY, Hint
from reference.topologymanager.policy import Merger
from reference.topologymanager.topology_manager import TopologyManager
from reference.topologymanager.validation import TopologyPolicy
from tests.reference.nodes import hint_text

CLOSEST, LIMIT = "prefer-closest-numa-nodes", "max-allowable-numa-nodes"
GATE = "TopologyManagerPolicyOptions"
ON, OFF = {"TopologyManager": True}, {"TopologyManager": False}
NO_BETA = {"TopologyManagerPolicyBetaOptions": False}


def machine(nodes: int, *distances: tuple[int, ...]) -> MachineInfo:
    """A machine with that many NUMA nodes, ids from 0."""
    rows = distances or ((),) * nodes
    numa = tuple(NUMANode(one, 0, (), distances=row) for one, row in enumerate(rows))
    return MachineInfo(nodes, nodes, 1, numa)


def config(
    policy: str = "restricted",
    *,
    scope: str = "container",
    options: Mapping[str, str] | None = None,
    gates: Mapping[str, bool] | None = None,
) -> KubeletConfig:
    return KubeletConfig(
        topology_manager_policy=policy,
        topology_manager_scope=scope,
        topology_manager_policy_options=options or {},
        feature_gates=gates or {},
    )


def hints(text: str) -> list[Hint]:
    """Of ``0 P, 01, any P``, as :func:`hint_text` writes one."""
    made = []
    for one in filter(None, text.split(", ")):
        nodes, _, preferred = one.partition(" ")
        mask = ANY if nodes == "any" else CPUSet(map(int, nodes)).mask
        made.append(Hint(mask, preferred == "P"))
    return made


# -- settings --------------------------------------------------------------------------------

_LISTED = '["none" "best-effort" "restricted" "single-numa-node"]'


def _wrapped(fault: str) -> str:
    return (
        f"failed to validate kubelet configuration, error: {fault}, "
        "path: &TypeMeta{Kind:,APIVersion:,}"
    )


POLICY = "invalid configuration: topologyManagerPolicy"
SCOPE = "invalid configuration: topologyManagerScope"
GATED = "requires feature gate TopologyManager"


POLICY_FAULT = f'{POLICY} (--topology-manager-policy) "x" must be one of: {_LISTED}'
SCOPE_FAULT = f'{SCOPE} (--topology-manager-scope) "x" must be one of: "container", or "pod"'


GATE_26 = {GATE: True}
CLOSEST_GATED = f"topology manager policy options map[{CLOSEST}:true] require feature gates "
TOO_MANY = "unsupported on machines with more than {} NUMA Nodes"


@pytest.mark.parametrize(
    ("release", "nodes", "given", "expected"),
    [
        # ``topologymanager.NewManager``, 1.17.17 to 1.19.9, before there was validation (read in
        # the source).
        ("1.19", 2, config("x"), 'unknown policy: "x"'),
        ("1.17", 2, config("x", gates=ON), 'unknown policy: "x"'),
        # ``policy_options.go``; 1.27 and 1.34 read in the source.
        ("1.36", 2, config(options={LIMIT: "9" * 19}),
         f'unable to convert policy option to integer "{LIMIT}": strconv.Atoi: parsing '
         f'"{"9" * 19}": value out of range'),
        ("1.36", 2, config(options={LIMIT: "-9"}),
         f'the minimum value of "{LIMIT}" should not be less than 8'),
        ("1.26", 2, config(options={CLOSEST: "true"}),
         f'{CLOSEST_GATED}"TopologyManager", "{GATE}" enabled'),
        ("1.27", 2, config(options={CLOSEST: "true"}), f'{CLOSEST_GATED}"{GATE}" enabled'),
        ("1.26", 2, config(options={CLOSEST: "true"}, gates=GATE_26),
         "Topology Manager Policy Alpha-level Options not enabled, but option "
         f'"{CLOSEST}" provided'),
        ("1.34", 2, config(options={LIMIT: "9"}, gates=NO_BETA),
         f'topology manager policy beta-level options not enabled, but option "{LIMIT}" provided'),
        # ``NewNUMAInfo``, 1.26 to 1.37: the closest cannot be preferred without distances.
        ("1.36", 2, config(options={CLOSEST: "true"}),
         "cannot discover NUMA topology: error getting NUMA distances from cadvisor"),
        # Nodes without CPUs count. Up to 1.17 under policy none as well, where the gate is on (read
        # in the source); max-allowable-numa-nodes came in 1.31 (KEP-4622).
        ("1.36", 10, config(options={LIMIT: "9"}), TOO_MANY.format(9)),
        ("1.36", 10, config(options={LIMIT: "8"}), TOO_MANY.format(8)),
        ("1.30", 9, config(), TOO_MANY.format(8)),
        ("1.17", 9, config("none", gates=ON), TOO_MANY.format(8)),
    ],
)  # fmt: skip
def test_settings_refused_on_a_machine(
    release: str, nodes: int, given: KubeletConfig, expected: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        TopologyManager(machine(nodes), given, release=release)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("release", "given", "expected"),
    [
        ("1.36", config("none", scope="x"), _wrapped(SCOPE_FAULT)),
        ("1.36", config("x", scope="x"), _wrapped(f"[{POLICY_FAULT}, {SCOPE_FAULT}]")),
        ("1.23", config("x", scope="y"),
         f"[{POLICY} non-allowable value: x, {SCOPE} non-allowable value: y]"),
        ("1.26", config(gates=OFF), _wrapped(f"{POLICY} restricted {GATED}")),
        ("1.20", config("none", scope="pod", gates=OFF), f"{SCOPE} pod {GATED}"),
        ("1.17", config(), f"invalid configuration: TopologyManager restricted {GATED}"),
    ],
)  # fmt: skip
def test_settings_refused_by_themselves(release: str, given: KubeletConfig, expected: str) -> None:
    """``apis/config/validation``."""
    with pytest.raises(InvalidConfiguration) as caught:
        TopologyManager(machine(2), given, release=release)
    assert str(caught.value) == expected


@pytest.mark.parametrize("release", ["1.15", "1.17"])
def test_releases_without_it(release: str) -> None:
    """1.16 and 1.17 have it behind a gate that is off; the setting is no field before."""
    given = config("none") if release == "1.17" else config("x", scope="y", options={"a": "b"})
    assert TopologyManager(machine(9), given, release=release).policy is TopologyPolicy.NONE


def test_the_scope_is_no_setting_before_1_20() -> None:
    """PR 92967; the kubelet passes over fields that it does not know."""
    assert TopologyManager(machine(2), config(scope="x"), release="1.19").scope == "container"
    assert TopologyManager(machine(2), config(scope="pod"), release="1.20").scope == "pod"


def test_either_of_two_faulty_options_may_be_named() -> None:
    """Go walks the map in random order."""
    with pytest.raises(ConfigurationError) as caught:
        TopologyManager(machine(2), config(options={"a": "", "b": ""}))
    assert len(caught.value.possible) == 2


def test_policy_none_and_its_options() -> None:
    """1.26 and 1.27 look at them under none too (PR 116738), but with the whole manager gated out
    nobody reads them (``server.go``, 1.26.15)."""
    given = config("none", options={"a": "b"}, gates=GATE_26)
    assert TopologyManager(machine(2), given, release="1.28").policy is TopologyPolicy.NONE
    with pytest.raises(ConfigurationError, match='unknown Topology Manager Policy option: "a"'):
        TopologyManager(machine(2), given, release="1.27")
    TopologyManager(machine(2), config("none", options={"a": "b"}, gates=OFF), release="1.26")


def test_distances_are_needed_only_to_prefer_the_closest() -> None:
    TopologyManager(machine(2), config(options={CLOSEST: "false"}))
    TopologyManager(machine(2, (10, 21), (21, 10)), config(options={CLOSEST: "true"}))


@pytest.mark.parametrize(
    ("release", "policy", "nodes"), [("1.36", "restricted", 8), ("1.20", "none", 9)]
)
def test_numbers_of_numa_nodes_that_are_served(release: str, policy: str, nodes: int) -> None:
    TopologyManager(machine(nodes), config(policy), release=release)


@pytest.mark.parametrize("strange", [64, 255, -1])
def test_node_ids_that_do_not_fit(strange: int) -> None:
    """The kubelet's masks have 64 bits (``bitmask.go``)."""
    info = MachineInfo(2, 2, 1, (NUMANode(0, 0, ()), NUMANode(strange, 0, ())))
    with pytest.raises(NotModelled, match=f"NUMA node {strange}: .* panics at its first pod"):
        TopologyManager(info, config())
    TopologyManager(info, config("none"))


# -- merging ---------------------------------------------------------------------------------


def merged(lists: list[str], *, nodes: int = 2, release: str = "1.36", **more: object) -> str:
    """What is made of these lists on a machine with that many NUMA nodes."""
    merger = replace(Merger((1 << nodes) - 1, release=release), **more)  # type: ignore[arg-type]
    return hint_text(merger.merge([hints(one) for one in lists]))


@pytest.mark.parametrize(
    ("lists", "nodes", "release", "expected"),
    [
        # ``HintMerger``, 1.24 to 1.37.
        (["0 P, 1 P, 01"], 2, "1.36", "0 P"),
        (["1 P, 01"], 2, "1.36", "1 P"),
        (["01"], 2, "1.36", "01"),
        (["any P"], 2, "1.36", "01 P"),
        (["any"], 2, "1.36", "01"),
        ([""], 2, "1.36", "01"),
        ([], 2, "1.36", "01 P"),
        (["0 P, 1 P, 01", "1 P, 01"], 2, "1.36", "1 P"),
        (["0 P, 01", "1 P, 01"], 2, "1.36", "0"),  # no pair is equal; one node is enough for each
        (["0 P", "1 P"], 2, "1.36", "01"),
        (["any P", "1 P, 01"], 2, "1.36", "1 P"),
        (["any", "1 P, 01"], 2, "1.36", "1"),
        # 1.24 prefers equal masks alone, and goes for as many nodes as the neediest resource has.
        (["0 P, 01 P", "01 P"], 4, "1.36", "01 P"),
        (["0 P, 01 P", "01 P"], 4, "1.23", "0 P"),  # a container that needs both got one
        (["01 P", "0 P, 1 P"], 4, "1.36", "0"),
        (["01 P", "0 P, 1 P"], 4, "1.23", "0 P"),
        (["012, 0123", "0, 1"], 4, "1.36", "0"),
        (["012, 0123", "0, 1"], 4, "1.23", "0"),
        (["01, 012", "0, 01, 012"], 4, "1.36", "01"),
        (["01, 012", "0, 01, 012"], 4, "1.23", "0"),
        # Not preferred, and no narrower: the default remains (``mergeFilteredHints``).
        (["01"], 2, "1.23", "01"),
        (["01 P"], 2, "1.23", "01 P"),
        ([""], 2, "1.20", "01"),
    ],
)
def test_merging(lists: list[str], nodes: int, release: str, expected: str) -> None:
    assert merged(lists, nodes=nodes, release=release) == expected


#: Nodes 0 and 2 are neighbours, and so are 1 and 3.
NEIGHBOURS = {0: (10, 30, 20, 30), 1: (30, 10, 30, 20), 2: (20, 30, 10, 30), 3: (30, 20, 30, 10)}


def test_the_closest_nodes() -> None:
    """prefer-closest-numa-nodes (KEP-3545) decides between sets of one size alone."""
    pairs = "01 P, 02 P, 03 P, 12 P, 13 P, 23 P"
    assert merged([pairs], nodes=4) == "01 P"
    assert merged([pairs], nodes=4, distances=NEIGHBOURS) == "02 P"
    assert merged(["01 P, 03 P, 12 P, 13 P"], nodes=4, distances=NEIGHBOURS) == "13 P"
    assert merged(["1 P, 02 P"], nodes=4, distances=NEIGHBOURS) == "1 P"
    assert merged(["03 P, 12 P"], nodes=4, distances=NEIGHBOURS) == "12 P"  # bits 6 < 9


def test_distances_of_nodes_with_gaps_are_not_modelled() -> None:
    """The kubelet indexes the kernel's row by node id, and panics."""
    merger = Merger(0b100000001, {0: (10, 20), 8: (20, 10)})
    with pytest.raises(NotModelled, match="panics"):
        merger.merge([[Hint(0b1, True), Hint(0b100000000, True)]])
    both, first, last = 0b100000001, 0b1, 0b100000000  # seen on 1.26.15
    memory = [Hint(first, True), Hint(last, True), Hint(both, False)]
    with pytest.raises(NotModelled, match="panics"):
        merger.merge([[Hint(both, True)], memory])


# -- policies --------------------------------------------------------------------------------


class Recorder:
    """A provider that hands out nothing and remembers what it was asked for."""

    def __init__(self, *answers: list[Hint] | None, fails_at: int = 99) -> None:
        self.answers = list(answers)
        self.calls: list[str] = []
        self.fails_at = fails_at

    def hints(self, pod: Pod, container: Container) -> list[Hint] | None:
        self.calls.append(f"hints {container.name}")
        return self.answers.pop(0)

    def pod_hints(self, pod: Pod) -> list[Hint] | None:
        self.calls.append("pod hints")
        return self.answers.pop(0)

    def allocate(self, pod: Pod, container: Container, hint: Hint | None) -> None:
        self.calls.append(f"allocate {container.name} {hint_text(hint)}")
        if len(self.calls) >= self.fails_at:
            raise NotEnoughCPUs(2, 1)

    def allocate_pod(self, pod: Pod, hint: Hint | None) -> None:
        self.calls.append(f"allocate pod {hint_text(hint)}")


POD = Pod("p", (Container("i", kind=Kind.INIT), Container("a"), Container("b")))
SOLO = Pod("p", (Container("a"),))


def manager(
    policy: str, *, scope: str = "container", nodes: int = 2, release: str = "1.36"
) -> TopologyManager:
    """On a machine with that many NUMA nodes."""
    gates = ON if release.startswith(("1.16", "1.17")) else None
    return TopologyManager(
        machine(nodes), config(policy, scope=scope, gates=gates), release=release
    )


@pytest.mark.parametrize(
    ("policy", "given", "expected"),
    [
        ("best-effort", "0 P, 1 P, 01", "0 P"),
        ("best-effort", "01", "01"),
        ("best-effort", "", "01"),
        ("best-effort", None, "01 P"),
        ("restricted", "0 P, 1 P, 01", "0 P"),
        ("restricted", "01 P", "01 P"),
        ("restricted", "01", "refused"),
        ("restricted", "", "refused"),
        ("restricted", None, "01 P"),
        ("single-numa-node", "1 P, 01", "1 P"),
        ("single-numa-node", "01 P", "refused"),
        ("single-numa-node", "01", "refused"),
        ("single-numa-node", "", "refused"),
        ("single-numa-node", None, "None"),
        ("none", "0 P", "None"),
    ],
)
@pytest.mark.parametrize("release", ["1.18", "1.23", "1.36"])
def test_policies(policy: str, given: str | None, expected: str, release: str) -> None:
    """What the CPUs are handed out with; ``None`` is any node."""
    provider = Recorder(None if given is None else hints(given))
    if expected == "refused":
        with pytest.raises(TopologyAffinityError):
            manager(policy, release=release).admit(SOLO, provider)
        assert provider.calls == ["hints a"]
    else:
        manager(policy, release=release).admit(SOLO, provider)
        assert provider.calls[-1] == f"allocate a {expected}"


@pytest.mark.parametrize(
    ("policy", "scope", "answers", "calls"),
    [
        # Allocation alone (``admitPolicyNone``), init containers first; the scope does not matter.
        ("none", "container", [], "allocate i None, allocate a None, allocate b None"),
        ("none", "pod", [], "allocate i None, allocate a None, allocate b None"),
        # Hints of a later container are asked for once the earlier has its CPUs (1.18).
        ("restricted", "container", ["0 P", "1 P", "1 P, 01"],
         "hints i, allocate i 0 P, hints a, allocate a 1 P, hints b, allocate b 1 P"),
        # One mask for all containers (1.20).
        ("restricted", "pod", ["1 P, 01"],
         "pod hints, allocate i 1 P, allocate a 1 P, allocate b 1 P"),
    ],
)  # fmt: skip
def test_whom_a_scope_asks_and_when(
    policy: str, scope: str, answers: list[str], calls: str
) -> None:
    provider = Recorder(*map(hints, answers))
    manager(policy, scope=scope).admit(POD, provider)
    assert ", ".join(provider.calls) == calls


def test_single_numa_node_on_one_node() -> None:
    """The mask that is the whole machine means any."""
    provider = Recorder(hints("0 P"))
    manager("single-numa-node", nodes=1).admit(SOLO, provider)
    assert provider.calls == ["hints a", "allocate a None"]


def test_the_first_failure_ends_it() -> None:
    """Earlier containers keep what they got."""
    provider = Recorder(hints("0 P"), hints("01"))
    with pytest.raises(TopologyAffinityError):
        manager("restricted").admit(POD, provider)
    assert provider.calls == ["hints i", "allocate i 0 P", "hints a"]
    provider = Recorder(hints("0 P"), fails_at=2)
    with pytest.raises(NotEnoughCPUs):
        manager("restricted").admit(POD, provider)
    assert provider.calls == ["hints i", "allocate i 0 P"]


def test_up_to_1_17_hints_know_nothing_of_each_other() -> None:
    """All masks are computed before anybody has a CPU (issue 83476)."""
    provider = Recorder(None, hints("0 P, 1 P"), hints("0 P, 1 P"))
    given = manager("restricted", release="1.17").affinities(POD, provider)
    seen = [f"{name} {hint_text(hint)}" for name, hint in given.items()]
    assert seen == ["i 01 P", "a 0 P", "b 0 P"]
    assert provider.calls == ["hints i", "hints a", "hints b"]
    assert manager("none", release="1.17").affinities(SOLO, Recorder()) == {"a": None}


@pytest.mark.parametrize(
    ("release", "refused"), [("1.16.0", True), ("1.16.1", True), ("1.16.2", False), ("1.16", False)]
)
def test_single_numa_node_when_it_was_new(release: str, refused: bool) -> None:
    """1.16.0 and 1.16.1 refused pods that ask for CPUs alone (issue 83697)."""
    fresh = manager("single-numa-node", release=release)
    if refused:
        with pytest.raises(TopologyAffinityError):
            fresh.affinities(SOLO, Recorder(hints("0 P")))
    else:
        assert hint_text(fresh.affinities(SOLO, Recorder(hints("0 P")))["a"]) == "0 P"


UNALIGNED = "Resources cannot be allocated with Topology"


@pytest.mark.parametrize(
    ("release", "reason", "message"),
    [
        ("1.36", "TopologyAffinityError", f"Pod was rejected: {UNALIGNED} locality"),
        ("1.25", "TopologyAffinityError", f"Pod {UNALIGNED} locality"),
        ("1.17", "Topology Affinity Error", f"Pod {UNALIGNED} Locality"),
    ],
)
def test_how_a_refusal_looks(release: str, reason: str, message: str) -> None:
    """``status.reason`` and ``status.message``."""
    with pytest.raises(TopologyAffinityError) as caught:
        manager("restricted", release=release).affinities(SOLO, Recorder([]))
    assert refusal_of(caught.value, release) == Refusal(reason, message)
