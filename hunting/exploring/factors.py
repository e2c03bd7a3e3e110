"""What is drawn: factors with the values that a user would choose.

What belongs here: the table, and which values a release and a subject have. What never does: what
a value means (``settings``, ``before``, ``pods``); ``events`` has the table of what happens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from conformance.subject import Capability
from hunting.exploring.events import EVENTS, FINALLY, THEN, Event
from hunting.exploring.pods import HUGE_PAGES_OF, MEMORY_OF, RESIZE_POLICIES, SIDECARS
from hunting.exploring.rows import Part, Row
from hunting.exploring.settings import AMOUNTS
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import OPTIONS
from reference.feature_gates import readiness
from reference.releases import Release, has


@dataclass(frozen=True, slots=True)
class Factor:
    """One thing that varies. The first of its ``values`` is the plain one. ``needs``: what a
    subject must be able to do for a value (the key ``*``: for all but the plain one); ``since``:
    the first minor that has one, likewise. ``of_cpus``: it decides which CPUs a container gets, so
    its values are met in triples too. ``quiet``: it disturbs no other factor, so it varies in every
    row."""

    name: str
    part: Part
    values: tuple[str, ...]
    needs: Mapping[str, Capability] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
    of_cpus: bool = False
    quiet: bool = False

    @property
    def plain(self) -> str:
        """The value of a row that names none."""
        return self.values[0]

    def offered(self, minor: int, can: Collection[Capability]) -> tuple[str, ...]:
        """The values for this minor and a subject with these capabilities."""
        needs, since = self.needs, self.since
        return tuple(
            value
            for value in self.values
            if value == self.plain
            or (
                minor >= since.get(value, since.get("*", 0))
                and needs.get(value, needs.get("*", Capability.PODS)) in can
            )
        )


def _of_events(name: str, events: Mapping[str, Event], *, of_cpus: bool = False) -> Factor:
    """The factor that decides which of these events happens."""
    needs = {value: one.needs for value, one in events.items() if one.needs is not None}
    since = {value: one.since for value, one in events.items()}
    return Factor(name, Part.EVENT, tuple(events), needs, since, of_cpus)


_ON_OFF: Final = ("off", "on")
#: From this minor on a static pod may have a sidecar.
_SIDECARS: Final = 29
#: Sizes of whole pods that are measured by the CPUs that other pods have left.
OF_WHAT_IS_LEFT: Final = (
    "what a NUMA node has left", "what a NUMA node has left and one", "what is left",
    "what is left and one", "what the fullest NUMA node has left",
    "what all NUMA nodes but one have left and one",
)  # fmt: skip
_CONFIGURED: Final = {"*": Capability.CONFIGURE}

#: Every factor but the six options of the static policy, which have the kubelet's names.
_OTHERS: Final = (
    Factor("spelling", Part.SETTINGS, ("true", "1", "t", "T", "TRUE", "True"), quiet=True),
    Factor("options that are off", Part.SETTINGS, ("not given", "false", "0", "f", "F", "FALSE"),
           since={"*": 22}, needs=_CONFIGURED, quiet=True),
    Factor(
        "topology policy", Part.SETTINGS,
        ("none", "best-effort", "restricted", "single-numa-node"), since={"*": 16}, of_cpus=True,
    ),
    Factor("scope", Part.SETTINGS, ("container", "pod"), since={"*": 20}, of_cpus=True),
    Factor("prefer-closest-numa-nodes", Part.SETTINGS, _ON_OFF, since={"*": 26}),
    Factor("max-allowable-numa-nodes", Part.SETTINGS, _ON_OFF, since={"*": 31}, quiet=True),
    Factor(
        "reservation", Part.SETTINGS,
        ("first core", "first CPU", "last core", "CPU of each socket", "two cores", *AMOUNTS,
         "list and amount"),
        needs=dict.fromkeys((*AMOUNTS, "list and amount"), Capability.RESERVATION),
        of_cpus=True,
    ),
    Factor("memory manager", Part.SETTINGS, ("None", "Static", "None with reserved memory"),
           since={"*": 26},
           needs={"*": Capability.MEMORY}),
    Factor("pods from", Part.SETTINGS, ("manifests", "API server"),
           needs={"*": Capability.API_SERVER}),
    Factor("devices", Part.SETTINGS,
           ("none", "one a NUMA node", "two a NUMA node", "near the last NUMA node",
            "of two NUMA nodes", "anywhere", "of an empty list"),
           needs={"*": Capability.DEVICES}, since={"*": 20, "of an empty list": 26}),
    Factor("CFS quota", Part.SETTINGS, ("of 100 ms", "of 10 ms", "off"),
           since={"of 10 ms": 36}, needs={"*": Capability.CFS}, quiet=True),
    Factor("gates", Part.SETTINGS,
           ("as released", "pod-level managers", "resize of exclusive CPUs", "beta options off"),
           since={"pod-level managers": 36, "resize of exclusive CPUs": 32,
                  "beta options off": 23}),
    Factor(
        "before", Part.NODE,
        ("nothing", "one pod", "a hole", "a thread taken", "a sidecar's pod", "a shared pod",
         "nearly full", "a refused namesake", "a pod with an init container", "two large pods",
         "more than half of each NUMA node", "a pod with much memory"),
        needs={"a pod with much memory": Capability.MEMORY},
        since={"a sidecar's pod": _SIDECARS, "a pod with much memory": 26}, of_cpus=True,
    ),
    Factor(
        "class", Part.POD,
        ("Guaranteed", "Guaranteed by limits", "Burstable by memory", "Burstable by CPU",
         "Burstable without limits", "BestEffort", "pod-level", "pod-level and shared",
         "pod-level without a CPU to share", "pod-level of unequal containers",
         "pod-level by limits", "pod-level of nothing", "pod-level of apps that share"),
        since=dict.fromkeys(("pod-level", "pod-level and shared",
                             "pod-level without a CPU to share",
                             "pod-level of unequal containers", "pod-level by limits",
                             "pod-level of nothing", "pod-level of apps that share"), 34),
        of_cpus=True,
    ),
    Factor(
        "size", Part.POD,
        ("2", "1", "3", "half a CPU", "one and a half", "a core", "a core and one",
         "half a NUMA node", "a NUMA node", "a NUMA node and one", "a socket", "three quarters",
         "all but one", "all", "too many", *OF_WHAT_IS_LEFT),
        of_cpus=True,
    ),
    Factor("quantity", Part.POD, ("plain", "milli", "exponent"), quiet=True),
    Factor("apps", Part.POD, ("1", "2", "3", "6", "12"), of_cpus=True),
    Factor("other apps", Part.POD, ("one CPU", "as large", "fractions", "fractions first"),
           of_cpus=True),
    Factor(
        "init", Part.POD,
        ("none", "smaller", "as large", "larger", "small then large", "large then small",
         "a NUMA node", "a NUMA node and one", "a fraction", "unlimited"), of_cpus=True,
    ),
    Factor("sidecar", Part.POD, tuple(SIDECARS), since={"*": _SIDECARS}, of_cpus=True),
    Factor("restart policy", Part.POD,
           ("Always", "OnFailure", "Never", "Never but of one", "Always but of one"),
           since=dict.fromkeys(("Never but of one", "Always but of one"), 35)),
    Factor("restart rule", Part.POD, ("none", "all containers"), since={"*": 36},
           needs={"*": Capability.EXIT_CODES}),
    Factor("names", Part.POD, ("short", "63 characters", "one prefix", "as in other pods"),
           quiet=True),
    Factor("requested devices", Part.POD,
           ("none", "one", "two", "by init and app", "by each app", "more by init",
            "by sidecar and app"),
           needs={"*": Capability.DEVICES}, since={"*": 20, "by sidecar and app": 29}),
    Factor("memory", Part.POD, tuple(MEMORY_OF), needs={"*": Capability.MEMORY}, since={"*": 26}),
    Factor("huge pages", Part.POD, tuple(HUGE_PAGES_OF), needs={"*": Capability.MEMORY},
           since={"*": 26}),
    Factor("resize policy", Part.POD, tuple(RESIZE_POLICIES), needs={"*": Capability.API_SERVER},
           since={"*": 33}, quiet=True),
    _of_events("event", EVENTS),
    _of_events("then", THEN),
    _of_events("finally", FINALLY, of_cpus=True),
)  # fmt: skip

FACTORS: Final = (
    *(Factor(name, Part.SETTINGS, _ON_OFF, needs=_CONFIGURED, of_cpus=True) for name in OPTIONS),
    *_OTHERS,
)
BY_NAME: Final = {one.name: one for one in FACTORS}
#: Every factor at its plain value.
PLAIN: Final[Row] = {one.name: one.plain for one in FACTORS}
#: The names of the factors that disturb no other.
QUIET: Final = tuple(one.name for one in FACTORS if one.quiet)

_IN_CLUSTER: Final[Row] = {"pods from": "API server"}


@dataclass(frozen=True, slots=True)
class Theme:
    """Factors that decide something together. A row that varies those of one theme alone shows what
    four and five of them do together, undisturbed by any other value. ``of``: a row of the theme
    has one of these values of each of these factors."""

    names: tuple[str, ...]
    of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def suits(self, row: Row) -> bool:
        """Whether a node with the row's settings is one of this theme."""
        return all(
            row[name] in values
            for name, values in self.of.items()
            if BY_NAME[name].part is Part.SETTINGS
        )


_ALIGNED: Final = {"topology policy": ("best-effort", "restricted", "single-numa-node")}
_WHOLE: Final = tuple(one for one in BY_NAME["class"].values if one.startswith("pod-level"))
#: Events in which a pod comes to what an earlier one has left.
_COMES_AGAIN: Final = (
    "two restarts", "reboot", "delete and apply again", "replaced before a round",
    "replaced while it stops", "put back later", "three pods at once",
)  # fmt: skip
THEMES: Final = (
    Theme(("scope", "prefer-closest-numa-nodes", "size", "apps", "other apps", "init", "sidecar",
           "before"), _ALIGNED),
    Theme(("topology policy", "scope", "memory", "huge pages", "apps", "other apps", "init",
           "before", "event", "then"), {"memory manager": ("Static",)}),
    Theme(("topology policy", "scope", "requested devices", "size", "apps", "init", "event"),
          {"devices": BY_NAME["devices"].values[1:]}),
    Theme(("topology policy", "scope", "size", "apps", "other apps", "init", "sidecar", "event"),
          {"gates": ("pod-level managers",), "class": _WHOLE}),
    Theme((*OPTIONS, "reservation", "size", "before", "then"), _ALIGNED),
    Theme((*OPTIONS, "topology policy", "gates", "reservation", "size", "before", "then")),
    Theme(("class", "size", "apps", "init", "sidecar", "restart policy", "event", "then",
           "finally")),
    Theme(("gates", "class", "size", "sidecar", "before", "event", "then"),
          {"pods from": ("API server",)}),
    Theme(("topology policy", "size", "apps", "other apps", "init", "sidecar", "before", "then"),
          {"event": _COMES_AGAIN}),
)  # fmt: skip

#: A pod has CPUs as a whole, which its containers share.
_POD_POOL: Final[Row] = {
    "gates": "pod-level managers", "scope": "pod", "topology policy": "best-effort",
}  # fmt: skip
#: What a value needs to show: values of other factors, unless these have one that is not plain.
TAKES: Final[Mapping[tuple[str, str], Row]] = {
    **{("event", one): _IN_CLUSTER for one in ("grow", "shrink", "grow too far",
                                               "more memory", "a critical pod",
                                               "ephemeral container")},
    ("event", "grow the sidecar"): {**_IN_CLUSTER, "sidecar": "one CPU", "size": "1"},
    ("scope", "pod"): {"topology policy": "best-effort"},
    ("prefer-closest-numa-nodes", "on"): {"topology policy": "best-effort"},
    ("before", "more than half of each NUMA node"): {"topology policy": "restricted"},
    ("event", "kill a sidecar"): {"sidecar": "one CPU"},
    ("event", "a container restarts all"): {"restart rule": "all containers"},
    ("event", "options off"): {"full-pcpus-only": "on"},
    ("event", "an allocation of devices fails"): {
        "devices": "one a NUMA node", "requested devices": "one",
    },
    ("then", "first pod goes"): {"before": "one pod"},
    **{("requested devices", one): {"devices": "one a NUMA node"}
       for one in BY_NAME["requested devices"].values[1:]},
    ("requested devices", "by init and app"): {"devices": "one a NUMA node", "init": "smaller"},
    ("memory", "most of a NUMA node"): {
        "memory manager": "Static", "apps": "2", "other apps": "as large",
    },
    ("before", "a pod with much memory"): {
        "memory manager": "Static", "memory": "most of a NUMA node",
    },
    ("huge pages", "most of a NUMA node"): {"memory manager": "Static"},
    ("huge pages", "more for init"): {"memory manager": "Static", "init": "as large"},
    ("resize policy", "for cpu"): {**_IN_CLUSTER, "event": "grow"},
    ("resize policy", "for memory"): {**_IN_CLUSTER, "event": "more memory"},
    **{("class", one): {**_POD_POOL, "apps": "2", "other apps": "fractions"}
       for one in ("pod-level and shared", "pod-level without a CPU to share")},
    **{("class", one): _POD_POOL
       for one in ("pod-level", "pod-level of unequal containers", "pod-level by limits")},
    ("class", "pod-level of nothing"): {"gates": "pod-level managers"},
    ("class", "pod-level of apps that share"): {**_POD_POOL, "sidecar": "before init"},
    **{("memory", one): {"memory manager": "Static", "init": "as large"}
       for one in ("as much for init", "more for init")},
    ("requested devices", "more by init"): {"devices": "anywhere", "init": "smaller"},
    ("requested devices", "by sidecar and app"): {
        "devices": "two a NUMA node", "sidecar": "one CPU",
    },
    **{("other apps", one): {"apps": "2"} for one in BY_NAME["other apps"].values[1:]},
}  # fmt: skip


#: A real node boots as the machine that it is.
_NOT_OF_REAL_NODES: Final = frozenset({"smaller machine"})


def offered(release: str, can: Collection[Capability]) -> dict[str, tuple[str, ...]]:
    """The values of each factor that this release and subject have."""
    minor = Release.parse(release).minor
    found = {one.name: one.offered(minor, can) for one in FACTORS}
    if Capability.KERNEL in can:
        found["event"] = tuple(one for one in found["event"] if one not in _NOT_OF_REAL_NODES)
    for name, stages in OPTIONS.items():
        known = has(release, Behaviour.POLICY_OPTIONS) and readiness(stages, release) is not None
        if not known:
            found[name] = (BY_NAME[name].plain,)
    return found
