"""What is on a node before the pod of a row.

What belongs here: what the values of the factor ``before`` mean.
"""

from __future__ import annotations

from dataclasses import replace

from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from hunting.exploring.drafting import Draft
from hunting.exploring.pods import LARGE, pod_of
from reference.steps import Apply, Delete, Kind


def prepare(draft: Draft) -> bool:
    draft.first = "first"
    half = max(draft.room.free // 2, 1)
    match draft.row["before"]:
        case "nothing":
            draft.first = ""
            return True
        case "one pod":
            return draft.another("first", 2)
        case "a hole":
            small = max(draft.room.free // 4, 1)
            return (
                draft.another("first", 1)
                and draft.another("middle", small)
                and draft.another("third", 1)
                and draft.take(Delete("middle"))
            )
        case "a thread taken":
            return draft.another("first", 1)
        case "a sidecar's pod":
            side = [exclusive("side1", 1, kind=Kind.SIDECAR), exclusive("app1", 1)]
            return draft.take(Apply(guaranteed_of("first", side)))
        case "a shared pod":
            return draft.take(Apply(best_effort("first")))
        case "nearly full":
            return draft.another("first", draft.room.free - 2)
        case "a refused namesake":
            draft.first = ""
            return _refused_namesake(draft)
        case "a pod with an init container":
            init = [exclusive("init1", 2, kind=Kind.INIT), exclusive("app1", 1)]
            return draft.take(Apply(guaranteed_of("first", init)))
        case "a pod with much memory":
            much = f"{LARGE}Mi"
            one = replace(exclusive("c", 1), memory_request=much, memory_limit=much)
            return draft.take(Apply(guaranteed_of("first", [one])))
        case "more than half of each NUMA node":
            more = draft.room.milli_cpus("half a NUMA node") // 1000 + 1
            names = ["first", *(f"on-{n}" for n in range(1, len(draft.room.topology.numa_masks)))]
            pods = (Apply(guaranteed(name, more)) for name in names)
            return draft.take(*pods)
        case _:
            return draft.another("first", half // 2) and draft.another("third", half)


def _refused_namesake(draft: Draft) -> bool:
    """Apply a pod that does not fit, with the name of an app container of the row's pod."""
    own = pod_of(draft.row, draft.room, "refused")
    name = next(one.name for one in own.containers if one.kind is Kind.APP)
    large = [exclusive(name, 1), exclusive("too-large", draft.room.free + 1)]
    return draft.take(Apply(guaranteed_of("refused", large)))
