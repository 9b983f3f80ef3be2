"""The contract of an operation in Markdown, for the pages of `docs/reference`."""

from collections.abc import Sequence

from specsim.contracts.contract import ArraySpec, Defined, Requirement, ScalarSpec
from specsim.operations.record import Operation

COLUMNS = ("argument", "type", "unit", "bounds", "defined entries", "remarks")
DEFINED_IN_WORDS = {
    "all": "",
    "prefix": "of row b the first `{by}[b]`",
    "at": "those that `{by}` names",
    "front": "of each block those where `{by}` is no sentinel",
    "rows": "of each row up to the last entry of `{by}`",
    "length": "the first `{by}`",
    "attended": "those that hold keys of a request, by `{by}`",
    "chain": "rows up to the one that the last token of a request is drawn from",
    "block": "rows of the drafts, and the one after them where all of them are kept",
    "live": "all but dump slot 0",
    "owned": "those whose entry of `{by}` is not dump slot 0",
}


def contract_of(operation: Operation, rules: Sequence[str]) -> list[str]:
    """Return the lines of a table of arguments and outputs, and what else must hold; ``rules`` has a line a rule."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in _quoted(row)) + " |" for row in rows_of(operation)]
    lines += [f"\n{describe_requirement(requirement)}" for requirement in operation.contract.requires]
    return lines + [f"\nMust hold: {one}" for one in rules]


def rows_of(operation: Operation) -> list[tuple[str, ...]]:
    """Return one row an argument and output, in the order of ``COLUMNS``."""
    contract = operation.contract
    rows = []
    for spec in contract.parameters:
        rows.append(_array_row(spec, operation) if isinstance(spec, ArraySpec) else _scalar_row(spec))
    for spec in contract.outputs:
        name, *rest, remarks = _array_row(spec, operation)
        rows.append((name, *rest, ", ".join(filter(None, ("output", remarks)))))
    return rows


def describe_requirement(requirement: Requirement) -> str:
    """Return one line."""
    return f"Requires `{requirement.expression}`: {requirement.because} ({requirement.reason.name})."


def _array_row(spec: ArraySpec, operation: Operation) -> tuple[str, ...]:
    form = f"{spec.dtype.replace('|', ' or ')} [{', '.join(spec.axes)}]"
    if spec.each is not None:
        form = f"list of {spec.each} × {form}"
    remarks = []
    if spec.sentinel is not None:
        remarks.append(f"sentinel {spec.sentinel}")
    if spec.optional:
        remarks.append("optional")
    if spec.can_be_empty:
        remarks.append(f"an array may have nothing along {spec.axes[0]}")
    if spec.name in operation.contract.writes:
        remarks.append("written in place")
    return (spec.name, form, str(spec.unit), _bounds(spec.low, spec.high), _defined(spec.defined), ", ".join(remarks))


def _scalar_row(spec: ScalarSpec) -> tuple[str, ...]:
    remarks = [f"axis {spec.axis}"] if spec.axis else []
    if spec.default is not None:
        remarks.append(f"default {bool(spec.default) if spec.flag else spec.default}")
    if spec.flag:
        return (spec.name, "bool", "", "", "", ", ".join(remarks))
    return (spec.name, "int", "", _bounds(spec.low, spec.high), "", ", ".join(remarks))


def _bounds(low: str | None, high: str | None) -> str:
    if low is None and high is None:
        return ""
    return f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"


def _defined(defined: Defined) -> str:
    return DEFINED_IN_WORDS[defined.rule].replace("{by}", defined.by)


def _quoted(row: tuple[str, ...]) -> tuple[str, ...]:
    name, form, unit, bounds, defined, remarks = row
    return (f"`{name}`", f"`{form}`", unit, f"`{bounds}`" if bounds else "", defined, remarks)
