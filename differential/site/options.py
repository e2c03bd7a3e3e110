"""The page of the policy options: how ready each is in which release, and what goes with what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from differential import markdown
from differential.markdown import table
from differential.site.behaviours import FOLDER as BEHAVIOURS
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import INCOMPATIBLE, OPTIONS
from reference.feature_gates import Maturity, Stages
from reference.topologymanager.policy_options import OPTIONS as OF_TOPOLOGY

PATH: Final = "reference/policy-options.md"
#: What each does to a container's CPUs, or to a hint.
DOES: Final = {
    "full-pcpus-only": "The kubelet refuses a request that is not a multiple of a core's size, so "
    "that no core is shared.",
    "distribute-cpus-across-numa": "A request is spread evenly over the fewest NUMA nodes that can "
    "hold it.",
    "align-by-socket": "The CPUs of a hint are widened to whole sockets.",
    "distribute-cpus-across-cores": "Single CPUs of different physical cores are taken first.",
    "strict-cpu-reservation": "Shared containers are kept off the reserved CPUs too.",
    "prefer-align-cpus-by-uncorecache": "A request is kept inside the fewest uncore caches that "
    "can hold it.",
    "prefer-closest-numa-nodes": "Of hints with equally many NUMA nodes, the one with the shorter "
    "average distance is chosen.",
    "max-allowable-numa-nodes": "A machine may have as many NUMA nodes; without it, eight.",
}
_WORDS: Final = {Maturity.ALPHA: "alpha", Maturity.BETA: "beta", Maturity.GA: "stable"}


def page() -> str:
    """Both managers' options."""
    parts: list[str | list[str]] = [
        "# Policy options",
        "The options of the static policy and of the Topology Manager, as the model has them. A "
        "release before the first one of a row does not know the option, and its kubelet does not "
        "start with it. [Facts](../facts/04-policy-options.md) has the kubelet's texts.",
    ]
    for title, setting, options in (
        ("Static policy", "cpuManagerPolicyOptions", OPTIONS),
        ("Topology Manager", "topologyManagerPolicyOptions", OF_TOPOLOGY),
    ):
        parts += [f"## {title}", f"`{setting}` of KubeletConfiguration."]
        parts.append(table(("option", "how ready it is", "what it does"), _rows(options)))
    excluding = [f"- `{first}` and `{second}`" for first, second in INCOMPATIBLE]
    return markdown.page([*parts, "## Options that exclude each other", excluding])


def _rows(options: Mapping[str, Stages]) -> Iterator[tuple[str, str, str]]:
    for name, stages in options.items():
        first, *later = reversed([*stages.items()])
        # 1.22 had one option, and no stages.
        word = "not graded" if later and first[1] is Maturity.GA else _WORDS[first[1]]
        ready = [_ready(word, first[0])]
        ready += [_ready(_WORDS[maturity], behaviour) for behaviour, maturity in later]
        yield f"`{name}`", ", ".join(ready), DOES[name]


def _ready(word: str, behaviour: Behaviour) -> str:
    folder = BEHAVIOURS.rpartition("/")[2]
    return f"{word} from [{behaviour.value.since}]({folder}/{behaviour.title}.md) on"
