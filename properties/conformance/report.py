"""What a run of the suite found."""

from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["conforms", "fails", "inconclusive", "nothing selected"]


@dataclass(frozen=True)
class OperationReport:
    """Examples and failures of the properties that name an operation; whether the implementation lacks it."""

    examples: int
    failures: int
    missing: bool


@dataclass(frozen=True)
class PropertyReport:
    """Examples of one property, whether it failed, and whether the implementation lacks one of its operations.

    ``margin_cases`` counts the examples in which outputs differed where rounding decides, and nowhere else.
    ``inconclusive`` says why a statistical property decided nothing, or is empty. ``reach`` counts what its examples
    came to, by tag, where it says. ``left_out`` counts the examples that were not tried because the implementation
    declares that it does not take them, by what it declares.
    """

    examples: int
    failed: bool
    missing: bool
    margin_cases: int = 0
    inconclusive: str = ""
    reach: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def is_excluded(self) -> bool:
        """Whether no example was tried, because of what the implementation declares."""
        return self.examples == 0 and bool(self.left_out)


@dataclass(frozen=True)
class Failure:
    """One broken property with its smallest case.

    ``case`` holds the arguments of ``operation``, or is None where the case is no call of one operation; ``operation``
    is empty where the case is a whole run. ``message`` is the assertion's, and ``error`` the traceback.
    """

    operation: str
    property: str
    message: str
    case: dict[str, Any] | None
    error: str


@dataclass(frozen=True)
class Report:
    """The verdict, and the counts by operation and by property."""

    implementation: str
    seed: int
    verdict: Verdict
    examples: int
    operations: dict[str, OperationReport]
    properties: dict[str, PropertyReport]
    failures: tuple[Failure, ...]
    margin_cases: int = 0
