"""A kubelet's settings that decide CPUs, as each distribution takes them: file, drop-in, flags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import yaml

from conformance.kubelets.configuration import KIND
from conformance.kubelets.settings import GATES, RESERVED, every_setting, scalar
from hil.inspection.kubelet import FLAGS, document, is_json
from reference.steps import KubeletConfig

#: The kubelet reads it after drop-ins of others: their names begin with "99-" or a letter.
DROP_IN: Final = "zz-pinproof"


def rewritten(text: str, config: KubeletConfig) -> str:
    """A configuration file with these settings instead of its own; raises ``ValueError`` for any
    other text. JSON stays JSON. Other reserved quantities and feature gates stay."""
    content = document(text)
    for name, value in every_setting(config).items():
        if isinstance(value, Mapping) and name in (GATES, *RESERVED):
            kept = content.get(name)
            value = {**(kept if isinstance(kept, Mapping) else {}), **value}
            value = {key: one for key, one in value.items() if one is not None} or None
        if value is None:
            content.pop(name, None)
        else:
            content[name] = value
    if is_json(text):
        return json.dumps(content, indent=4) + "\n"
    return yaml.safe_dump(content, sort_keys=False)


def patch(config: KubeletConfig) -> str:
    """A drop-in, which is a merge patch: ``null`` takes away what another file says."""
    settings = {name: value for name, value in every_setting(config).items() if value != {}}
    return yaml.safe_dump(KIND | settings, sort_keys=False)


def flags_of(config: KubeletConfig) -> list[str]:
    """As ``name=value`` without dashes; settings without a value are left out."""
    names = {setting: flag for flag, setting in FLAGS.items()}
    flags = []
    for name, value in every_setting(config).items():
        if isinstance(value, Mapping):
            pairs = {key: one for key, one in value.items() if one is not None}
            text = ",".join(f"{key}={scalar(one)}" for key, one in pairs.items())
        else:
            text = "" if value is None else scalar(value)
        if text:
            flags.append(f"{names[name]}={text}")
    return flags


def deciding_settings() -> frozenset[str]:
    """The names of the settings that decide CPUs."""
    return frozenset(every_setting(KubeletConfig()))


def deciding_flags() -> frozenset[str]:
    """The flags that override these settings of a file."""
    return frozenset(flag for flag, setting in FLAGS.items() if setting in deciding_settings())
