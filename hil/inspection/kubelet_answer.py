"""The answer to the second question: the kubelet, its files, the runtime, the pods, and more."""

from __future__ import annotations

import json
import posixpath
import re
from functools import cached_property
from typing import Any, Final

from conformance.kubelets.configuration import merged
from conformance.kubelets.settings import deciding
from hil.answers import whole
from hil.inspection.host_answer import HostAnswer
from hil.inspection.kubelet import (
    document,
    in_microshift,
    microk8s_flags,
    rancher_flags,
    with_flags,
)
from hil.inspection.located_kubelet import LocatedKubelet
from hil.inspection.node import KubeletFacts, RuntimeFacts, Survival, Workload
from hil.inspection.script import PATIENCE, Records
from reference import CPUSet, CPUSetParseError
from topologies.errors import one_line

_DIGEST: Final = re.compile(r"[0-9a-f]{64}\b")
_VERSION: Final = re.compile(r"v(\d+\.\d+)\.\d+[0-9A-Za-z.+-]*")
_MINOR: Final = re.compile(r"v(\d+\.\d+)\b")
#: ``MicroShift Version: 4.18.1``: OpenShift 4.18 is made of Kubernetes 1.31, as 4.3 was of 1.16.
_MICROSHIFT: Final = re.compile(r"MicroShift Version: 4\.(\d+)\.")
_MINORS_AHEAD: Final = 13
_DELETES_STATE: Final = re.compile(r"\brm\b.*cpu_manager_state|cpu_manager_state.*\bunlink\b")
#: Characters that are shown of what a program says instead of its version.
_SAID: Final = 80
#: Seconds that a clock may be off between two looks at it.
_SLACK: Final = 2


class KubeletAnswer:
    def __init__(self, records: Records, host: HostAnswer, located: LocatedKubelet) -> None:
        self._records = records
        self._host = host
        self._located = located
        self._texts = records.all("file")
        self.oddities: list[str] = []

    def kubelet(self) -> KubeletFacts | None:
        """``None`` where there is none."""
        located = self._located
        if not located.exists:
            return None
        version = self._version()
        settings = self._settings
        release = _MINOR.match(version)
        return KubeletFacts(
            binary=located.binary,
            version=version,
            release=release[1] if release else "",
            unit=located.unit,
            process=located.process,
            flags=self._flags,
            config_path=located.config_path,
            config_text=self._texts.get(located.config_path, ""),
            config_dir=located.config_dir,
            drop_ins=self._drop_ins,
            settings=settings,
            root_dir=located.root_dir,
            manifests=_plain(located.paths.manifests or str(settings.get("staticPodPath") or "")),
            state_path=located.state_path,
            state_file=self._texts.get(located.state_path),
            embedded=located.holder not in ("kubelet", "hyperkube"),
            digest=self._digest(),
            unsaid="" if release else self._unsaid(),
            product_files=self._product_files,
        )

    @cached_property
    def _flags(self) -> dict[str, str]:
        located = self._located
        if located.holder == "kubelite":
            return {**microk8s_flags(self._texts.get(located.arguments_file, "")), **located.flags}
        if located.holder == "k3s":
            return {**rancher_flags(self._product_files), **located.flags}
        return located.flags

    @cached_property
    def _product_files(self) -> dict[str, str]:
        file, folder = self._located.product_files
        return {
            path: text
            for path, text in self._texts.items()
            if file and (path == file or path.startswith(f"{folder}/"))
        }

    @cached_property
    def _drop_ins(self) -> dict[str, str]:
        folder = self._located.config_dir
        if not folder:
            return {}
        inside = f"{folder.rstrip('/')}/"
        found = {
            path: text
            for path, text in self._texts.items()
            if path.startswith(inside) and path.endswith(".conf")
        }
        return dict(sorted(found.items()))

    @cached_property
    def _settings(self) -> dict[str, Any]:
        path = self._located.config_path
        settings: dict[str, Any] = {}
        if path and path not in self._texts:
            self._note_oddity(f"{path}: the kubelet's configuration file could not be read")
        sources = {path: self._texts.get(path, "")} if path else {}
        for name, text in (sources | self._drop_ins).items():
            try:
                settings = merged(settings, document(text))
            except ValueError as error:
                self._note_oddity(f"{name}: {error}")
        if self._located.holder == "microshift":
            for section in in_microshift(self._product_files).values():
                settings = merged(settings, section)
        settings = with_flags(settings, self._flags)
        try:
            deciding(settings)
        except ValueError as error:
            self._note_oddity(str(error))
        return settings

    def _version(self) -> str:
        for said in self._records.all("version").values():
            # `Kubernetes v1.36.3`, `k3s version v1.30.1+k3s1 (…)`, `v1.30.2+k0s.0`
            if "containerd" in said or "crio" in said:
                continue
            if found := _VERSION.search(said):
                return found[0]
            if found := _MICROSHIFT.search(said):
                return f"v1.{int(found[1]) + _MINORS_AHEAD}"
        return ""

    def _unsaid(self) -> str:
        """Why there is no version."""
        program = self._located.program
        if program in self._records.all("slow"):
            return (
                f"did not say which release it is within {PATIENCE} s: "
                "the node is overloaded, or the program hangs"
            )
        answers = self._records.all("version")
        if program not in answers:
            return f"does not say which release it is: {one_line(program)} is not a program there"
        said = one_line(answers[program].strip(), _SAID) or "nothing"
        return f"does not say which release it is: {one_line(program)} --version says {said}"

    def _digest(self) -> str:
        found = _DIGEST.match(self._records.text("digest"))
        return f"sha256:{found[0]}" if found else ""

    def runtime(self) -> RuntimeFacts:
        """The runtime as crictl reports it, else as its own program does."""
        named = str(self._settings.get("containerRuntimeEndpoint") or "")
        endpoint = self._located.paths.endpoint or named or self._located.endpoint
        text = self._records.text("runtime")
        name = re.search(r"^RuntimeName:\s*(\S+)", text, re.MULTILINE)
        version = re.search(r"^RuntimeVersion:\s*(\S+)", text, re.MULTILINE)
        if name and version:
            return RuntimeFacts(name[1].lower(), version[1], endpoint)
        versions = self._records.all("version")
        crio = "crio" in endpoint
        said = versions.get("crio" if crio else "containerd", "")
        number = re.search(r"v?\d+\.\d+\.\d+\S*", said)
        if not number:
            return RuntimeFacts("", "", endpoint)
        return RuntimeFacts("cri-o" if crio else "containerd", number[0], endpoint)

    def workloads(self) -> tuple[Workload, ...]:
        """The pods that the kubelet has a folder for. Their names come from the folders of their
        logs, which it names ``namespace_name_uid``."""
        uids = self._records.lines(f"{self._located.root_dir}/pods", "list")
        names = {}
        for folder in self._records.lines("/var/log/pods", "list"):
            namespace, _, rest = folder.partition("_")
            name, _, uid = rest.partition("_")
            names[uid] = (namespace, name)
        pinned = self._pinned()
        return tuple(
            Workload(uid, *names.get(uid, ("", "")), pinned.get(uid, CPUSet())) for uid in uids
        )

    def _pinned(self) -> dict[str, CPUSet]:
        """Exclusive CPUs by pod. Version 1 of the file knows no pods."""
        try:
            content = json.loads(self._texts.get(self._located.state_path) or "{}")
            entries = content.get("entries") or {}
            found = {}
            for uid, containers in entries.items():
                sets = containers.values() if isinstance(containers, dict) else [containers]
                total = CPUSet()
                for one in sets:
                    total |= CPUSet.parse(str(one))
                found[uid] = total
        except (ValueError, AttributeError, CPUSetParseError, RecursionError):
            self._note_oddity(f"{self._located.state_path}: no state file that can be read")
            return {}
        return found

    def survives_restart(self) -> Survival:
        """A state file that is older than the running kubelet outlived its start."""
        unit = self._host.units.get(self._located.unit)
        if unit and any(_DELETES_STATE.search(text) for text in unit.files.values()):
            return Survival.NO
        process = self._located.process
        return self._older_than(process.age) if process else Survival.UNKNOWN

    def survives_reboot(self) -> Survival:
        """A state file that is older than the running kernel outlived its boot."""
        texts = [text for unit in self._host.units.values() for text in unit.files.values()]
        if any(_DELETES_STATE.search(text) for text in texts):
            return Survival.NO
        return self._older_than(self._host.uptime)

    def _older_than(self, seconds: float) -> Survival:
        written = whole(self._records.text(self._located.state_path, "mtime").strip())
        now = whole(self._records.text("now").strip())
        if not (written and now and seconds):
            return Survival.UNKNOWN
        older = now - written > seconds + _SLACK
        return Survival.YES if older else Survival.UNKNOWN

    def _note_oddity(self, text: str) -> None:
        line = one_line(text)
        if line not in self.oddities:
            self.oddities.append(line)


def _plain(folder: str) -> str:
    """The folder's path without a slash at its end, as the paths of its files begin."""
    return posixpath.normpath(folder) if folder else ""
