"""How the kubelet of each distribution is given a configuration: the changes to its files.

What belongs here: which file takes settings, and in which form. What never does: which settings
decide CPUs (:mod:`hil.distributions.settings`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

import yaml

from hil.changes import Change, WriteFile
from hil.distributions import settings
from hil.inspection import NodeFacts, kubelet_of
from hil.inspection.kubelet import document, in_microshift
from hil.inspection.located_kubelet import MICROK8S_ARGUMENTS
from hil.shell import NodeUnfit
from reference.steps import KubeletConfig


def by_file(facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
    """A drop-in where the kubelet reads a folder of them, else a change of its file."""
    kubelet = kubelet_of(facts)
    flags = sorted(settings.deciding_flags() & set(kubelet.flags))
    if flags:
        raise NodeUnfit(
            f"{facts.name}: --{flags[0]} on its command line overrides every configuration file"
        )
    if kubelet.config_dir:
        path = f"{kubelet.config_dir.rstrip('/')}/{settings.DROP_IN}.conf"
        _require_last(facts, path, kubelet.drop_ins, settings.deciding_settings())
        return (WriteFile(path, settings.patch(config).encode()),)
    if not kubelet.config_path:
        raise NodeUnfit(f"{facts.name}: its kubelet has no configuration file to change")
    try:
        text = settings.rewritten(kubelet.config_text, config)
    except ValueError as error:
        raise NodeUnfit(f"{facts.name}: {kubelet.config_path}: {error}") from error
    return (WriteFile(kubelet.config_path, text.encode()),)


def _require_last(
    facts: NodeFacts, own: str, files: Mapping[str, str], names: Collection[str]
) -> None:
    """Raises :class:`NodeUnfit` where a file that is read after ``own`` has one of these settings:
    files of a folder are read in the order of their names."""
    for path, text in files.items():
        if path.split("/") <= own.split("/"):
            continue
        try:
            given = document(text).keys()
        except ValueError:
            continue  # the kubelet refuses such a file in any case
        if overriding := sorted({*given} & {*names}):
            raise NodeUnfit(f"{facts.name}: {overriding[0]} in {path} overrides {own}")


def by_rancher(folder: str) -> Callable[[NodeFacts, KubeletConfig], tuple[Change, ...]]:
    """k3s and RKE2 pass flags on; a file in their folder adds to those of other files."""

    def changes(facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
        text = yaml.safe_dump({"kubelet-arg+": settings.flags_of(config)})
        path = f"{folder}/config.yaml.d/{settings.DROP_IN}.yaml"
        _require_last(facts, path, kubelet_of(facts).product_files, {"kubelet-arg", "kubelet-arg+"})
        return (WriteFile(path, text.encode(), mode=0o600),)

    return changes


def by_microk8s(facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
    """One file of flags; those that decide CPUs are replaced."""
    flags = {
        name: value
        for name, value in kubelet_of(facts).flags.items()
        if name not in settings.deciding_flags()
    }
    lines = [f"--{name}={value}" for name, value in flags.items()]
    lines += [f"--{flag}" for flag in settings.flags_of(config)]
    text = "".join(f"{line}\n" for line in lines)
    return (WriteFile(MICROK8S_ARGUMENTS, text.encode()),)


MICROSHIFT_CONFIG: Final = "/etc/microshift/config.yaml"


def by_microshift(facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
    """The key ``kubelet`` of MicroShift's own file, which it passes on
    (https://github.com/openshift/microshift/blob/main/docs/user/howto_config.md)."""
    files = kubelet_of(facts).product_files
    for path, given in in_microshift(files).items():
        if path != MICROSHIFT_CONFIG and given.keys() & settings.deciding_settings():
            raise NodeUnfit(f"{facts.name}: {path} overrides {MICROSHIFT_CONFIG}")
    try:
        content = document(files.get(MICROSHIFT_CONFIG, ""))
    except ValueError as error:
        raise NodeUnfit(f"{facts.name}: {MICROSHIFT_CONFIG}: {error}") from error
    section = content.get("kubelet")
    own = yaml.safe_dump(section) if isinstance(section, dict) else ""
    content["kubelet"] = document(settings.rewritten(own, config))
    return (WriteFile(MICROSHIFT_CONFIG, yaml.safe_dump(content, sort_keys=False).encode()),)


def owned(by: str) -> Callable[[NodeFacts, KubeletConfig], tuple[Change, ...]]:
    """Refuse: ``by`` writes the kubelet's configuration, and would write it again."""

    def changes(facts: NodeFacts, config: KubeletConfig) -> tuple[Change, ...]:
        raise NodeUnfit(f"{facts.name}: its kubelet's configuration belongs to {by}")

    return changes
