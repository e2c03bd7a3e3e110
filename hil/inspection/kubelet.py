"""A kubelet's configuration: its command line, its configuration file and drop-ins, and the
settings that result.

What belongs here: texts in, settings out. What never does: where the texts come from
(:mod:`hil.inspection.gathering`). Order as the kubelet's own (``cmd/kubelet/app/server.go``, 1.36):
the configuration file, drop-ins by path as JSON merge patches, then flags, which win; maps of
feature gates add up.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml

from conformance.kubelets.settings import GATES, MAPS_OF_TEXTS

#: Flags that are settings of the configuration file, too.
FLAGS: Final = {
    "cgroup-driver": "cgroupDriver",
    "cgroup-root": "cgroupRoot",
    "container-runtime-endpoint": "containerRuntimeEndpoint",
    "cpu-cfs-quota": "cpuCFSQuota",
    "cpu-cfs-quota-period": "cpuCFSQuotaPeriod",
    "cpu-manager-policy": "cpuManagerPolicy",
    "cpu-manager-policy-options": "cpuManagerPolicyOptions",
    "cpu-manager-reconcile-period": "cpuManagerReconcilePeriod",
    "feature-gates": "featureGates",
    "healthz-port": "healthzPort",
    "kube-reserved": "kubeReserved",
    "memory-manager-policy": "memoryManagerPolicy",
    "pod-manifest-path": "staticPodPath",
    "read-only-port": "readOnlyPort",
    "reserved-cpus": "reservedSystemCPUs",
    "reserved-memory": "reservedMemory",
    "system-reserved": "systemReserved",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-policy-options": "topologyManagerPolicyOptions",
    "topology-manager-scope": "topologyManagerScope",
}
_MAPS: Final = {*MAPS_OF_TEXTS, GATES}
#: What stands between the values of a setting whose flag may be given more than once.
_BETWEEN: Final = dict.fromkeys(_MAPS, ",") | {"reservedMemory": ";"}


def flags_of(arguments: Sequence[str]) -> dict[str, str]:
    """A command line (without the program) as flags without dashes: ``--a=b``, ``--a b``, ``--a``
    (``"true"``). The last one wins; maps and lists given more than once add up."""
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("-") else "true"
        between = _BETWEEN.get(FLAGS.get(name, ""), "")
        found[name] = between.join([found[name], value]) if between and name in found else value
    return found


def expanded(command: str, environment: Mapping[str, str]) -> list[str]:
    """The words of a systemd command line: ``$WORD`` is split, ``${WORD}`` is not."""
    words: list[str] = []
    for word in command.split():
        if word.startswith("${") and word.endswith("}"):
            words.append(environment.get(word[2:-1], ""))
        elif word.startswith("$"):
            words += _split(environment.get(word[1:], ""))
        else:
            words.append(word)
    return words


def environment_of(texts: Iterable[str]) -> dict[str, str]:
    """Environment files, one after the other: ``NAME=value``, perhaps quoted."""
    found: dict[str, str] = {}
    for line in (line.strip() for text in texts for line in text.splitlines()):
        name, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")):
            found[name.strip()] = " ".join(_split(value)) if value[:1] in "\"'" else value.strip()
    return found


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def is_json(text: str) -> bool:
    """Whether a configuration file is JSON, by its first character, as the kubelet decides it
    (``apimachinery/pkg/runtime/serializer/json``)."""
    return text.lstrip().startswith("{")


def _json(text: str) -> Any:
    """The value of a JSON text; ``None`` for any other text."""
    if not is_json(text):
        return None
    with contextlib.suppress(json.JSONDecodeError):
        return json.loads(text)
    return None


def document(text: str) -> dict[str, Any]:
    """A configuration file, YAML or JSON; raises ``ValueError`` with one line for other text."""
    try:
        # The kubelet takes JSON that is indented by tabs, which YAML refuses.
        content = _json(text) or yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        problem = getattr(error, "problem", None) or type(error).__name__
        raise ValueError(f"not YAML: {problem}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError("not a mapping of settings")
    return {str(key): value for key, value in content.items()}


def with_flags(settings: Mapping[str, Any], flags: Mapping[str, str]) -> dict[str, Any]:
    """Settings, where flags win."""
    result = dict(settings)
    for flag, value in flags.items():
        if name := FLAGS.get(flag):
            earlier = result.get(name)
            first = earlier if name == GATES and isinstance(earlier, Mapping) else {}
            result[name] = {**first, **_pairs(value)} if name in _MAPS else value
    return result


def _pairs(text: str) -> dict[str, str]:
    pairs = (one.partition("=") for one in text.split(",") if one.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def rancher_flags(texts: Mapping[str, str]) -> dict[str, str]:
    """``kubelet-arg`` of k3s's and RKE2's files, in the order of their paths."""
    words: list[str] = []
    for path in sorted(texts):
        try:
            content = document(texts[path])
        except ValueError:
            continue
        for key, value in content.items():
            if key.rstrip("+") == "kubelet-arg":
                given = value if isinstance(value, list) else [value]
                words = [*(words if key.endswith("+") else []), *map(str, given)]
    return flags_of([f"--{word.lstrip('-')}" for word in words])


def k0s_flags(units: Iterable[str]) -> dict[str, str]:
    """``--kubelet-extra-args`` of the command line in a unit's texts, which k0s passes on."""
    text = "\n".join(units).replace("\\\n", " ")
    commands = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    words = iter(_split(commands[-1].partition("=")[2]) if commands else [])
    for word in words:
        if word.partition("=")[0] == "--kubelet-extra-args":
            return flags_of(_split(word.partition("=")[2] or next(words, "")))
    return {}


def in_microshift(texts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What each of MicroShift's files hands to the kubelet (key ``kubelet``), by path, in the order
    in which it reads them."""
    found = {}
    for path in sorted(texts, key=lambda path: ("/config.d/" in path, path)):
        try:
            section = document(texts[path]).get("kubelet")
        except ValueError:
            continue
        found[path] = section if isinstance(section, dict) else {}
    return found


def microk8s_flags(text: str) -> dict[str, str]:
    """The file of a daemon's arguments: one a line."""
    return flags_of(text.replace("${SNAP_DATA}", "/var/snap/microk8s/current").split())
