"""The documentation page of the tables; ``specsim.validation.page`` adds the structural rules and prints it."""

from collections.abc import Mapping, Sequence

from specsim.contracts.contract import ArraySpec, Defined, Requirement, ScalarSpec
from specsim.operations import MODEL_TABLE, TABLE
from specsim.operations.record import Operation

HEADER = """# Operations

The table, in pipeline order, and after it the table of the toy models; `python -m specsim.validation.page` prints this
page. An axis is a name or an expression over names; a call binds every name to one size. Entries that are not defined
are never read and never compared; the others are within their bounds, and no number among them is NaN (`NAN_SCORE`).
Where entries are checked, a call is refused unless all of it holds: what is said in the columns, what an operation
*requires* of its sizes, and what *must hold* between its entries.

Every layer refuses shapes, dtypes and scalars that a contract does not allow, at every call. Entries are checked by the
reference always, and by `specsim.gpu` on request, because its check waits for the device: inside
`with specsim.gpu.switches.debugging():`, everywhere with `SPECSIM_DEBUG=1` in the environment, and by `specsim check`;
never while a CUDA graph is captured. Without the check no operation, those of the toy models included, reads or writes
outside of its arrays or runs on without end, whatever its entries: kernels mask what leads outside, with no exception.
What depends on such an entry is then undefined, and nothing says so.
"""
MODELS = """# Operations of the toy models

Forwards and heads of the models that the engine runs on: a table of their own.
"""
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


def page(rules: Mapping[str, Sequence[str]]) -> str:
    """Return the page; ``rules`` holds, by operation, one line a structural rule."""
    return "\n".join([HEADER, *_groups(TABLE, rules), MODELS, *_groups(MODEL_TABLE, rules)])


def section(operation: Operation, rules: Sequence[str]) -> str:
    """Return the section of one operation."""
    lines = [f"### `{operation.name}`\n", operation.summary + f" Source: {operation.source}.\n"]
    lines.append("| " + " | ".join(COLUMNS) + " |")
    lines.append("|" + "---|" * len(COLUMNS))
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in _quoted(row)) + " |" for row in rows_of(operation)]
    lines += [f"\n{describe_requirement(requirement)}" for requirement in operation.contract.requires]
    lines += [f"\nMust hold: {one}" for one in rules]
    return "\n".join(lines) + "\n"


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


def _groups(table: Mapping[str, Operation], rules: Mapping[str, Sequence[str]]) -> list[str]:
    parts = []
    for group in dict.fromkeys(operation.group for operation in table.values()):
        parts.append(f"## {group}\n")
        of_group = [operation for operation in table.values() if operation.group == group]
        parts += [section(operation, rules.get(operation.name, ())) for operation in of_group]
    return parts


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
