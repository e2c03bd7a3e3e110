"""A node that can be copied, and compared with another: what a search over histories needs.

What belongs here: copies that cost little, the other outcomes of a step that chance decided, and a
key that two nodes share if they do the same from here on. What never does: what a step does
(``node``), and which histories are searched.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from reference.behaviours import Behaviour
from reference.copies import flat_copy
from reference.cpumanager.state.state_mem import by_pod
from reference.cpuset import CPUSet
from reference.node import Node
from reference.releases import has
from reference.steps import Apply, Pod, Step, Stop, TakeOver
from reference.view import View

#: Masks of CPUs by container, sorted; -1 where there is no set.
_Masks: TypeAlias = tuple[tuple[str, int], ...]


class BranchingNode(Node):
    """A node of the model that copies what a step changes only when the step is taken."""

    _shared = False
    #: Whether the state has changed since the text of its file was made.
    _late = False
    _text: str | None = None
    #: Whether the file may be as a kubelet of another release wrote it.
    _replaced = False

    @property
    def _state_file(self) -> str | None:
        """The text of the state file, made when it is read."""
        if self._late and self._kubelet is not None:
            self._text, self._late = self._kubelet.cpu_manager.state_file(), False
        return self._text

    @_state_file.setter
    def _state_file(self, text: str | None) -> None:
        self._text, self._late = text, False

    def seen(self) -> View:
        """:meth:`view`, without what was asked of the runtime and of the kubelet; and without the
        text of the state file, unless it has CPUs of whole pods."""
        kubelet, (default, entries) = self._kubelet, self._shown
        whole = kubelet is not None and kubelet.cpu_manager.state.pod_entries
        return View(
            running=kubelet is not None,
            error=self._errors[0] if self._errors else "",
            exit_status=self._exit_status if self._errors else None,
            pods=self._pods(),
            assignments=by_pod(entries, self._runtime.owner, self._name),
            shared_pool=default,
            state_file=self._state_file if whole else None,
            cpusets={self._name(uid): sets for uid, sets in self._runtime.running().items()},
            hangs=self._hangs,
        )

    def copy(self) -> BranchingNode:
        """An independent copy. Kubelet and containers are shared until one of the two changes
        them."""
        twin = flat_copy(self)
        twin._manifests, twin._known = dict(self._manifests), dict(self._known)
        twin._gone, twin._ended = set(self._gone), set(self._ended)
        twin._ran_at_start = set(self._ran_at_start)
        twin._perhaps_ended = set(self._perhaps_ended)
        twin._in_cluster = self._in_cluster.copy()
        twin._branches, twin._while_pods_end = [], []
        self._shared = twin._shared = True
        return twin

    def others(self) -> Iterator[BranchingNode]:
        """The node as it is after each other outcome of the step just taken, where chance decided
        it (see :meth:`Node.follow`)."""
        for branch in self._branches[1:]:
            twin = self.copy()
            twin._take(branch)
            yield twin

    def key(self) -> Hashable:
        """A key for nodes of one machine, configuration and release. From nodes with one key the
        same histories lead to the same views, except for the names of pods: pods that ask for the
        same and hold the same are interchangeable. Counters are left out."""
        kubelet = self._kubelet
        if kubelet is None:
            return (False, self._errors, self._state_file, tuple(sorted(map(repr, self._pods()))))
        manager = kubelet.cpu_manager
        state, sent = manager.state, manager.sent
        last = [pod.uid for pod in manager.last_admitted]
        held, whole = state.entries, state.pod_entries
        running = self._runtime.running()
        uids = dict.fromkeys((*held, *whole, *running), "")
        uids |= {pod.uid: name for name, pod in self._manifests.items()}
        pods = kubelet.pods
        every = [
            (
                pods[name].phase.value if name in pods else "",
                _kind(self._known[uid]) if uid in self._known else uid,
                _masks(held.get(uid, _NONE)),
                _mask(whole.get(uid)),
                _masks(boxes := running.get(uid, _NONE)),
                tuple([_mask(sent.get((uid, one))) for one in boxes]),
                uid in last,
            )
            for uid, name in uids.items()
        ]
        every.sort()
        return (True, self._hangs, state.default.mask, tuple(every))

    def beside(self) -> Hashable:
        """What :meth:`key` leaves out, as only some steps change or show it: the release and what
        earlier ones left; devices, resizes that wait, updates that will be refused, pods that have
        ended, what the kubelet would answer."""
        kubelet = self._kubelet
        manager = kubelet.cpu_manager if kubelet else None
        held = kubelet.device_manager.pod_devices if kubelet else self._devices
        healthy = kubelet.device_manager.healthy_devices() if kubelet else {}
        return (
            str(self._release),
            self._hashed_by,
            self._replaced and not self._late and self._text,
            repr(held.held),
            repr(kubelet.device_manager.checkpoint.held) if kubelet else "",
            tuple((resource, *sorted(held)) for resource, held in sorted(healthy.items())),
            kubelet and tuple(sorted(kubelet.device_manager.failures.items())),
            kubelet and tuple(sorted(kubelet.device_manager.seconds.items())),
            tuple(sorted(self._in_cluster.wanted)),
            repr(sorted(self._in_cluster.over.items())),
            tuple(map(self._in_cluster.stored, self._manifests.values())),
            (self._runtime.refusals, self._runtime.refuses),
            tuple(pod.uid in self._runtime.removed for pod in self._manifests.values()),
            tuple(sorted(self._ended)),
            tuple(pod.containers for pod in self._manifests.values()),
            kubelet and (kubelet.woken, kubelet.ending),
            manager and (manager.allocatable_cpus, manager.metrics.exclusive, manager.metrics.pool),
        )

    @property
    def granted(self) -> Mapping[str, Pod]:
        """The pods whose manifests are there, with the resources that they have been granted."""
        return self._manifests

    def _save(self) -> None:
        kubelet = self._kubelet
        assert kubelet is not None
        is_keyed = has(self._release, Behaviour.KEYED_BY_POD)
        if not is_keyed or not has(self._release, Behaviour.STATE_FILE):
            super()._save()  # the state file does not say what the state in memory says
            return
        changed = kubelet.is_unsaved()
        self._versions = kubelet.taken_versions()
        if changed:
            state = kubelet.cpu_manager.state
            entries = {uid: dict(named) for uid, named in state.entries.items()}
            self._late, self._shown = True, (state.default, entries)

    def _do(self, step: Step) -> None:
        if isinstance(step, Stop) or self._crash is not None:
            self._text = self._state_file
        if self._shared and not isinstance(step, Stop) and not self._copies_itself(step):
            self._own()
        super()._do(step)
        self._replaced = self._replaced or isinstance(step, TakeOver)

    def _copies_itself(self, step: Step) -> bool:
        """Whether the step works on a copy of the kubelet anyway."""
        return isinstance(step, Apply) and not self._hangs

    def _own(self) -> None:
        if self._kubelet is not None:
            self._kubelet = self._kubelet.copy()
            self._runtime = self._kubelet.runtime
        else:
            self._runtime = self._runtime.copy()
        self._shared = False


_NONE: Final[Mapping[str, CPUSet]] = {}
_KINDS: Final[dict[Hashable, str]] = {}


@lru_cache(maxsize=4096)
def _kind(pod: Pod) -> str:
    """A text that pods share if they ask for the same."""
    return _KINDS.setdefault((pod.containers, pod.resources), f"kind {len(_KINDS)}")


def _mask(cpus: CPUSet | None) -> int:
    return -1 if cpus is None else cpus.mask


def _masks(named: Mapping[str, CPUSet | None] | Mapping[str, CPUSet]) -> _Masks:
    return tuple(sorted([(name, _mask(cpus)) for name, cpus in named.items()]))
