"""A find as a story with a picture, a script, a scenario and a report for its maintainers."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pprint import pformat

import yaml
from rich.console import Console

from conformance.describe import topology_text
from conformance.kubelets.manifests import manifest
from conformance.promises import promise_of
from conformance.source import Source
from hunting.finds import Find
from hunting.replaying import breaking_alone, replayed, spans
from hunting.source import IMPORTS, body_of
from hunting.walk import Ground, Tally
from reference.steps import Apply
from reference.view import Phase, View
from topologies import drawing


def title(find: Find) -> str:
    """One line: the promise, and where it is broken."""
    known = f" (#{find.issue})" if find.issue else ""
    return f"{promise_of(find.rule).id}{known}: {find.rule} — broken in {find.placed}"


def story(find: Find) -> str:
    """The find in Markdown: machine, configuration, steps, and a picture of the CPUs at its end."""
    lines = [
        f"**{find.rule}**: broken in {find.placed}"
        + (f", known as kubernetes/kubernetes#{find.issue}" if find.issue else "")
        + f". Promised by [{_source(find).text}]({_source(find).url}).",
        "",
        f"On {find.machine}, {find.task.config}:",
        "",
    ]
    walked = list(steps(find))
    for number, (text, _) in enumerate(walked, start=1):
        lines.append(f"{number}. {text}")
    lines += ["", f"{find.what}: expected {find.expected}, seen {find.seen}.", *_alone(find)]
    lines += [*_asked(find), ""]
    return "\n".join([*lines, "```text", *_picture(find, walked[-1][1]), "```", ""])


def steps(find: Find) -> Iterator[tuple[str, View]]:
    """Each step of the find in words with the node's state after it, and the view after it, along
    the outcomes that break the promise."""
    broken = replayed(find.task, find.history, find.promise)
    ground = Ground(find.task)
    states = [ground.first()]
    for number, step in enumerate(find.history, start=1):
        taken = [one for state in states for one in ground.taken(state, (step,), Tally())]
        states = [one for one, _ in taken]
        wrong = [one for one, found in taken if broken and found and number == len(broken.steps)]
        view = (wrong or states)[0].node.seen()
        yield f"{capitalised(step.sentence)}. {_state(view)}".rstrip(), view


def _source(find: Find) -> Source:
    return promise_of(find.rule).source


def _alone(find: Find) -> Iterator[str]:
    own = breaking_alone(find.task, find.history, find.promise)
    if own:
        yield f"{spans(own)} does so by itself too, when it is started again."


def _asked(find: Find) -> Iterator[str]:
    for kubelet, same in find.confirmed.items():
        yield f"{kubelet} {'does the same' if same else 'keeps the promise'}."


def _state(view: View) -> str:
    if view.hangs:
        return "The kubelet hangs."
    if view.error:
        return f"The kubelet gives up: `{view.error}`"
    return held_text(view)


def held_text(view: View) -> str:
    """Sentences on the exclusive CPUs, the shared pool and the refused pods; ``""`` where no
    kubelet runs."""
    if not view.running:
        return ""
    held = ", ".join(
        f"{pod}/{name} `{cpus}`"
        for pod, containers in sorted(view.assignments.items())
        for name, cpus in sorted(containers.items())
    )
    refused = "".join(
        f" Pod {name} is refused: `{pod.message}`."
        for name, pod in sorted(view.pods.items())
        if pod.phase is Phase.REJECTED
    )
    pool = (
        f"Shared pool `{view.shared_pool}`." if view.shared_pool else "The shared pool has no CPU."
    )
    return (f"Exclusive: {held}. " if held else "") + pool + refused


def _picture(find: Find, view: View) -> list[str]:
    ground = Ground(find.task)
    places = {cpu: tuple(place) for cpu, place in ground.topology.details.items()}
    owners = {
        f"{pod}/{name}": cpus
        for pod, containers in view.assignments.items()
        for name, cpus in containers.items()
    }
    owners |= {"reserved": ground.reserved, "shared pool": view.shared_pool}
    text = StringIO()
    console = Console(file=text, width=100, color_system=None, force_terminal=False)
    console.print(drawing.text(places, owners))  # type: ignore[arg-type]
    return [line.rstrip() for line in text.getvalue().splitlines() if line.strip()]


def script(find: Find) -> str:
    """A Python program that replays the find on the model, and says how the promise is broken."""
    parts = {"config": find.config, "steps": find.steps}
    written = {name: pformat(value, width=92, sort_dicts=False) for name, value in parts.items()}
    return f'''"""{find.rule}: broken by the model of {find.release}."""

from hunting.finds import Find
from hunting.replaying import replayed

FIND = Find(
    promise={find.promise!r},
    rule={find.rule!r},
    release={find.release!r},
    machine={find.machine!r},
    config={written["config"]},
    steps={written["steps"]},
    what={find.what!r},
    expected={find.expected!r},
    seen={find.seen!r},
)

broken = replayed(FIND.task, FIND.history, FIND.promise)
print(broken.violation if broken else "the promise is kept")
'''


def scenario(find: Find) -> str:
    """The source of a scenario that takes the same steps; invariants and oracle judge it. Its
    promise is for a person to write."""
    kinds = [type(step).__name__.lower() for step in find.history[1:]]
    name = f"{find.promise}-{'-'.join(kinds) or 'history'}"
    minor = min((int(one.split(".")[1]) for one in find.releases), default=0)
    return f'''{IMPORTS}

@scenario(
    "hunted/{name}",
    {find.rule!r},
    Source({_source(find).text!r}, {_source(find).url!r}),
    level=Level.EXTENDED,
    since="1.{minor}",
    machine={find.machine!r},
)
def {name.replace("-", "_")}(node: LockstepNode) -> None:
    """A known defect: {find.what}: expected {find.expected}, seen {find.seen}."""
    node.expect_broken({find.rule!r})
{body_of(find.task.config, find.history)}
'''


def report(find: Find) -> str:
    """A text for an issue of kubernetes/kubernetes. It does not mention this suite."""
    task = find.task
    pods = [step.pod for step in find.history if isinstance(step, Apply)]
    numbered = enumerate(find.history, start=1)
    lines = [
        f"### What happened?\n\n{find.what}: {find.seen}.",
        f"### What did you expect to happen?\n\n{find.rule}: {find.expected}.",
        "### How can we reproduce it?\n",
        f"Machine: {topology_text(Ground(task).topology)}. KubeletConfiguration: {task.config}.\n",
        *(f"{number}. {capitalised(step.sentence)}" for number, step in numbered),
        "\n### Manifests\n",
        *(f"```yaml\n{yaml.safe_dump(manifest(pod), sort_keys=False)}```" for pod in pods),
        "### Kubernetes version\n",
        f"Kubelets {find.placed}, Linux, cpuManagerPolicy static. " + " ".join(_asked(find)),
    ]
    return "\n".join(lines) + "\n"


def capitalised(text: str) -> str:
    """The text with its first letter in upper case."""
    return f"{text[:1].upper()}{text[1:]}"
