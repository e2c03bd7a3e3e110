"""The configuration that a kubelet runs with, beside the one that was written.

What belongs here: which settings are compared, and what each source says of them. What never does:
what is written (:mod:`hil.inspection.kubelet`).

A kubelet reads its configuration once, at its start. A later change of a file, or an image that
leaves settings out, shows only in what runs. The kubelet reports that at ``/configz``
(``pkg/kubelet/server/server.go``), and in one line of its log at each start
(:mod:`conformance.in_effect`). Its lines ``FLAG:`` are not used: for what its file sets, they show
the defaults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from conformance.in_effect import RESERVED_CPUS, in_effect, settings_by_name
from conformance.kubelets.durations import seconds
from conformance.kubelets.settings import MAPS_OF_TEXTS, RESERVED, scalar
from hil.inspection.node import KubeletFacts, NodeFacts
from hil.inspection.script import DEADLINE, NoRecords, running_question
from hil.shell import NodeError, Shell
from reference import CPUSet, CPUSetParseError
from topologies.errors import one_line

_PERIOD: Final = "cpuManagerReconcilePeriod"
#: The settings that are compared, and what each is where nothing is written
#: (``pkg/kubelet/apis/config/v1beta1/defaults.go``).
_DEFAULTS: Final = {
    "cpuManagerPolicy": "none",
    RESERVED_CPUS: "",
    _PERIOD: "10s",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "memoryManagerPolicy": "None",
}
#: Their names in :mod:`conformance.in_effect`.
_LOGGED: Final = {
    "policy": "cpuManagerPolicy",
    "Topology Manager": "topologyManagerPolicy",
    "Topology Manager scope": "topologyManagerScope",
    "memory manager": "memoryManagerPolicy",
    "option": "cpuManagerPolicyOptions",
    "Topology Manager option": "topologyManagerPolicyOptions",
}
#: Certificates and keys that a kubelet accepts: its own, or an API server's on its node.
_CERTIFICATES: Final = (
    "{root}/pki/kubelet-client-current.pem:{root}/pki/kubelet-client-current.pem",
    "/etc/kubernetes/pki/apiserver-kubelet-client.crt:/etc/kubernetes/pki/apiserver-kubelet-client.key",
    "/var/lib/rancher/k3s/server/tls/client-kube-apiserver.crt:/var/lib/rancher/k3s/server/tls/client-kube-apiserver.key",
    "/var/lib/rancher/rke2/server/tls/client-kube-apiserver.crt:/var/lib/rancher/rke2/server/tls/client-kube-apiserver.key",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, and its value as it was written and as it runs; ``""``: no value."""

    name: str
    written: str
    runs: str

    @property
    def same(self) -> bool:
        return self.written == self.runs


@dataclass(frozen=True, slots=True)
class Compared:
    """``settings`` are those that ``source`` reports. Without a source there are none, and
    ``unread`` is why, in one line."""

    source: str = ""
    settings: tuple[Setting, ...] = ()
    unread: str = ""

    @property
    def differing(self) -> tuple[Setting, ...]:
        return tuple(one for one in self.settings if not one.same)


def compare(
    shell: Shell,
    facts: NodeFacts,
    *,
    meant: Mapping[str, Any] | None = None,
    ask: Callable[[], Mapping[str, Any]] | None = None,
) -> Compared:
    """What is written on the node beside what its kubelet runs with. ``meant`` counts as written
    where it is given. ``ask`` brings the kubelet's ``/configz`` through an API server; else, and
    where it raises :class:`hil.shell.NodeError`, the node is asked, in one round trip. Raises
    what the shell raises."""
    kubelet = facts.kubelet
    if kubelet is None or kubelet.process is None:
        return Compared(unread="the kubelet does not run")
    written = kubelet.settings if meant is None else meant
    declined = ""
    if ask is not None:
        try:
            return _with_configz(written, ask(), "/configz, through the API server")
        except (NodeError, ValueError) as error:
            declined = f"{one_line(str(error))}; "
    found = _on_node(shell, facts, kubelet, written)
    return Compared(unread=declined + found.unread) if found.unread else found


def _on_node(
    shell: Shell, facts: NodeFacts, kubelet: KubeletFacts, written: Mapping[str, Any]
) -> Compared:
    assert kubelet.process is not None
    question = running_question(
        facts.root,
        url=_url(kubelet.settings),
        pid=kubelet.process.pid,
        certificates=[one.format(root=kubelet.root_dir) for one in _CERTIFICATES],
    )
    done = shell.run(question.script, deadline=DEADLINE)
    try:
        answer = question.read(done.stdout)
    except NoRecords as error:
        return Compared(unread=f"the node's answer cannot be read: {one_line(str(error))}")
    if text := answer.text("configz"):
        try:
            return _with_configz(written, json.loads(text), "/configz, on the node")
        except (ValueError, RecursionError) as error:
            return Compared(unread=f"/configz has no configuration: {one_line(str(error))}")
    logged = in_effect(answer.lines("journal"))
    if not logged:
        return Compared(
            unread="the kubelet does not answer at /configz on the node, or curl is not there; "
            "and its journal has no line of its start"
        )
    return _with_log(written, settings_by_name(logged))


def _url(settings: Mapping[str, Any]) -> str:
    address = str(settings.get("address") or "")
    host = "127.0.0.1" if address in ("", "0.0.0.0", "::") else address  # noqa: S104  - compared
    return f"https://{f'[{host}]' if ':' in host else host}:{settings.get('port') or 10250}/configz"


def _with_configz(written: Mapping[str, Any], answer: object, source: str) -> Compared:
    """Raises ``ValueError`` for what is no answer of ``/configz``."""
    runs = answer.get("kubeletconfig") if isinstance(answer, Mapping) else None
    if not isinstance(runs, Mapping):
        raise ValueError("it does not name kubeletconfig")
    return Compared(source, _rows(_plain(written), _plain(runs)))


def _with_log(written: Mapping[str, Any], logged: Mapping[str, str]) -> Compared:
    """The log has the reserved CPUs, however they were chosen, and no other reservation. A release
    without a manager logs none of its settings."""
    runs: dict[str, Any] = {}
    for name, value in logged.items():
        kind, _, option = name.rpartition(" ")
        if kind in _LOGGED and option not in ("scope", "options"):
            runs.setdefault(_LOGGED[kind], {})[option] = value
        else:
            runs[_LOGGED.get(name, name)] = value.replace(" s", "s")
    known = {_LOGGED.get(name, name) for name in logged} | {_LOGGED["option"]}
    if any(name.startswith("Topology Manager option") for name in logged):
        known.add(_LOGGED["Topology Manager option"])
    if not written.get(RESERVED_CPUS):
        known.discard(RESERVED_CPUS)
    rows = _rows(_plain(written), _plain(runs))
    seen = tuple(one for one in rows if one.name.partition(" ")[0] in known)
    return Compared("the kubelet's journal", seen)


def _rows(written: Mapping[str, str], runs: Mapping[str, str]) -> tuple[Setting, ...]:
    names = [*_DEFAULTS, *sorted((written.keys() | runs.keys()) - _DEFAULTS.keys())]
    return tuple(Setting(one, written.get(one, ""), runs.get(one, "")) for one in names)


def _plain(settings: Mapping[str, Any]) -> dict[str, str]:
    """Each setting as one text, whatever form it was written in; values of a map by
    ``cpuManagerPolicyOptions full-pcpus-only``."""
    found = {name: _text(name, settings.get(name)) for name in _DEFAULTS}
    for name in MAPS_OF_TEXTS:
        values = settings.get(name)
        for key, value in values.items() if isinstance(values, Mapping) else ():
            if name not in RESERVED or key == "cpu":
                found[f"{name} {key}"] = one_line(scalar(value))
    return found


def _text(name: str, value: object) -> str:
    text = one_line(scalar(value)) if value not in (None, "") else _DEFAULTS[name]
    if name == RESERVED_CPUS:
        try:
            return str(CPUSet.parse(text))
        except CPUSetParseError:
            return text
    if name == _PERIOD and (period := seconds(text)) is not None:
        # A period of 0 means the kubelet's default.
        return f"{float(period):g}s" if period else _DEFAULTS[_PERIOD]
    return text
