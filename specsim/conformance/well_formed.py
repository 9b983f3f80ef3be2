"""What a case says that a call should give: such outputs as the operation has, of a call that it takes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from specsim.conformance.outcomes import Observation
from specsim.conformance.plain_files import bad_case_file
from specsim.contracts.binding import arrays_of, defined_mask
from specsim.contracts.compiled import compile_contract
from specsim.contracts.kinds import NUMPY, dtype_name
from specsim.operations import RECORDS
from specsim.rejection import SpecRejection
from specsim.validation.checking import check_call

Form = tuple[tuple[int, ...], str]


def check_expected(path: Path, operation: str, arguments: Mapping[str, Any], expected: Observation) -> None:
    """Check that an implementation can be compared with what is expected.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE: outputs of a call that the operation refuses, or of other shapes and element types than its own.
    """
    if expected.rejection or expected.error:
        return
    contract = RECORDS[operation].contract
    try:
        axes = check_call(operation, arguments)
        forms = compile_contract(operation, contract, NUMPY).check(arguments).forms
    except SpecRejection as rejection:
        got = "expected.outputs of a call that is outside the domain"
        raise bad_case_file(path, got, "expected.rejection", f"{rejection}") from rejection
    wanted: dict[str, Any] = {spec.name: form for spec, form in zip(contract.outputs, forms, strict=True)}
    wanted |= {name: _form(arguments[name]) for name in contract.writes}
    for name, form in wanted.items():
        got = _form(expected.outputs[name])
        if got != form:
            because = f"{operation} gives that"
            raise bad_case_file(path, f"expected.outputs.{name} {_in_words(got)}", _in_words(form), because)
    given = {**arguments, **expected.outputs}
    for name in wanted:
        spec = contract.by_name[name]
        for label, array in arrays_of(spec, given[name]):  # type: ignore[arg-type]
            try:
                defined_mask(spec, array.shape, given, axes)  # type: ignore[arg-type]
            except (IndexError, ValueError, ArithmeticError) as error:
                got = f"expected.outputs, by which {label} is defined in part"
                raise bad_case_file(path, got, "entries that can be", f"{error}") from error


def _form(value: Any) -> Any:
    if isinstance(value, list):
        return [_form(entry) for entry in value]
    return (value.shape, dtype_name(value)) if isinstance(value, np.ndarray) else None


def _in_words(form: Any) -> str:
    if isinstance(form, list):
        return f"a list of {len(form)} arrays"
    return "nothing" if form is None else f"{form[1]} {list(form[0])}"
