"""What is drawn: which values there are, which of them a history shows, and what meets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import pytest

import hunting.exploring
from conformance.discovered import info_of
from conformance.subject import OF_WHOLE_KUBELETS, Capability
from conformance.subjects import open_subject
from hunting.exploring.covering import Covering
from hunting.exploring.drafting import is_legal
from hunting.exploring.drawing import Drawn, drafted, drawn
from hunting.exploring.driving import Walk, walked
from hunting.exploring.events import LASTING
from hunting.exploring.factors import BY_NAME, FACTORS, PLAIN, QUIET, TAKES, THEMES, offered
from hunting.exploring.history import History
from hunting.exploring.plan import plan_at
from hunting.exploring.rows import Row
from hunting.exploring.settings import machine_of
from pinproof.explore import MACHINES, OTHERS
from reference import CPUSet, Node
from reference.cpumanager.cpu_manager import CPUManager
from reference.cpumanager.policy_static import StaticPolicy
from reference.devicemanager.manager import DeviceManager
from reference.devicemanager.pod_devices import Held
from reference.memorymanager.policy_static import MemoryManager
from reference.pods.pod_level_resources import empty_pool_fault
from reference.pods.qos import pod_milli_cpus
from reference.steps import Apply, Container, Delete, FailUpdates, Kind, KubeletConfig, Pod
from reference.topologymanager.hint import Hint
from reference.view import View

_EVERY: Final = frozenset(Capability)
#: What a CPU manager that is no whole kubelet can do.
_EXEC: Final = _EVERY - OF_WHOLE_KUBELETS
_MACHINE: Final = "2s-2n-8c-smt2"
#: Twice as many would be needed if no other story were told after that of a row.
_MOST: Final = 600
#: Events that no release before 1.17 shows: it counts on CPUs by pod alone, and the model does not
#: know what becomes of a container that is killed there.
_ENDS: Final = ("kill a", "a container ends", "killed ")


@lru_cache
def _drawing() -> tuple[Covering, tuple[Drawn, ...]]:
    """What is drawn until more than 95 % of the pairs have met, and not for ever."""
    covering = Covering(offered("1.36", _EVERY), "seed")
    made: list[Drawn] = []
    while len(made) < _MOST and covering.met <= 0.95 * covering.possible:
        one = drawn(covering, _MACHINE, "1.36")
        made += [one] if one else []
    return covering, tuple(made)


def _of(covering: Covering, count: int) -> list[Drawn | None]:
    return [drawn(covering, _MACHINE, "1.36") for _ in range(count)]


def _offered(release: str) -> list[tuple[str, str]]:
    every = offered(release, _EVERY).items()
    return [(name, value) for name, values in every for value in values]


def _with(name: str, value: str) -> Row:
    """The plain row with one value, and with what that takes to show."""
    return {**PLAIN, **TAKES.get((name, value), {}), name: value}


def _made(row: Row, machine: str = _MACHINE) -> Drawn:
    """The history of a row that can be shown."""
    made = drafted(row, machine, "1.36")
    assert made is not None, row
    return made


def _applied(history: History) -> list[Pod]:
    return [one.pod for one in history.taken if isinstance(one, Apply)]


# -- which values there are ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "machine"),
    [
        *((release, _MACHINE) for release in ("1.37", "1.32", "1.26", "1.23", "1.22")),
        # All but what the model does not know there.
        *((release, _MACHINE) for release in ("1.18", "1.16", "1.9")),
        # Those that are explored where none is named; one of them is a capture, whose name no
        # description has.
        *(("1.36", machine) for machine in MACHINES),
    ],
)
def test_a_history_shows_every_value_that_is_offered(release: str, machine: str) -> None:
    """Each beside plain ones; and the kubelet runs with it, else nothing is seen of pods."""
    for name, value in _offered(release):
        if value.startswith(_ENDS) and release in ("1.16", "1.9"):
            continue
        made = drafted(_with(name, value), machine, release)
        assert made is not None, (name, value)
        assert {name, "before"} <= made[1], (name, value)


@pytest.mark.parametrize(("release", "drafts"), [("1.36", True), ("1.37", False)])
def test_no_kubelet_gets_a_pod_whose_class_an_older_api_server_has_decided(
    release: str, drafts: bool
) -> None:
    """Pod-level resources of nothing decide it up to 1.36, of which the API server is."""
    row = {**_with("class", "pod-level of nothing"), "pods from": "API server"}
    assert (drafted(row, _MACHINE, release) is not None) is drafts


@pytest.mark.parametrize("machine", OTHERS)
def test_histories_are_drawn_on_machines_of_other_kinds(machine: str) -> None:
    """They are walked on the model; and one boots as a smaller machine, where CPUs were online."""
    covering, subject = Covering(offered("1.36", _EVERY), machine), open_subject("reference")
    for _ in range(5):
        made = drawn(covering, machine, "1.36")
        if made is not None:
            assert walked(Walk("one", made.history), subject, "1.36").verdict == "pass"
    smaller = _made({**PLAIN, "event": "smaller machine"}, machine)
    assert ("event" in smaller.shown) == ("-off" not in machine)


def test_what_a_release_lacks_is_not_offered() -> None:
    """1.26 has neither sidecars, pod-level resources nor resizes; 1.22 has three options fewer."""
    values = offered("1.26", _EVERY)
    assert values["sidecar"] == ("none",)
    assert not [one for one in values["class"] if one.startswith("pod-level")]
    assert values["max-allowable-numa-nodes"] == ("off",)
    assert values["gates"] == ("as released", "beta options off")
    assert values["CFS quota"] == ("of 100 ms", "off")
    assert not {"grow", "shrink", "grow too far"} & {*values["event"]}
    assert values["prefer-align-cpus-by-uncorecache"] == ("off",)
    assert values["distribute-cpus-across-numa"] == ("off", "on")
    assert offered("1.22", _EVERY)["distribute-cpus-across-numa"] == ("off",)
    assert offered("1.22", _EVERY)["full-pcpus-only"] == ("off", "on")


def test_what_a_subject_cannot_do_is_not_offered() -> None:
    """A CPU manager alone has no API server, devices, memory, quotas or amounts reserved."""
    values = offered("1.36", _EXEC)
    plain = ("pods from", "devices", "memory manager", "CFS quota", "requested devices", "memory")
    assert {name: values[name] for name in plain} == {name: (PLAIN[name],) for name in plain}
    lacking = {"grow", "ephemeral container", "refuse one update", "tamper with a quota"}
    assert not lacking & {*values["event"]}
    assert {"restart", "kill", "delete", "reboot"} <= {*values["event"]}
    assert "halves" not in values["reservation"]
    assert offered("1.36", {Capability.PODS})["event"][:2] == ("none", "delete")


def test_a_value_that_is_not_offered_is_not_drawn() -> None:
    """Nor one that takes it."""
    values = offered("1.26", _EXEC)
    for made in _of(Covering(values, 1), 60):
        if made is not None:
            assert all(value in values[name] for name, value in made.row.items())


def test_every_factor_has_a_plain_value_and_no_value_twice() -> None:
    for one in FACTORS:
        assert len(set(one.values)) == len(one.values) > 1
        assert {*one.needs, *one.since} <= {*one.values, "*"}
    assert all(value in BY_NAME[name].values for name, value in TAKES)


# -- what meets ------------------------------------------------------------------------------------


def test_every_value_is_drawn_and_most_pairs_meet() -> None:
    """Within 600 histories on one machine, more than 95 % of the pairs that can meet."""
    covering, made = _drawing()
    assert covering.met > 0.95 * covering.possible
    assert covering.possible > 0.97 * covering.total
    shown = {(name, one.row[name]) for one in made for name in one.shown}
    assert shown == set(_offered("1.36"))


def test_what_is_drawn_is_legal() -> None:
    """A model takes every step of it, from the first to the last."""
    for one in _drawing()[1][::7]:
        assert is_legal(one.history.task("1.36"), one.history.taken), one.history


def test_the_same_seed_draws_the_same() -> None:
    """And another one something else."""
    values = offered("1.36", _EVERY)
    first, second, other = (_of(Covering(values, seed), 12) for seed in ("a", "a", "b"))
    assert first == second
    assert first != other


def test_the_last_pairs_are_not_held_up_by_rows_of_chance() -> None:
    """A row that is drawn by chance is for no pair."""
    values = {one.name: one.values[:2] for one in FACTORS}
    covering = Covering(values, 1)

    def by_chance(count: int) -> int:
        return sum(wanted is None for _ in range(count) for _, wanted in covering.draw())

    assert by_chance(30) == 10
    while covering.met < 0.9 * covering.possible:
        row, _ = covering.draw()[0]
        covering.note(row, list(row))
    assert by_chance(30) == 0
    for pair in covering.left:
        covering.note(dict(pair), [name for name, _ in pair])
    assert by_chance(30) == 30


def test_a_pair_that_is_not_possible_is_given_up() -> None:
    """No sidecar is killed where there is none; all other pairs meet."""
    values: dict[str, tuple[str, ...]] = {name: (plain,) for name, plain in PLAIN.items()}
    values |= {"event": ("none", "kill a sidecar"), "sidecar": ("none", "two")}
    covering = Covering(values, 1)
    for _ in range(60):
        drawn(covering, _MACHINE, "1.36")
    assert covering.left == []
    assert covering.given_up == [(("event", "kill a sidecar"), ("sidecar", "none"))]
    assert covering.met == covering.possible == covering.total - 1


# -- what a value means ----------------------------------------------------------------------------


def test_updates_are_refused_so_often_that_a_node_comes_to_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The model goes through a round for each, and so does a kubelet, every tenth of a second."""
    rounds = 0
    plainly = CPUManager.reconcile

    def counted(*args: object) -> object:
        nonlocal rounds
        rounds += 1
        return plainly(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(CPUManager, "reconcile", counted)
    row = {**_with("event", "refuse twenty updates"), "before": "a shared pod"}
    assert FailUpdates(20) in _made(row).history.taken
    assert 20 <= rounds < 100


@pytest.mark.parametrize("shape", [{}, {"sidecar": "before init", "init": "larger", "apps": "2"}])
@pytest.mark.parametrize(
    ("size", "cpus"),
    [
        ("what is left", 12),
        ("what is left and one", 13),
        ("what a NUMA node has left", 8),
        ("what a NUMA node has left and one", 9),
        ("what the fullest NUMA node has left", 4),
        ("what all NUMA nodes but one have left and one", 9),
    ],
)
def test_a_pod_takes_just_what_others_have_left(
    shape: dict[str, str], size: str, cpus: int
) -> None:
    """All told, so its other containers count. Of 16 CPUs two are reserved, and the first pod takes
    two: the first NUMA node has four left, the second eight. What is more than that is refused."""
    made = _made({**PLAIN, **shape, "before": "one pod", "size": size})
    _, own = _applied(made.history)
    assert pod_milli_cpus(own) == 1000 * cpus
    assert bool(made.refusals) == (cpus > 12)


def test_a_manifest_that_is_put_back_has_the_uid_of_before() -> None:
    """Once the kubelet has forgotten it, which takes longer than a round of a tenth of a second."""
    row = _with("event", "put back later")
    history = _made(row).history
    first, between, second = _applied(history)
    assert first == second
    assert between.uid != first.uid
    assert history.task("1.36").config.reconcile_period == 2_500
    for other in ({"pods from": "API server"}, {"restart policy": "Never but of one"}):
        assert "event" not in _made({**row, **other}).shown


def test_a_pod_takes_one_cpu_more_than_all_numa_nodes_but_one_have() -> None:
    """Of four NUMA nodes with eight CPUs one has two reserved."""
    row = {**PLAIN, "size": "what all NUMA nodes but one have left and one"}
    made = _made(row, "qemu-2s-4n-16c-smt2-near-l3s")
    assert [pod_milli_cpus(one) for one in _applied(made.history)] == [25_000]


def _seen(history: History) -> Sequence[tuple[View, object]]:
    """What the model shows after each step, and which devices it reports then."""
    task = history.task("1.36")
    node = Node(lambda name: machine_of(name).tree, task.machine, task.config, release="1.36",
                discovering=info_of)  # fmt: skip
    views = []
    for step in history.taken:
        node.do(step)
        view = node.view()
        views.append((view, view.devices))
    return views


def _is_init_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod without CPUs for an init container is admitted."""
    plainly = empty_pool_fault

    def wrong(pod: Pod, total: int, counts: Mapping[str, int]) -> str:
        others = tuple(one for one in pod.containers if one.kind is not Kind.INIT)
        return plainly(replace(pod, containers=others), total, counts)

    monkeypatch.setattr("reference.cpumanager.policy_static.empty_pool_fault", wrong)


def _is_memory_no_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that init containers leave counts in no hint."""
    plainly = MemoryManager.calculate_hints

    def wrong(self: MemoryManager, pod: Pod, requested: Mapping[str, int]) -> list[Hint]:
        fresh = self.copy()
        fresh._reusable = {}
        return plainly(fresh, pod, requested)

    monkeypatch.setattr(MemoryManager, "calculate_hints", wrong)


def _is_device_no_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that init containers leave count in no hint."""
    plainly = DeviceManager._hints

    def wrong(self: DeviceManager, resource: str, requested: int, held: Held | None, _: object) \
            -> list[Hint] | None:  # fmt: skip
        return plainly(self, resource, requested, held, ())

    monkeypatch.setattr(DeviceManager, "_hints", wrong)


def _is_reuse_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs of init containers are offered to their pod after others were admitted, too."""
    offered: dict[str, CPUSet] = {}

    def offer(self: StaticPolicy, pod: Pod, container: Container, cpus: CPUSet) -> None:
        before = offered.get(pod.uid, CPUSet())
        offered[pod.uid] = self.reusable_after(before, container, cpus)

    monkeypatch.setattr(StaticPolicy, "_offer", offer)
    monkeypatch.setattr(StaticPolicy, "reusable", lambda _, pod: offered.get(pod.uid, CPUSet()))


def _are_devices_of_sidecars_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app container uses a device of the sidecar that runs beside it."""
    plainly = DeviceManager.allocate

    def wrong(
        self: DeviceManager, pod: Pod, container: Container, resource: str, hint: Hint | None
    ) -> None:
        kind = Kind.INIT if container.kind is Kind.SIDECAR else container.kind
        plainly(self, pod, replace(container, kind=kind), resource, hint)

    monkeypatch.setattr(DeviceManager, "allocate", wrong)


@pytest.mark.parametrize(
    ("wrong", "row"),
    [
        (_is_init_forgotten, {**_with("class", "pod-level of apps that share"),
                              "init": "unlimited", "size": "1"}),
        (_is_memory_no_hint, {**_with("memory", "as much for init"),
                              "topology policy": "restricted"}),
        (_is_device_no_hint, {**_with("requested devices", "more by init"),
                              "topology policy": "restricted",
                              "devices": "near the last NUMA node"}),
        (_are_devices_of_sidecars_lent, _with("requested devices", "by sidecar and app")),
        (_is_reuse_kept, {**_with("event", "put back later"), "init": "larger"}),
    ],
)  # fmt: skip
def test_a_row_shows_the_rule_that_its_values_are_for(
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[pytest.MonkeyPatch], None],
    row: dict[str, str],
) -> None:
    """A node without the rule shows something else."""
    history = _made(row).history
    right = _seen(history)
    wrong(monkeypatch)
    assert _seen(history) != right


def test_factors_that_disturb_nothing_vary_in_every_history() -> None:
    """So they meet the others sooner, and no row has to be drawn for them."""
    rows = [one.row for one in _drawing()[1][:200]]
    for name in QUIET:
        assert sum(row[name] != PLAIN[name] for row in rows) > len(rows) / 4, name


def test_more_pods_come_after_the_story_of_a_row() -> None:
    """So many that a kubelet is asked more of its settings than one pod asks."""
    rows = [one for one in _drawing()[1][:200] if len(one.shown) > 20]
    longer = [
        one
        for one in rows
        if (plain := drafted(one.row, _MACHINE, "1.36")) is not None
        and len(_applied(one.history)) >= len(_applied(plain.history)) + 2
    ]
    assert len(longer) > len(rows) / 2


def _one_of(values: Mapping[str, tuple[str, ...]]) -> tuple[Covering, History]:
    """The first history of these values; all other factors are plain."""
    covering = Covering({**{name: (plain,) for name, plain in PLAIN.items()}, **values}, 1)
    made = drawn(covering, _MACHINE, "1.36")
    assert made is not None
    return covering, made.history


def test_another_story_is_told_on_the_node_of_a_row() -> None:
    """Once the row's pod has gone. Its event meets its size: of four such pairs two are left."""
    values = {"size": ("2", "1"), "event": ("kill", "restart")}
    covering, history = _one_of(values)
    own, again = (pod for pod in _applied(history) if pod.name in ("pod", "pod-b"))
    gone, comes = (history.taken.index(one) for one in (Delete(own.name), Apply(again)))
    assert gone < comes
    assert {pod_milli_cpus(own), pod_milli_cpus(again)} == {1000, 2000}
    assert len([one for one in covering.left if {name for name, _ in one} == {*values}]) == 2


def test_updates_are_refused_where_rounds_come_quickly() -> None:
    """Each takes a round to be tried again. So no such story follows one that takes slow rounds."""
    refusing = [
        one.history.task("1.36").config.reconcile_period
        for one in _drawing()[1]
        if any(isinstance(step, FailUpdates) for step in one.history.taken)
    ]
    assert len(refusing) > 20
    assert set(refusing) == {KubeletConfig().reconcile_period}


@pytest.mark.parametrize("event", LASTING)
def test_no_other_story_is_told_on_a_node_that_is_not_as_its_row_says(event: str) -> None:
    _, history = _one_of({"event": (event,), "full-pcpus-only": ("on",)})
    assert [pod.name for pod in _applied(history) if pod.name.startswith("pod")] == ["pod"]


def test_every_theme_suits_a_node_and_its_values_are_known() -> None:
    for theme in THEMES:
        assert {*theme.names, *theme.of} <= BY_NAME.keys()
        assert all({*values} <= {*BY_NAME[name].values} for name, values in theme.of.items())
        assert theme.suits({**PLAIN, **{name: values[0] for name, values in theme.of.items()}})
    assert {one.suits(PLAIN) for one in THEMES} == {True, False}


def test_the_page_has_the_table_of_factors() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/exploring.md").read_text()
    rows = [f"| {one.name} | {', '.join(one.values)} |" for one in FACTORS]
    start = page.index(rows[0])
    assert page[start : page.index("\n\n", start)] == "\n".join(rows)


# -- plans that are kept, and walked by CI on a real kubelet ---------------------------------------

_FOLDER = Path(hunting.exploring.__file__).parent / "plans"


@pytest.mark.parametrize("path", sorted(_FOLDER.iterdir()), ids=lambda path: path.name)
def test_the_model_knows_every_history_of_a_kept_plan(path: Path) -> None:
    """The plan's name says on which machine, and by which release."""
    machine, _, release = path.name.removesuffix(".json.xz").rpartition("-")
    histories = plan_at(path)
    assert len(histories) > 150
    assert {one.machine.partition("-128mib")[0] for one in histories} == {machine}
    for number, one in enumerate(histories, start=1):
        assert is_legal(one.task(release), one.taken), number
