"""What the JSON documents of commands have in common."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from specsim.simulation.drafted import is_vacuous

if TYPE_CHECKING:
    from specsim.properties.unit_of_work import BrokenUnit

SCHEMA = 1
"""Goes up when a key of these documents is renamed, is left out or means something else."""

FAILED = "FAILED"

ABOUT_OUTPUT = frozenset(
    ("as_json", "by_cause", "junit", "known_to_write", "lists_all", "markdown", "plot", "report", "save", "summary")
)
"""Parameters of commands that decide what is printed or written of a run, and not what runs."""


@dataclass(frozen=True)
class FailureRecord:
    """What failed, with the same keys in every document.

    Parameters
    ----------
    operation : str
        The operation whose call fails; empty where that is a whole run.
    property : str
        A key of ``properties``, or what else failed.
    fate : str
        ``FAILED``, ``CRASHED`` or ``TIMED OUT``.
    message : str
        What is wrong.
    error : str
        The traceback, or nothing.
    difference : str
        Where outputs differ first, or nothing.
    case : str or None
        The file of the smallest case.
    example : int or None
        The number of the example that failed first.
    replay : str or None
        The command that runs it again.
    history : list of str or None
        The shortest history that was found to fail, a line an action.
    """

    operation: str
    property: str
    fate: str
    message: str
    error: str = ""
    difference: str = ""
    case: str | None = None
    example: int | None = None
    replay: str | None = None
    history: list[str] | None = None


@dataclass(frozen=True)
class PropertyRecord:
    """What a property came to, with the same keys in every document.

    ``drafts`` counts what became of the drafts of its whole runs, and is empty where it has none.
    """

    examples: int
    failed: bool
    seconds: float
    first_failed: int | None = None
    drafts: Mapping[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return everything by name."""
        return {
            "examples": self.examples,
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "first_failed": self.first_failed,
            "drafts": dict(self.drafts) or None,
            "vacuous": is_vacuous(self.examples, self.drafts),
        }


def circumstances(conclusion: str, device: str | None, seed: int | None) -> dict[str, Any]:
    """Return under which circumstances a command ran, and the last line that it prints; in the document of each.

    Parameters
    ----------
    conclusion : str
        The last line.
    device : str or None
        What the implementation ran on, where that is known.
    seed : int or None
        The one that was drawn, where none was given.
    """
    # NOTE: imported here, because most commands need no versions.
    from specsim.cli.env import versions_with_python

    context = click.get_current_context()
    return {
        "command": context.info_name,
        "conclusion": conclusion,
        "again": " ".join(words_of_command(context, seed)),
        "device": device,
        "versions": versions_with_python(),
    }


def words_of_command(context: click.Context, seed: int | None) -> list[str]:
    """Return the command line of a context, as a shell takes it, without what only says what is printed or written.

    It has the seed that was drawn, where none was given.
    """
    arguments, options = [], []
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in ABOUT_OUTPUT or not _is_given(context, name):
            continue
        value = context.params[name]
        values = [shlex.quote(str(one)) for one in (value if isinstance(value, tuple) else [value])]
        if isinstance(parameter, click.Argument):
            arguments += values
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            options.append(parameter.opts[0])
        else:
            options += [f"{parameter.opts[0]} {one}" for one in values]
    if seed is not None and not any(one.startswith("--seed ") for one in options):
        options.append(f"--seed {seed}")
    return ["specsim", str(context.info_name), *arguments, *options]


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def shared_document(
    verdict: str, failures: Iterable[FailureRecord], properties: Mapping[str, PropertyRecord]
) -> dict[str, Any]:
    """Return the keys that every document has."""
    return {
        "schema": SCHEMA,
        "verdict": verdict,
        "failure_records": [vars(one) for one in failures],
        "properties": {name: one.document() for name, one in properties.items()},
    }


def record_of(
    name: str, message: str, example: int | None, replay: str, shortest: "BrokenUnit | None" = None
) -> FailureRecord:
    """Return the record of a unit that failed, by the property of a name; its message says whether it was lost."""
    # NOTE: imported here, so that a help text imports nothing that it need not.
    from specsim.conformance.cases import Replay

    lost = next((one.value for one in (Replay.CRASHED, Replay.TIMED_OUT) if message.startswith(one.value)), "")
    fate = lost.partition(" ")[2] or FAILED
    history = None if shortest is None else list(shortest.lines)
    return FailureRecord("", name, fate, message, example=example, replay=replay, history=history)
