"""What the JSON documents of ``check``, ``soak`` and ``matrix`` have in common."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from specsim.simulation.drafted import is_vacuous

if TYPE_CHECKING:
    from specsim.properties.unit_of_work import BrokenUnit

SCHEMA = 1
"""Goes up when a key of these documents is renamed, is left out or means something else."""

FAILED = "FAILED"


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
