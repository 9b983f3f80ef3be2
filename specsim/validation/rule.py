"""A structural rule: what it demands, why, the reason of its rejection, and the search for the first fault."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from specsim.rejection import Reason, SpecRejection

Arguments = Mapping[str, Any]


class Fault(NamedTuple):
    """Where a rule is broken: the argument with its first bad entry, what is there, and what should be."""

    what: str
    got: object
    expected: str


Find = Callable[[Arguments, Arguments], Fault | None]
"""From the arguments and the sizes of the axes to the first fault, or None."""


@dataclass(frozen=True)
class Rule:
    """What must hold between the entries of a call; ``docs/reference`` prints sentence, cause and reason."""

    sentence: str
    reason: Reason
    because: str
    find: Find

    def in_words(self) -> str:
        """Return one line: what must hold, why, and the reason of a rejection."""
        return f"{self.sentence.removesuffix('.')}: {self.because} ({self.reason.name})."

    def check(self, arguments: Arguments, axes: Arguments) -> None:
        """Raise SpecRejection at the first fault."""
        fault = self.find(arguments, axes)
        if fault is not None:
            raise SpecRejection(self.reason, fault.what, fault.got, fault.expected, self.because)


def rule(reason: Reason, because: str) -> Callable[[Find], Rule]:
    """Make a rule of a search; its docstring is the sentence."""

    def make(find: Find) -> Rule:
        return Rule((find.__doc__ or "").strip(), reason, because, find)

    return make
