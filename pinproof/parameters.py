"""Parameters of several commands, declared once: as the fields of a dataclass.

What belongs here: how typer is given them. What never does: a parameter.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING
from typing import Any, get_type_hints


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer takes it: a parameter that is a dataclass becomes one parameter for each
    of its fields. A field that is not given keeps its default."""
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    asked: dict[str, type[Any]] = {}
    for name, parameter in signature.parameters.items():
        kind = parameter.annotation
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            asked[name] = kind
            parameters += _parameters(kind)
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def called(**values: Any) -> None:
        for name, kind in asked.items():
            given = {field.name: values.pop(field.name) for field in dataclasses.fields(kind)}
            values[name] = kind(**{key: one for key, one in given.items() if one not in (None, [])})
        command(**values)

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


def _parameters(asked: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(asked, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(asked)
    ]
