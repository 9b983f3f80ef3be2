"""What a failure shows: which outputs have to be wrong for it, and which arguments have to be unusual."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.conformance.carrying import as_list
from specsim.conformance.cases import case_arguments
from specsim.conformance.isolation.heartbeat import staying
from specsim.conformance.outcomes import Observation, observe
from specsim.operations import RECORDS
from specsim.properties.operations.generated.agreement import reference
from specsim.properties.operations.generated.margin_cases import difference_beyond_margins
from specsim.properties.property import Property
from specsim.rejection import SpecRejection

Call = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """What a failure shows.

    Parameters
    ----------
    wrong : tuple of str
        The outputs each of which breaks the law by itself, while the others are the reference's.
    needs : tuple of str
        The arguments that have to be unusual for an output to be wrong: thresholds below 1, flags unlike their default.
    """

    wrong: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


NO_EVIDENCE = Evidence()


def evidence_of(one: Property, backend: Backend, case: Any, call: Call | None) -> Evidence:
    """Return what the failure of a property shows; the implementation is called again, a few times.

    Parameters
    ----------
    one : Property
        One of a single operation; any other one shows nothing.
    case : Any
        What its law was given.
    call : mapping or None
        A call of the operation that shows the failure, if one is known.
    """
    if len(one.operations) != 1 or one.is_slow or one.operations[0] not in RECORDS:
        return NO_EVIDENCE
    contract = RECORDS[one.operations[0]].contract
    names = [*(spec.name for spec in contract.outputs), *contract.writes]
    wrong = (
        tuple(names) if len(names) == 1 else tuple(name for name in names if _breaks_alone(one, backend, case, name))
    )
    return Evidence(wrong, () if call is None else _needs(one.operations[0], backend, call))


def _breaks_alone(one: Property, backend: Backend, case: Any, name: str) -> bool:
    """Return whether a law breaks while every output but one is the reference's."""
    (operation,) = one.operations
    return is_broken_by(one, backend, {operation: _repaired(operation, backend, keep={name})}, case)


def is_broken_by(one: Property, backend: Backend, others: Mapping[str, Callable[..., Any]], case: Any) -> bool:
    """Tell whether an implementation breaks a law on a case with other functions in the place of its own."""
    try:
        with backend.arrays.debugging(), staying(one.operations[0]):
            one.law(replace(backend, functions={**backend.functions, **others}), case)
    except Exception:  # NOTE: an implementation under test may raise anything at all.
        return True
    return False


def _repaired(operation: str, backend: Backend, keep: Collection[str]) -> Callable[..., Any]:
    """Return the function of an operation with the reference's outputs in the place of those that are not kept."""
    contract, function = RECORDS[operation].contract, backend.functions[operation]

    def call(**carried: Any) -> Any:
        given = {name: copied(value) for name, value in backend.fetch(operation, carried).items()}
        returned = function(**carried)
        with suppress(SpecRejection):
            expected = reference().run(operation, given).outputs
            for name in set(contract.writes) - set(keep):
                for target, right in zip(as_list(carried[name]), as_list(expected[name]), strict=True):
                    target[...] = backend.arrays.from_numpy(right)
            values = returned if isinstance(returned, tuple) else (returned,)
            if len(values) == len(contract.outputs):
                pairs = zip(contract.outputs, values, strict=True)
                repaired = [
                    value if spec.name in keep else _carried(backend, expected[spec.name]) for spec, value in pairs
                ]
                return tuple(repaired) if len(repaired) > 1 else repaired[0]
        return returned

    return call


def _needs(operation: str, backend: Backend, call: Call) -> tuple[str, ...]:
    """Return the arguments that make an output right where they are as usual, each by itself or only all together."""
    usual, wrong = _usual(operation, call), _wrong(operation, backend, call)
    needed = tuple(name for name in usual if wrong - _wrong(operation, backend, {**call, name: usual[name]}))
    if needed or len(usual) < 2 or not wrong - _wrong(operation, backend, {**call, **usual}):
        return needed
    return tuple(usual)


def _usual(operation: str, call: Call) -> dict[str, Any]:
    """Return what most calls have for the unusual arguments of a call."""
    contract, found = RECORDS[operation].contract, dict[str, Any]()
    for name, entry in contract.neutral.items():
        if (call[name] != entry).any():
            found[name] = np.full_like(call[name], entry)
    for spec in contract.scalars:
        if spec.flag and spec.default is not None and bool(call[spec.name]) != bool(spec.default):
            found[spec.name] = bool(spec.default)
    return found


def _wrong(operation: str, backend: Backend, call: Call) -> set[str]:
    """Return the outputs of a call that differ from the reference's; all of them where one of the two refuses it."""
    arguments = case_arguments(operation, call)
    expected = observe(reference(), operation, arguments)
    with backend.arrays.debugging():
        observed = observe(backend, operation, arguments)
    if not (expected.outputs and observed.outputs):
        return {"all"} if difference_beyond_margins(operation, arguments, expected, observed) else set()

    def is_wrong(name: str) -> bool:
        alone = Observation({**expected.outputs, name: observed.outputs.get(name)})
        return difference_beyond_margins(operation, arguments, expected, alone) is not None

    return {name for name in expected.outputs if is_wrong(name)}


def _carried(backend: Backend, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_carried(backend, entry) for entry in value]
    return None if value is None else backend.arrays.from_numpy(value)


def copied(value: Any) -> Any:
    """Return an argument whose arrays are copies, lists of them too."""
    if isinstance(value, list | tuple):
        return [copied(entry) for entry in value]
    return value.copy() if isinstance(value, np.ndarray) else value
