"""Every form that a run has as one text, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from reports.run import Run

#: Module and function; each is imported when it is asked for.
FORMATS: Final = {
    "html": ("reports.html", "document"),
    "junit": ("reports.junit", "document"),
    "junit-properties": ("reports.junit", "with_properties"),
    "markdown": ("reports.plain", "as_markdown"),
    "github": ("reports.annotations", "github"),
    "gitlab": ("reports.annotations", "gitlab"),
    "sarif": ("reports.annotations", "sarif"),
    "json": ("reports.plain", "as_json"),
    "prometheus": ("reports.prometheus", "document"),
    "badge": ("reports.plain", "badge"),
}


def formatted(run: Run, name: str) -> str:
    """The run in the form of this name, one of :data:`FORMATS`."""
    module, function = FORMATS[name]
    make: Callable[[Run], str] = getattr(import_module(module), function)
    return make(run)
