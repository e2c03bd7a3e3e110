"""Parameters of commands, declared as the fields of a dataclass, which most call ``Asked``."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import MISSING
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import typer
from typer.main import get_command

from pinproof.completion import machine_names

if TYPE_CHECKING:
    from conformance.session.options import Option

_DECLARED: Final = "typer"
#: The longest search, in minutes.
A_YEAR: Final = 366 * 24 * 60
Asked = TypeVar("Asked")

AcceptNewHostKey = Annotated[
    bool, typer.Option(help="Trust a host whose key is not in known_hosts, and add its key.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="The API server that kube://NODE is reached through, and that pods of real nodes come "
        "through."
    ),
]
KnownHosts = Annotated[Path | None, typer.Option(help="Instead of ~/.ssh/known_hosts.")]
MachineName = Annotated[
    str,
    typer.Option(help="Name, archive, directory or described spec.", autocompletion=machine_names),
]
NodeArchive = Annotated[
    Path | None,
    typer.Option(
        "--node",
        help="The archive of a node (pinproof capture --node), in place of --machine, --config, "
        "--state and --pods.",
        metavar="FILE",
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")
]
TransportImage = Annotated[
    str,
    typer.Option(
        help="An image with a shell, for the pod that is the way to kube://NODE. "
        "Default: Debian's.",
        metavar="IMAGE",
    ),
]
ShardText = Annotated[str, typer.Option(help="The K-th of N parts, as K/N.")]


def option(default: Any, text: str, *flags: str, **settings: Any) -> Any:
    """A field that is an option: its default, its help, and further arguments of
    ``typer.Option``."""
    return _declared(default, typer.Option(*flags, help=text, **settings))


def argument(text: str, default: Any = MISSING, **settings: Any) -> Any:
    """A field that is an argument, which has to be given unless it has a default."""
    return _declared(default, typer.Argument(help=text, **settings))


def typed(context: typer.Context) -> Iterator[Any]:
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            yield parameter


def given_words(context: typer.Context, but: Collection[str] = ()) -> Iterator[str]:
    """The words of the command line again, arguments first, without the parameters in ``but``."""
    for parameter in sorted(typed(context), key=lambda one: one.param_type_name):
        if parameter.name in but:
            continue
        value = context.params[parameter.name or ""]
        for one in value if isinstance(value, list | tuple) else (value,):
            if parameter.param_type_name == "option":
                yield parameter.opts[0]
            if one is not True:
                yield str(one.value if isinstance(one, Enum) else one)


def flags(context: typer.Context, names: Collection[str]) -> list[str]:
    """The options of these names that were given on the command line."""
    return [one.opts[0] for one in typed(context) if one.name in names]


def run_option(one: Option, default: Any = None, **settings: Any) -> Any:
    """An option that a run inside pytest has too."""
    flag = [f"--{one.name}"] if one.type is bool else []  # a flag without --no-NAME
    return option(default, one.help, *flag, metavar=one.metavar, **settings)


def _declared(default: Any, parameter: Any) -> Any:
    return dataclasses.field(default=default, metadata={_DECLARED: parameter})


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer takes it. A parameter that is a dataclass becomes one parameter for each
    of its fields, in the panel of ``--help`` that the class may name. A field that is not given
    keeps its default."""
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


def read_options(
    command: Callable[..., None],
    kind: type[Asked],
    words: Sequence[str],
    name: str,
    *,
    takes_more: bool = False,
) -> tuple[Asked, list[str]]:
    """The dataclass that these words make of a command's options, which is not run; and arguments
    that the command does not know (``takes_more``). Raises what ``click`` raises for words that it
    refuses."""
    alone = typer.Typer(add_completion=False)
    settings = {"allow_extra_args": takes_more, "ignore_unknown_options": takes_more}
    alone.command(context_settings=settings)(command)
    context = get_command(alone).make_context(name, [*words])
    given = {key: one for key, one in context.params.items() if one not in (None, [])}
    return kind(**given), context.args


def _parameters(asked: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(asked, include_extras=True)
    found = []
    for field in dataclasses.fields(asked):
        kind, declared = hints[field.name], field.metadata.get(_DECLARED)
        if declared is not None:
            declared.rich_help_panel = getattr(asked, "panel", None)
            kind = Annotated[kind, declared]
        parameter = inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=kind,
        )
        found.append(parameter)
    return found
