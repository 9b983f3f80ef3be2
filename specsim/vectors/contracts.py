"""The contract of an operation as data: what a manifest says of its arguments and outputs."""

from typing import Any

from specsim.contracts.contract import ALL, ArraySpec, Contract, ScalarSpec, Unit
from specsim.operations.record import Operation

EQUAL = "equal"
TOLERANCES = {
    Unit.PROBABILITY: "2**-23 * (16 + sqrt(vocab) - log(expected) + x) * expected + 1e-30, where x is the largest logit"
    " of the row by size, over its temperature, and 0 without logits",
    Unit.LOGPROB: "2**-23 * (16 + sqrt(vocab) + 4 * (log(vocab) + |expected|))",
    Unit.ACTIVATION: "what adding up its terms, its weights and its element type round, entry by entry",
}
"""The largest absolute error of an entry, in words; vectors have it in numbers."""


def contract_of(operation: Operation) -> dict[str, Any]:
    """Return the contract of an operation as plain values."""
    contract = operation.contract
    return {
        "group": operation.group,
        "summary": operation.summary,
        "source": operation.source,
        "arguments": [_parameter(spec) for spec in contract.parameters],
        "outputs": [{**_array(spec), "tolerance": tolerance_of(spec, contract)} for spec in contract.outputs],
        "written_in_place": list(contract.writes),
        "may_be_left_alone": list(contract.scratch),
        "requires": [
            {"expression": one.expression, "because": one.because, "reason": one.reason.name}
            for one in contract.requires
        ],
    }


def tolerance_of(spec: ArraySpec, contract: Contract) -> str:
    """Return how an output is compared, in words."""
    return EQUAL if spec.name in contract.writes else TOLERANCES.get(spec.unit, EQUAL)


def _parameter(spec: ArraySpec | ScalarSpec) -> dict[str, Any]:
    if isinstance(spec, ArraySpec):
        return _array(spec)
    given = {"name": spec.name, "kind": "flag" if spec.flag else "integer", "low": spec.low, "high": spec.high}
    return _present({**given, "axis": spec.axis, "default": spec.default})


def _array(spec: ArraySpec) -> dict[str, Any]:
    rule = {"rule": spec.defined.rule, "by": spec.defined.by or None}
    return _present(
        {
            "name": spec.name,
            "kind": "array" if spec.each is None else "list of arrays",
            "length": spec.each,
            "dtype": spec.dtype,
            "shape": list(spec.axes),
            "unit": spec.unit.value,
            "low": spec.low,
            "high": spec.high,
            "sentinel": spec.sentinel,
            "optional": spec.optional or None,
            "defined": _present(rule) if spec.defined != ALL else None,
        }
    )


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
