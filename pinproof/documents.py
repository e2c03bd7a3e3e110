"""Documents of YAML or JSON, read within bounds of time and memory.

What belongs here: text in, plain objects out. What never does: where the text is from (``files``),
and what is in the documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import yaml

from conformance.subject import SubjectUsageError
from topologies.errors import one_line

#: All pods of a full node, as ``kubectl get pods -o yaml`` prints them, are half as large.
MOST_YAML: Final = 4 << 20
#: JSON is read much faster.
MOST_JSON: Final = 32 << 20

_DEEPEST: Final = 100
#: Values in a YAML file; those behind an alias count at each use. A full node has half as many.
_MOST_PARTS: Final = 400_000
_MOST_BITS: Final = 1024

#: libyaml is four times as fast; PyYAML is built without it on some systems.
_BASE: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc]  # one of two classes
    """The loader of ``yaml.safe_load``, except that a timestamp stays text."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, form) for tag, form in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in _BASE.yaml_implicit_resolvers.items()
    }


def _whole_number(loader: Any, node: yaml.ScalarNode) -> int:
    """An integer of at most 1024 bits. YAML has hexadecimal numbers of any length, and Python does
    not write a longer one in decimal digits."""
    number = int(loader.construct_yaml_int(node))
    if number.bit_length() > _MOST_BITS:
        raise yaml.constructor.ConstructorError(
            None, None, f"a number of more than {_MOST_BITS} bits", node.start_mark
        )
    return number


_Loader.add_constructor("tag:yaml.org,2002:int", _whole_number)


def documents_in(text: str, where: str) -> list[Any]:
    """The documents of a YAML text, or the one of a JSON text, as plain objects; empty documents
    are left out. Raises :class:`SubjectUsageError` with ``where`` and the place."""
    try:
        return list(parsed(text))
    except json.JSONDecodeError as error:
        raise SubjectUsageError(
            f"{where}: line {error.lineno}, column {error.colno}: {one_line(error.msg)}"
        ) from error
    except yaml.YAMLError as error:
        raise SubjectUsageError(f"{where}: {_fault(error)}") from error
    except (RecursionError, ValueError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else one_line(str(error))
        raise SubjectUsageError(f"{where}: {said}") from error


def parsed(text: str) -> Iterator[Any]:
    """The documents in a text, as :func:`documents_in`; raises what the parsers raise."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            yield json.loads(text)
            return
        except json.JSONDecodeError:  # YAML may begin with a brace, too
            if len(text) > MOST_YAML:
                raise
    if len(text) > MOST_YAML:
        raise ValueError(f"more than {MOST_YAML >> 20} MiB of YAML; as JSON (-o json) it may have "
                         f"{MOST_JSON >> 20}")  # fmt: skip
    _require_small(text)
    yield from (one for one in yaml.load_all(text, Loader=_Loader) if one is not None)


def _require_small(text: str) -> None:
    """Refuse what is small as a file and huge as objects: deep nesting, which would overflow the
    stack of libyaml's loader, and aliases of aliases."""
    parts, depth = 0, 0
    sizes: dict[str, int] = {}
    unfinished: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            unfinished.append((event.anchor, parts))
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = unfinished.pop()
            depth -= 1
            if anchor is not None:
                sizes[anchor] = parts - before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in unfinished):
                raise _TooLarge("an alias of a value that contains it", event)
            parts += sizes.get(event.anchor or "", 1)
        parts += 1
        if depth > _DEEPEST:
            raise _TooLarge("nested too deeply", event)
        if parts > _MOST_PARTS:
            raise _TooLarge(f"more than {_MOST_PARTS} values, aliases counted", event)


class _TooLarge(yaml.YAMLError):
    def __init__(self, problem: str, event: yaml.Event) -> None:
        super().__init__(problem)
        self.problem, self.problem_mark = problem, event.start_mark


def _fault(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return one_line(f"{place}{said}")
