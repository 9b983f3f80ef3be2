"""What an implementation does beyond the limits that it declares: each is tried once, and what comes of it is reported.

``python -m specsim.properties.suite.conformance.beyond IMPL SKIPPED [OPERATION …]`` prints a line of JSON before and
after each trial, but for the first few, so that a trial which takes the process with it can be named. Without
operations all of the module are tried.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from specsim.conformance.backend import Backend, load
from specsim.conformance.limits import FIELDS, NO_LIMITS, SWITCHES, Limits
from specsim.conformance.outcomes import observe
from specsim.conformance.outside import why_outside
from specsim.conformance.plain_text import first_line
from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.properties.operations.generated.agreement import reference
from specsim.properties.operations.generated.margin_cases import difference_beyond_margins
from specsim.properties.strategies.limits import drawing_within
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.hunt.cases import iterate_cases
from specsim.rejection import SpecRejection

MOST_CASES = 40
"""Cases of one operation among which one beyond a limit is looked for."""

REFUSALS = (SpecRejection, ValueError, TypeError, NotImplementedError, AssertionError)
"""What a kernel's caller raises that looks at what it is given."""

OF_INPUT = [FIELDS[name] for name in SWITCHES if name != "SCRATCH"]
"""Fields of limits that leave some input out, which scratch memory is not."""


@dataclass(frozen=True)
class Trial:
    """One limit by itself, all the others, and the operations with which it may be tried."""

    limits: Limits
    others: Limits
    operations: tuple[str, ...]

    @property
    def words(self) -> str:
        """What lies beyond the limit."""
        return self.limits.in_words()[0]


def trials_of(backend: Backend, operations: Sequence[str] = ()) -> list[Trial]:
    """Return a trial for everything that is declared of some operations, or all; how ties are broken is no limit."""
    declared = backend.limits
    there = tuple(name for name in operations or RECORDS if name in RECORDS and backend.has(name))
    found = [
        Trial(replace(NO_LIMITS, **{name: value}), replace(declared, **{name: vars(NO_LIMITS)[name]}), there)
        for name, value in vars(declared).items()
        if name in OF_INPUT and value != vars(NO_LIMITS)[name]
    ]
    for operation, taken in declared.values.items():
        found += [
            Trial(Limits(values={operation: {name: values}}), _without(declared, operation, name), (operation,))
            for name, values in taken.items()
            if operation in there
        ]
    return found


def _without(declared: Limits, operation: str, name: str) -> Limits:
    kept = {axis: values for axis, values in declared.values[operation].items() if axis != name}
    return replace(declared, values={**declared.values, operation: kept})


def outcome_of(trial: Trial, backend: Backend) -> str:
    """Call an implementation once beyond a limit and say what comes of it."""
    for operation in trial.operations:
        for case in _cases_of(trial, operation):
            return f"{operation}: {_call(replace(backend, limits=trial.others), operation, case)}"
    return "no case was found"


def _cases_of(trial: Trial, operation: str) -> Iterator[strategies.Arguments]:
    wanted = {"takes_empty": "empty", "is_contiguous": "strided"}
    group = next((group for name, group in wanted.items() if vars(trial.limits)[name] != vars(NO_LIMITS)[name]), "")
    one = property_named(f"{group or 'agreement'}.{operation}")
    with drawing_within(trial.others, (operation,)):
        for case in iterate_cases(one, 0, 4 if group == "empty" else MOST_CASES):
            is_strided = any(strategies.is_strided(value) for value in case.values())
            is_beyond = is_strided if group == "strided" else why_outside(trial.limits, RECORDS[operation], case)
            if is_beyond and why_outside(trial.others, RECORDS[operation], case) is None:
                yield case


def _call(backend: Backend, operation: str, case: strategies.Arguments) -> str:
    try:
        with backend.arrays.debugging(False):
            backend.run(operation, case)
    except REFUSALS as refusal:
        return f"rejects cleanly ({type(refusal).__name__}: {first_line(refusal)[:100]})"
    except Exception as error:  # NOTE: an implementation under test may raise anything at all.
        return f"crashes ({type(error).__name__}: {first_line(error)[:100]})"
    expected = observe(reference(), operation, case)
    difference = difference_beyond_margins(operation, case, expected, observe(backend, operation, case))
    return "right answer" if difference is None else f"wrong answer ({difference})"


def main(implementation: str, skipped: int, operations: Sequence[str]) -> None:
    """Print what is tried, and what came of it."""
    plain, sys.stdout = sys.stdout, sys.stderr
    backend = load(implementation)
    for trial in trials_of(backend, operations)[skipped:]:
        print(json.dumps({"what": trial.words}), file=plain, flush=True)
        print(json.dumps({"what": trial.words, "outcome": outcome_of(trial, backend)}), file=plain, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
