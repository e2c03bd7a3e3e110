"""Values of options that the kubelet refuses."""

from __future__ import annotations

from typing import Final

from conformance.lockstep import LockstepNode
from conformance.scenario import Capability, Level, promised
from conformance.scenarios.abilities import CONFIGURES, START_ERROR
from conformance.scenarios.aligning import aligning
from conformance.scenarios.entering import refused
from conformance.scenarios.optional import with_options
from conformance.scenarios.sources import CLOSEST_NUMA, NUMA_LIMIT, TASK_PAGE
from reference.behaviours import Behaviour
from topologies import machine

#: With what each option of the static policy came, beside full-pcpus-only.
_OPTIONS: Final = {
    "distribute-cpus-across-numa": Behaviour.NUMA_DISTRIBUTION,
    "align-by-socket": Behaviour.ALIGN_BY_SOCKET,
    "distribute-cpus-across-cores": Behaviour.CORE_SPREADING,
    "strict-cpu-reservation": Behaviour.STRICT_RESERVATION,
    "prefer-align-cpus-by-uncorecache": Behaviour.UNCORE_ALIGNMENT,
}


@promised(TASK_PAGE, area="options", since="1.23", capabilities=(*CONFIGURES, *START_ERROR))
def every_value_is_a_boolean(node: LockstepNode) -> None:
    """No option of the static policy takes a value that is not a boolean.
    Each option that the release has keeps the kubelet from starting, and the error names it.
    The words of a boolean are Go's: “TRUE” is one, “on” is not."""
    options = [one for one, behaviour in _OPTIONS.items() if node.release_has(behaviour)]
    node.boot(with_options(node, "full-pcpus-only", value="TRUE"))
    node.promise_running("“TRUE” is a boolean")
    node.stop()
    for option in ("full-pcpus-only", *options):
        node.configure(with_options(node, option, value="on"))
        node.start()
        node.promise_refusal(
            f'bad value for option "{option}": strconv.ParseBool: parsing "on": invalid syntax'
        )


refused(
    "topology/closest-takes-a-boolean",
    "A value of prefer-closest-numa-nodes that is not a boolean keeps the kubelet from starting",
    CLOSEST_NUMA,
    "The error names the option and the value.",
    lambda node: aligning(node, "restricted", options={"prefer-closest-numa-nodes": "on"}),
    'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "on": '
    "invalid syntax",
    level=Level.CORE, since="1.26",
)  # fmt: skip
refused(
    "topology/limit-takes-a-number",
    "A value of max-allowable-numa-nodes that is not a number keeps the kubelet from starting",
    NUMA_LIMIT,
    "The error names the option and the value.",
    lambda node: aligning(node, "restricted", options={"max-allowable-numa-nodes": "ten"}),
    'unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: '
    'parsing "ten": invalid syntax',
    since="1.31", machine="1s-1n-4c-smt1",
)  # fmt: skip


@promised(
    NUMA_LIMIT, area="topology", since="1.31", machine="1s-1n-4c-smt1",
    capabilities=[Capability.START_ERROR, Capability.RESTART, Capability.REBOOT],
)  # fmt: skip
def limit_of_eight_is_the_usual_one(node: LockstepNode) -> None:
    """With max-allowable-numa-nodes of eight a kubelet starts, and not on nine NUMA nodes.
    Eight is the least that the option takes."""
    node.boot(aligning(node, "restricted", options={"max-allowable-numa-nodes": "8"}))
    node.promise_running("The kubelet starts on one NUMA node")
    node.stop()
    node.reboot(machine("1s-1n-4c-smt1-mem8"))
    node.start()
    node.promise_refusal("unsupported on machines with more than 8 NUMA Nodes")
