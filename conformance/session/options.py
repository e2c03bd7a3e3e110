"""The options of a run, declared once: ``pinproof run`` and the pytest plugin are made from them.

It imports nothing of the project, since the plugin is loaded into every pytest session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

#: A level that no scenario has: the scenarios of a certificate.
CERTIFICATE: Final = "certificate"


@dataclass(frozen=True, slots=True)
class Option:
    """``--NAME`` of ``pinproof run``, ``--pin-NAME`` of pytest, ``pin_NAME`` in its settings file.
    Its value is a text, unless ``type`` is ``int``, or ``bool`` for an option without a value.
    ``in_pytest`` is what pytest's help says beside ``help``. ``choices`` is empty if any value is
    accepted. ``decides``: it decides what is run and how it is judged, so the result stream's
    header has it."""

    name: str
    help: str
    metavar: str | None = None
    default: Any = None
    type: type = str
    repeatable: bool = False
    choices: tuple[str, ...] = ()
    in_pytest: str = ""
    decides: bool = False

    @property
    def flag(self) -> str:
        """The option's name on pytest's command line."""
        return f"--pin-{self.name}"

    @property
    def key(self) -> str:
        """The option's name in pytest's settings file and among the parsed options."""
        return self.flag.removeprefix("--").replace("-", "_")


SUBJECT: Final = Option(
    "subject",
    "What is judged: reference, miniature:NAME, kubelet:BINARY, kubelet:1.36, exec:PROGRAM, "
    "node:ssh://root@node7 or node:lab.toml.",
    metavar="NAME",
    default="reference",
)
MACHINE: Final = Option(
    "machine",
    "Name, glob, 'all', archive, directory or described spec; repeatable. Default: the whole "
    "catalogue.",
    metavar="MACHINE",
    repeatable=True,
    decides=True,
)
RELEASE: Final = Option(
    "release",
    "Judge by this release instead of the subject's own. With auto, pinproof run first identifies "
    "the subject, and judges by the release that fits it best and by the behaviours that it shows.",
    metavar="RELEASE",
    decides=True,
)
BEHAVIOUR: Final = Option(
    "behaviour",
    "NAME=on or NAME=off: the subject has, or lacks, this named behaviour whatever its release "
    "(pinproof releases lists them); repeatable.",
    metavar="NAME=on|off",
    repeatable=True,
    decides=True,
)
FORK_BEHAVIOURS: Final = Option(
    "behaviours",
    "What a fork changes on purpose (TOML): named behaviours, known differences, and files that "
    "its kubelet reads.",
    metavar="FILE",
    decides=True,
)
LEVEL: Final = Option(
    "level",
    "core: only what every conformant node must keep.",
    default="extended",
    choices=("core", "extended", CERTIFICATE),
    in_pytest="certificate: that, and all that only a real node can show.",
    decides=True,
)
REPORT: Final = Option(
    "report", "Write result.jsonl, junit.xml and report.html to this directory.", metavar="FOLDER"
)
STREAM: Final = Option("stream", "Write only the result stream, to this file.", metavar="FILE")
FLOOR: Final = Option(
    "floor",
    "Exit status 4 if fewer scenarios pass than this.",
    metavar="N",
    default=1,
    type=int,
    decides=True,
)
NO_SMOKE: Final = Option(
    "no-smoke", "Do not try first whether the subject starts at all.", type=bool
)
KNOWN: Final = Option(
    "known",
    "A list of known failures (TOML). They do not fail the run. An entry that passes, or whose "
    "date has passed, fails it.",
    metavar="FILE",
)
RESUME: Final = Option(
    "resume",
    "Go on with the cases for which result.jsonl in the report's directory has no verdict.",
    type=bool,
)
SHARD: Final = Option(
    "shard",
    "Only this part of the cases, for example 2/3; pinproof report joins the streams.",
    metavar="K/N",
)
RECORD: Final = Option("record", "Record what the subject showed, as an oracle.", metavar="FILE")

OPTIONS: Final = (
    *(SUBJECT, MACHINE, RELEASE, BEHAVIOUR, FORK_BEHAVIOURS, LEVEL),
    *(REPORT, STREAM, FLOOR, KNOWN, NO_SMOKE, RESUME, SHARD, RECORD),
)
_BY_KEY: Final = {option.key: option for option in OPTIONS}


def configuration(config: Any) -> dict[str, str]:
    """The given options of a run inside pytest that decide what is run and how it is judged."""
    given = {option.name: config.getoption(option.flag) for option in OPTIONS if option.decides} | {
        "keyword": config.getoption("-k")
    }
    return {
        name: " ".join(value) if isinstance(value, list) else str(value)
        for name, value in given.items()
        if value
    }


def arguments(**values: object) -> list[str]:
    """These values, by name (``no_smoke``), as pytest's arguments. A value that is empty, ``None``
    or false is left out."""
    words: list[str] = []
    for name, value in values.items():
        option = _BY_KEY[f"pin_{name}"]
        if option.type is bool:
            words += [option.flag] if value else []
        elif option.repeatable:
            assert isinstance(value, list | None)
            words += [f"{option.flag}={one}" for one in value or ()]
        elif value:
            words.append(f"{option.flag}={value}")
    return words
