"""The case of a law that takes more than one call: the request in one of its calls that differs from the reference."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin

import numpy as np

from specsim.conformance.backend import Backend, load
from specsim.conformance.cases import case_arguments
from specsim.conformance.outcomes import Observation, first_difference, observe
from specsim.conformance.stored_laws import StoredLaw
from specsim.operations import RECORDS
from specsim.properties.laws.checks import take_blocks
from specsim.properties.laws.sampling_cells import BLOCK_SAMPLER, CHAIN_SAMPLER
from specsim.properties.operations.acceptance.chains import rows_of
from specsim.properties.operations.acceptance.chains import taken as taken_chains
from specsim.properties.operations.generated.margin_cases import difference_beyond_margins
from specsim.properties.property import Property
from specsim.properties.suite.conformance.cells import cell_of, tokens_of
from specsim.properties.suite.conformance.evidence import copied, is_broken_by
from specsim.properties.suite.conformance.plain_cases import NotPlain, form_of, plain, restored

Call = dict[str, Any]


@dataclass(frozen=True)
class LawCase:
    """A call that a law makes, and what else its case file keeps."""

    operation: str
    arguments: Call
    law: StoredLaw


def law_case_of(one: Property, backend: Backend, case: Any) -> LawCase | None:
    """Run a law once more and return its case; None where it makes no call, or what it takes cannot be kept."""
    law = stored_law_of(one, case)
    if law is None:
        return None
    calls = _calls_of(one, backend, case)
    if not calls:
        return None
    # NOTE: where results are wrong, a call that is right but for scratch memory would show something else.
    differing = (_request_that_differs(backend, *call, with_scratch=how) for how in (False, True) for call in calls)
    operation, arguments = next((call for call in differing if call is not None), calls[0])
    return LawCase(operation, arguments, _with_cell(law, backend, operation, arguments))


def stored_law_of(one: Property, case: Any) -> StoredLaw | None:
    """Return what a case file keeps of what a law is given; None where that cannot be kept."""
    with suppress(NotPlain):
        law = StoredLaw(plain(case))
        given_to(one, law)
        return law
    return None


def given_to(one: Property, law: StoredLaw) -> Any:
    """Return what a law takes.

    Raises
    ------
    NotPlain
        It does not fit the law.
    """
    given = restored(law.given, form_of(one.law))
    if plain(given) != law.given:
        raise NotPlain("not every part of it is of the type that the law states")
    return given


def given_by(one: Property, call: Call) -> Any:
    """Return what a law takes that is given by a call alone: the call, or as many of them; None of any other law."""
    form = form_of(one.law)
    if get_origin(form) is dict:
        return dict(call)
    forms = get_args(form) if get_origin(form) is tuple else ()
    return tuple(dict(call) for _ in forms) if forms and all(get_origin(of) is dict for of in forms) else None


def _calls_of(one: Property, backend: Backend, case: Any) -> list[tuple[str, Call]]:
    """Return the calls that a law makes until it breaks."""
    calls: list[tuple[str, Call]] = []

    def watched(operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watch(**carried: Any) -> Any:
            fetched = backend.fetch(operation, carried)
            calls.append((operation, {name: copied(value) for name, value in fetched.items()}))
            return function(**carried)

        return watch

    there = [name for name in one.operations if name in RECORDS and backend.has(name)]
    # NOTE: it is known what breaks.
    is_broken_by(one, backend, {name: watched(name, backend.functions[name]) for name in there}, case)
    return [(operation, case_arguments(operation, arguments)) for operation, arguments in calls]


def _request_that_differs(
    backend: Backend, operation: str, arguments: Call, with_scratch: bool
) -> tuple[str, Call] | None:
    """Return a call cut to one of its requests that differs from the reference's; the call where that hides it."""
    expected, observed = _answers(backend, operation, arguments, with_scratch)
    if difference_beyond_margins(operation, arguments, expected, observed) is None:
        return None
    num_requests = len(rows_of(arguments)) if "cu_num_drafts" in arguments else _num_requests(arguments)
    if not (expected.outputs and observed.outputs and num_requests):
        return operation, arguments
    for request in range(num_requests):
        others = np.arange(num_requests) != request
        if first_difference(operation, arguments, expected, observed, left_out=others) is not None:
            alone = _alone(operation, arguments, num_requests, request)
            answers = _answers(backend, operation, alone, with_scratch)
            is_shown = difference_beyond_margins(operation, alone, *answers) is not None
            return operation, alone if is_shown else arguments
    return operation, arguments


def _answers(backend: Backend, operation: str, arguments: Call, with_scratch: bool) -> tuple[Observation, Observation]:
    """Return what the reference and an implementation give for a call, that one without scratch memory if so wanted."""
    expected, observed = (observe(one, operation, arguments) for one in (load("specsim.reference"), backend))
    if with_scratch or not observed.outputs:
        return expected, observed
    none = dict.fromkeys(RECORDS[operation].contract.scratch)
    return expected, replace(observed, outputs={**observed.outputs, **none})


def _alone(operation: str, arguments: Call, num_requests: int, request: int) -> Call:
    if operation in (CHAIN_SAMPLER, BLOCK_SAMPLER):
        return taken_chains(arguments, [request])
    alone = dict(arguments)
    for spec in RECORDS[operation].contract.arrays:
        value = arguments[spec.name]
        if isinstance(value, np.ndarray) and spec.axes and spec.axes[0] in ("request", "request*node"):
            alone[spec.name] = take_blocks(value, num_requests, [request])
    if isinstance(arguments.get("retrieve_index"), np.ndarray):
        alone["retrieve_index"] = arguments["retrieve_index"][:1]
    return alone


def _num_requests(arguments: Mapping[str, Any]) -> int:
    candidates = arguments.get("candidates")
    return len(candidates) if isinstance(candidates, np.ndarray) else 0


def _with_cell(law: StoredLaw, backend: Backend, operation: str, arguments: Call) -> StoredLaw:
    answers = [observe(one, operation, arguments).outputs for one in (load("specsim.reference"), backend)]
    cell = cell_of(operation, arguments) if all(answers) else ()
    if not cell or _forms_of(answers[0]) != _forms_of(answers[1]):
        return law
    expected, observed = (tokens_of(operation, outputs) for outputs in answers)
    return StoredLaw(law.given, tuple((str(one.low), str(one.high)) for one in cell), expected, observed)


def _forms_of(outputs: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in outputs.items() if value is not None}
    return {name: (np.shape(value), getattr(value, "dtype", None)) for name, value in plain.items()}
