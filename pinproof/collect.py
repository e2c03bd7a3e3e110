"""``pinproof capture --node``: a node in one file, for rehearsals without the node.

What belongs here: what is asked of the node, and what of it is missing. What never does: the form
of the file (``node_archive``), and the facts of a node (:mod:`hil.inspection`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer
import yaml

import topologies
from conformance.kept_files import FILES, STATE
from conformance.kubelets.configuration import KIND
from conformance.kubelets.settings import settings_of
from conformance.subject import SubjectUsageError
from hil.inspection import KubeletFacts, NodeFacts, gather
from hil.inspection.script import LARGEST, LIMIT, Records, second_question
from hil.shell import NodeUnfit, NodeUsageError, Shell
from hil.transport import connected
from pinproof.documents import parsed
from pinproof.files import documents
from pinproof.manifests import MIRROR, BadManifest, pods_of
from pinproof.node_archive import MEMORY_FIELDS, bare, texts
from pinproof.output import note
from pinproof.parameters import option, with_options
from pinproof.probe import Login
from pinproof.progress import busy
from reports.text import few
from topologies import Tree
from topologies.errors import one_line

#: Seconds in which an API server has to list the pods: it may not answer.
_DEADLINE: Final = 60.0
#: Asks the API server for the node's pods with the credentials that are on the node. Nothing is
#: written there: kubectl cannot keep a cache below a file.
_ASK: Final = r"""
ask() {
  "$@" --request-timeout=20s get pods -A --field-selector spec.nodeName=@NODE@ -o json 2>/dev/null
}
for k in @KUBECONFIGS@; do
  [ -r "$k" ] && ask kubectl --kubeconfig "$k" --cache-dir /dev/null/none && exit 0
done
[ -d /etc/rancher/k3s ] && ask k3s kubectl --cache-dir /dev/null/none && exit 0
exit 1
"""
#: What is written where no name is given.
DEFAULT: Final = "node.tar.xz"
PODS_HELP: Final = (
    "The node's pods, as kubectl get pods -A --field-selector spec.nodeName=NODE -o json prints "
    "them; - for stdin. Default: those that the node has."
)
_KUBECONFIGS: Final = ("/etc/kubernetes/kubelet.conf", "/etc/kubernetes/admin.conf")


@dataclass(frozen=True, slots=True)
class Asked:
    output: Path = option(Path(DEFAULT), "The archive to write: NAME.tar.xz.", "-o", "--output")
    pods: str | None = option(None, PODS_HELP, metavar="FILE")
    force: bool = option(False, "Replace what is there.", "--force")


@with_options
def collect(asked: Asked, login: Login) -> None:
    """The same as pinproof capture --node, from before capture could do it."""
    collect_node(login, asked.output, asked.pods, force=asked.force)


def collect_node(login: Login, output: Path, pods: str | None, *, force: bool) -> None:
    """Read a node, write its archive, and print its path; stderr names what is missing. ``pods``:
    where its manifests are, unless the node is asked.

    Raises :class:`hil.shell.NodeError`, and :class:`SubjectUsageError`.
    """
    addresses = login.addresses()
    if len(addresses) != 1:
        raise NodeUsageError(f"--node takes one node; {login.node} names {len(addresses)}")
    if not topologies.is_archive_name(output):
        raise SubjectUsageError(f"{output}: its name must end in .tar.xz, .tar.gz or .tar")
    if output.exists() and not force:
        raise SubjectUsageError(f"{output}: it is there already; --force replaces it")
    given = None if pods is None else _given(pods)
    with busy("capture") as say, connected(addresses[0]) as shell:
        say(addresses[0].name)
        facts = gather(shell, paths=addresses[0].kubelet)
        manifests = _manifests(shell, facts) if given is None else given
        files = _files(shell, facts)
    kubelet = facts.kubelet
    members = texts(
        config=_configuration(facts.name, kubelet) if kubelet else None,
        state=kubelet.state_file if kubelet else None,
        files=files,
        pods=manifests,
        release=kubelet.release if kubelet else "",
    )
    topologies.pack(Tree({**facts.machine.tree, **members}), output, replace=force)
    for text in _missing(facts, manifests):
        note(f"pinproof: {one_line(text)}")
    typer.echo(output)


def _files(shell: Shell, facts: NodeFacts) -> dict[str, str]:
    """What the managers of the kubelet keep beside the state file, by their names in
    :data:`conformance.kept_files.FILES`."""
    if facts.kubelet is None:
        return {}
    paths = {f"{facts.kubelet.root_dir}/{name}": name for name in FILES if name != STATE}
    question = second_question(facts.root, files=paths)
    answer: Records = question.read(shell.run(question.script, limit=LIMIT).stdout)
    found = {paths[path]: text for path, text in answer.all("file").items() if path in paths}
    for name in [name for name, text in found.items() if len(text) >= LARGEST]:
        note(f"pinproof: left out: {name}: larger than {LARGEST >> 20} MiB")
        del found[name]
    return found


def _configuration(name: str, kubelet: KubeletFacts) -> dict[str, Any]:
    """What decides CPUs, from file, drop-ins and flags together."""
    try:
        made = {**KIND, **settings_of(kubelet.config)}
    except ValueError as error:
        raise NodeUnfit(f"{name}: {one_line(str(error))}") from error
    memory = {name: kubelet.settings.get(name) for name in MEMORY_FIELDS}
    return made | {name: value for name, value in memory.items() if value}


# -- pods --------------------------------------------------------------------------------------


def _given(path: str) -> list[dict[str, Any]]:
    """The manifests of ``--pods``. Raises :class:`SubjectUsageError` for one that could not be read
    again."""
    found = documents(path)
    try:
        pods_of(found)
    except BadManifest as error:
        raise SubjectUsageError(f"{'stdin' if path == '-' else one_line(path)}: {error}") from error
    return [pod for one in found for pod in bare(one)]


def _name_of(facts: NodeFacts, kubelet: KubeletFacts) -> str:
    return kubelet.flags.get("hostname-override") or facts.hostname.lower()


def _manifests(shell: Shell, facts: NodeFacts) -> list[dict[str, Any]]:
    """The pods that the API server has for the node. If kubectl on the node gets no answer, its
    static pods."""
    if facts.kubelet is None:
        return []
    name = _name_of(facts, facts.kubelet)
    kubeconfigs = (facts.kubelet.flags.get("kubeconfig", ""), *_KUBECONFIGS)
    words = " ".join(shlex.quote(facts.root + one) for one in dict.fromkeys(kubeconfigs) if one)
    script = _ASK.replace("@KUBECONFIGS@", words).replace("@NODE@", shlex.quote(name))
    done = shell.run(script, deadline=_DEADLINE, limit=LIMIT)
    texts = _static_manifests(shell, facts, facts.kubelet)
    if done.status == 0:
        try:
            return list(_with_own_uids(bare(json.loads(done.stdout)), _uids(texts)))
        except ValueError:
            note("pinproof: what kubectl says on the node is not JSON")
    return list(_static(texts, facts, facts.kubelet))


def _with_own_uids(pods: Iterable[dict[str, Any]], stated: Set[str]) -> Iterator[dict[str, Any]]:
    """Mirror pods are marked as static ones, unless the static pod's manifest states its uid."""
    for pod in pods:
        metadata = dict(pod["metadata"])
        uid = (metadata.get("annotations") or {}).get(MIRROR)
        if uid in stated:
            del metadata["annotations"]
            metadata["uid"] = uid
        yield {**pod, "metadata": metadata}


def _static_manifests(shell: Shell, facts: NodeFacts, kubelet: KubeletFacts) -> Mapping[str, str]:
    """The files of static pods, by path."""
    if not kubelet.manifests:
        return {}
    question = second_question(facts.root, files=(), folders=(kubelet.manifests,))
    answer: Records = question.read(shell.run(question.script, limit=LIMIT).stdout)
    return answer.all("file")


def _uids(texts: Mapping[str, str]) -> set[str]:
    found: set[str] = set()
    for text in texts.values():
        with suppress(ValueError, RecursionError, yaml.YAMLError):
            pods = [pod for one in parsed(text) for pod in bare(one)]
            found |= {str(pod["metadata"]["uid"]) for pod in pods if "uid" in pod["metadata"]}
    return found


def _static(
    texts: Mapping[str, str], facts: NodeFacts, kubelet: KubeletFacts
) -> Iterator[dict[str, Any]]:
    """Static pods, with the uids that the kubelet gave them."""
    for path, text in texts.items():
        try:
            found = [pod for one in parsed(text) for pod in bare(one)]
            pods_of(found)
        except (BadManifest, ValueError, RecursionError, yaml.YAMLError) as error:
            note(f"pinproof: left out: {one_line(path)}: {one_line(str(error), 200)}")
            continue
        for pod in found:
            yield _identified(pod, facts, _name_of(facts, kubelet))


def _identified(pod: dict[str, Any], facts: NodeFacts, node: str) -> dict[str, Any]:
    """A static pod with the uid that the kubelet gave it, and marked as static. A pod whose
    manifest states a uid, or that the node does not run, is returned unchanged."""
    metadata = pod["metadata"]
    if "uid" in metadata:
        return pod
    name, space = f"{metadata['name']}-{node}", metadata.get("namespace", "default")
    for one in facts.workloads:
        if one.namespace == space and one.name == name:
            marked = {**metadata, "uid": one.uid, "annotations": {MIRROR: one.uid}}
            return {**pod, "metadata": marked}
    return pod


def _missing(facts: NodeFacts, manifests: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What the archive lacks, and a rehearsal therefore leaves out."""
    if facts.kubelet is None:
        yield "there is no kubelet on the node: the file has its machine alone"
        return
    if facts.kubelet.state_file is None:
        path = facts.kubelet.state_path
        yield f"there is no state file at {path}, or it cannot be read without root"
    metadata = [one["metadata"] for one in manifests]
    known = {(one.get("annotations") or {}).get(MIRROR) or one.get("uid") for one in metadata}
    without = [one for one in facts.workloads if one.uid not in known]
    pinned = [one.name or one.uid for one in without if one.pinned]
    others = len(without) - len(pinned)
    if pinned:
        yield (f"of {len(pinned)} pods that hold CPUs there is no manifest, so --node refuses the "
               f"archive, and --machine assumes these pods: {few(pinned, 3)}")  # fmt: skip
    if others:
        yield f"of {others} more pods there is no manifest, so they cannot be rehearsed"
    if without:
        yield "--pods FILE takes all of them, as kubectl prints them"
