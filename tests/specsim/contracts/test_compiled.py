"""A compiled contract against an evaluator that walks the contract, on drawn contracts and drawn calls."""

import re
from dataclasses import dataclass

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from specsim.contracts.compiled import CompiledContract
from specsim.contracts.contract import Contract, Requirement, ScalarSpec, Unit, array
from specsim.rejection import Reason, SpecRejection

AXES = ("a", "b", "c", "a+1", "a*b", "a*(b+1)", "2*c", "b if n == 1 else c+1", "n", "a+m", "d", "a*d", "3")
IN_A_LIST = ("a", "1 if index == 0 else c", "(1 if index == 0 else b)*c", "index+1")
DTYPES = ("int64", "float32|int32", "any", "like x0")
SIZES = st.integers(0, 3)


@dataclass(frozen=True)
class Plain:
    """What the evaluator knows of an array."""

    shape: tuple[int, ...]
    dtype: str


def names(expression):
    return set(re.findall(r"[a-z_]\w*", re.sub(r"'\w*'|\b(if|else|and|or)\b", "", expression)))


def expected_of(contract, arguments):
    """Return axes and output forms, or (reason, what, got) of the first fault; written without the compiler's ideas."""
    known = {}
    for spec in contract.scalars:
        value = arguments[spec.name]
        if not isinstance(value, int) or (isinstance(value, bool) and not spec.flag):
            return Reason.MISSING_ARGUMENT, spec.name, value
        known[spec.name] = known[spec.axis or spec.name] = int(value)
    rows = []
    for spec in contract.arrays:
        value = arguments[spec.name]
        if value is None:
            if not spec.optional:
                return Reason.MISSING_ARGUMENT, spec.name, None
            continue
        if spec.each is not None:
            if not isinstance(value, list):
                return Reason.MISSING_ARGUMENT, spec.name, type(value).__name__
            rows.append((f"len({spec.name})", spec.each, len(value), {}))
        for place, entry in enumerate(value if spec.each else [value]):
            label = f"{spec.name}[{place}]" if spec.each else spec.name
            if not isinstance(entry, Plain):
                return Reason.MISSING_ARGUMENT, label, type(entry).__name__
            fixed = [axis for axis in spec.axes if axis != "..."]
            if len(entry.shape) < len(fixed) or ("..." not in spec.axes and len(entry.shape) > len(fixed)):
                return Reason.WRONG_SHAPE, f"{label}.shape", entry.shape
            extra = {"index": place} if spec.each else {}
            rows += [
                (f"{label}.shape[{i}]", axis, entry.shape[i], extra)
                for i, axis in enumerate(fixed)
                if i or entry.shape[i] or not spec.can_be_empty
            ]
    waiting = dict(contract.derived)
    before = None
    while before != (len(known), len(waiting)):
        before = len(known), len(waiting)
        for axis in [axis for axis in waiting if names(waiting[axis]) <= set(known)]:
            known[axis] = eval(waiting.pop(axis), {}, known)
        for label, axis, size, extra in rows:
            missing = names(axis) - set(known) - set(extra)
            if len(missing) != 1:
                continue
            (name,) = missing
            at = [eval(axis, {}, {**known, **extra, name: value}) for value in (0, 1)]
            if at[1] == at[0]:
                continue
            if (size - at[0]) % (at[1] - at[0]) or (size - at[0]) // (at[1] - at[0]) < 0:
                return Reason.NOT_DIVISIBLE, label, size
            if name not in waiting:
                known[name] = (size - at[0]) // (at[1] - at[0])
    for label, axis, size, extra in rows:
        try:
            value = eval(axis, {}, {**known, **extra})
        except NameError as unbound:
            value = eval(axis, {}, {**dict.fromkeys(names(axis), 0), **known, **extra})
            known[unbound.name] = 0
        if value != size:
            return Reason.WRONG_SHAPE, label, size
    for spec in contract.scalars:
        bounds = [
            (bound, eval(bound, {}, known)) for bound in (spec.low, spec.high) if bound and names(bound) <= set(known)
        ]
        for bound, limit in bounds:
            if known[spec.name] < limit if bound is spec.low else known[spec.name] > limit:
                return Reason.SCALAR_OUT_OF_RANGE, spec.name, known[spec.name]
        if abs(known[spec.name]) >= 2**63:
            return Reason.SCALAR_OUT_OF_RANGE, spec.name, known[spec.name]
    for requirement in contract.requires:
        if names(requirement.expression) <= set(known) and not eval(requirement.expression, {}, known):
            return requirement.reason, None, False
    for spec in contract.arrays:
        value = arguments[spec.name]
        for place, entry in enumerate([] if value is None else value if spec.each else [value]):
            label = f"{spec.name}[{place}].dtype" if spec.each else f"{spec.name}.dtype"
            model = arguments.get(spec.dtype.removeprefix("like "))
            if spec.dtype == "any":
                allowed = None if re.fullmatch(r"bool|(int|uint|float)\d+", entry.dtype) else ()
            elif spec.dtype.startswith("like "):
                allowed = None if model is None else (model.dtype,)
            else:
                allowed = spec.dtype.split("|")
            if allowed is not None and entry.dtype not in allowed:
                return Reason.WRONG_DTYPE, label, entry.dtype
            if spec.dtype.startswith("like ") and model is not None and "..." in spec.axes:
                of = contract.by_name[spec.dtype.removeprefix("like ")]
                rest = entry.shape[len(spec.axes) - 1 :], model.shape[len(of.axes) - 1 :]
                if "..." in of.axes and rest[0] != rest[1]:
                    return Reason.WRONG_SHAPE, None, rest[0]
    forms = []
    for spec in contract.outputs:
        model = arguments.get(spec.dtype.removeprefix("like "))
        if spec.dtype.startswith("like ") and model is None:
            forms.append(None)
            continue
        axes = [axis for axis in spec.axes if axis != "..."]
        try:
            shape = tuple(eval(axis, {}, known) for axis in axes)
        except NameError:
            return Reason.MISSING_ARGUMENT, None, None
        rest = model.shape[len(axes) :] if "..." in spec.axes else ()
        dtype = model.dtype if spec.dtype.startswith("like ") else spec.dtype.split("|")[0]
        forms.append((shape + rest, eval(dtype, {}, known) if " " in dtype else dtype))
    return known, tuple(forms)


@st.composite
def contracts(draw):
    parameters = [
        ScalarSpec("n", low="0", high="2"),
        ScalarSpec("m", axis=draw(st.sampled_from(["m", "e"])), flag=True),
    ]
    if draw(st.booleans()):
        parameters[0] = ScalarSpec(
            "n", low=draw(st.sampled_from([None, "c-2"])), high=draw(st.sampled_from([None, "a+b"]))
        )
    for place in range(draw(st.integers(1, 4))):
        is_list = draw(st.integers(0, 3)) == 0
        axes = draw(st.lists(st.sampled_from(IN_A_LIST if is_list else AXES), max_size=3))
        if draw(st.integers(0, 4)) == 0:
            axes.append("...")
        dtype = draw(st.sampled_from(DTYPES[: 3 if is_list or place == 0 else 4]))
        form = f"{dtype} [{', '.join(axes)}]"
        each = draw(st.sampled_from(["step", "2*c"])) if is_list and place else None
        optional = draw(st.booleans())
        if each is None and is_list:
            form = f"{dtype} [{', '.join(axis for axis in axes if 'index' not in axis)}]"
        can_be_empty = each is not None and bool(axes) and axes[0] != "..." and draw(st.booleans())
        parameters.append(array(f"x{place}", form, Unit.ANY, optional=optional, each=each, can_be_empty=can_be_empty))
    outputs = tuple(
        array(f"y{place}", form, Unit.ANY)
        for place, form in enumerate(
            draw(
                st.lists(
                    st.sampled_from(
                        [
                            "int32 [a, b+1]",
                            "like x0 [a, ...]",
                            "'bool' if n == 1 else 'uint8' [n, a*d]",
                            "float32|bool []",
                        ]
                    ),
                    max_size=3,
                )
            )
        )
    )
    requires = draw(st.lists(st.sampled_from(["a >= 1", "b <= c or n == 0", "d*2 < 9", "a+b != 5"]), max_size=2))
    return Contract(
        parameters=tuple(draw(st.permutations(parameters))),
        outputs=outputs,
        derived=draw(st.sampled_from([(), (("d", "n+1"),), (("d", "a//2 if a > 0 else 0"), ("f", "d+b"))])),
        requires=tuple(Requirement(one, "it says so", Reason.ROW_TOO_SHORT) for one in requires),
    )


@st.composite
def calls(draw):
    """Return a contract and arguments that fit it, or nearly."""
    contract = draw(contracts())
    sizes = {name: draw(SIZES) for name in ("a", "b", "c", "step")}
    scalars = {"n": draw(st.integers(0, 2)), "m": draw(st.integers(0, 1))}
    known = {**sizes, **scalars, "e": scalars["m"]}
    known |= {axis: eval(expression, {}, known) for axis, expression in contract.derived if axis == "d"}
    known.setdefault("d", 2)
    spoilt = draw(st.integers(0, 2))
    arguments = {}
    for spec in contract.parameters:
        wild = spoilt and draw(st.integers(0, 9)) == 0
        if isinstance(spec, ScalarSpec):
            arguments[spec.name] = (
                draw(st.sampled_from([None, True, 1.0, "1", -1, 3, 2**63])) if wild else known[spec.name]
            )
            continue
        if (spec.optional and draw(st.integers(0, 3)) == 0) or (wild and draw(st.booleans())):
            arguments[spec.name] = draw(st.sampled_from([None, 3, "text"])) if wild else None
            continue

        def entry(place, spec=spec):
            if spoilt and draw(st.integers(0, 19)) == 0:
                return None
            shape = [eval(axis, {}, {**known, "index": place}) for axis in spec.axes if axis != "..."]
            shape += [2] if "..." in spec.axes else []
            if spoilt and shape and draw(st.integers(0, 9)) == 0:
                shape[draw(st.integers(0, len(shape) - 1))] += 1
            if spec.can_be_empty and draw(st.integers(0, 3)) == 0:
                shape[0] = 0
            if spoilt and draw(st.integers(0, 19)) == 0:
                shape.append(1)
            usual = spec.dtype.split("|")[-1] if " " not in spec.dtype and spec.dtype != "any" else "int64"
            wrong = ["bool", "int64", "float32", "object", "complex64"]
            return Plain(tuple(shape), draw(st.sampled_from(wrong)) if spoilt and draw(st.booleans()) else usual)

        arguments[spec.name] = entry(0) if spec.each is None else [entry(i) for i in range(eval(spec.each, {}, known))]
    return contract, arguments


def realised(value):
    if isinstance(value, list):
        return [realised(entry) for entry in value]
    return np.zeros(value.shape, value.dtype) if isinstance(value, Plain) else value


@settings(max_examples=300)
@given(calls())
def test_a_compiled_contract_binds_what_the_contract_says(call):
    contract, arguments = call
    expected = expected_of(contract, arguments)
    compiled = CompiledContract("drawn", contract)
    real = {name: realised(value) for name, value in arguments.items()}
    for _ in range(2):
        try:
            checked = compiled.check(real)
        except SpecRejection as rejection:
            event(f"rejected: {rejection.reason.name}")
            assert expected[0] is rejection.reason, (str(rejection), compiled.source)
            assert expected[1] in (None, rejection.what), (str(rejection), compiled.source)
            assert expected[2] in (None, rejection.got), (str(rejection), compiled.source)
        else:
            event("bound")
            assert (dict(checked.axes), checked.forms) == expected, compiled.source
