"""Write a contract down as plain Python: from the scalars and forms of a call alone its axes and output forms.

``bind(forms)`` takes a flat tuple: the scalars, the place that the arrays share, and the form of each array. It checks
them and returns the axes and the form of each output. Axes and scalars are variables of their own names;
every other name starts with an underscore.

An axis that an argument names alone is bound to its size, and an expression in which one name is missing is solved for
it, over and over until nothing changes. Names that stay missing (of an empty batch, or of a branch that is not taken)
are None.
"""

from collections.abc import Callable, Iterable, Iterator

from specsim.contracts.axes import divisors_of, names_of, spelt
from specsim.contracts.contract import ArraySpec, Contract, ScalarSpec
from specsim.contracts.equations import Equation, Names, equations_of, label_of
from specsim.contracts.faults import SCALAR_BITS

Lines = list[str]
Writer = Callable[[Equation], Lines]

_LIMIT = f"{1 << (SCALAR_BITS - 1)}"


def bind_source(contract: Contract) -> str:
    """Write the function that checks forms and returns axes, output forms, and bounds of entries."""
    names = Names.of(contract)
    unpacked = [f"_{spec.name}_value" for spec in contract.scalars], [f"_{spec.name}" for spec in contract.arrays]
    lines = [f"({', '.join([*unpacked[0], '_place', *unpacked[1]])},) = _given"]
    for scalar in contract.scalars:
        targets = [scalar.name] if scalar.axis in (None, scalar.name) else [scalar.name, str(scalar.axis)]
        lines.append(f"{' = '.join(targets)} = _{scalar.name}_value")
    for spec in contract.arrays:
        lines += _ranks(spec)
    equations = equations_of(contract)
    divisors = _divisors(names, contract)
    for scalar in divisors:
        lines += _bounds(names, scalar)
    lines += _solving(names, equations)
    lines += _per_array(equations, lambda equation: equation.checking(names))
    for scalar in contract.scalars:
        lines += [] if scalar in divisors else _bounds(names, scalar)
    for place, requirement in enumerate(contract.requires):
        used = names.late(requirement.expression)
        skipped = "".join(f"{name} is not None and " for name in used)
        lines.append(f"if {skipped}not ({spelt(requirement.expression, {})}):")
        lines.append(f"    raise _faults.requirement({place}, {names.bound(requirement.expression)})")
    for spec in contract.arrays:
        lines += _likeness(names, spec, contract)
    lines += _axes(names)
    lines += _forms(names, contract)
    limits = [", ".join(_limit(names, bound)[0] for bound in (spec.low, spec.high)) for spec in contract.arrays]
    lines.append(f"_limits = ({' '.join(f'({pair}),' for pair in limits)})")
    lines.append("return _axes, _forms, _limits")
    return _function("bind(_given)", lines)


def _function(head: str, lines: Lines) -> str:
    return "\n".join([f"def {head}:", *_indented(lines), ""])


def _indented(lines: Iterable[str]) -> Lines:
    return [f"    {line}" for line in lines]


def _ranks(spec: ArraySpec) -> Lines:
    """Check that an argument is there, is what it should be, and has as many axes as it should have."""
    name = f"_{spec.name}"
    lines: Lines = []
    if not spec.optional:
        lines += [f"if {name} is None:", f"    raise _faults.absent({spec.name!r})"]
    body: Lines = []
    trailing = spec.axes[-1:] == ("...",)
    count = len(spec.axes) - trailing
    wrong = f"_len(_shape) {'<' if trailing else '!='} {count}"
    axes = f"[{', '.join(spec.axes)}]"
    label = label_of(spec)
    array = [
        f"if not _is_array({'_form' if spec.each else name}):",
        f"    raise _faults.no_array({label}, {'_form' if spec.each else name})",
        f"_shape = {'_form' if spec.each else name}[1]",
        f"if {wrong}:",
        f"    raise _faults.rank({label}, _shape, {axes!r})",
    ]
    if spec.each is None:
        body += [*array, *(f"{name}_{place} = _shape[{place}]" for place in range(count))]
    else:
        body += [f"if _is_no_list({name}):", f"    raise _faults.no_list({spec.name!r}, {name})"]
        body += [f"for _index, _form in _enumerate({name}):", *_indented(array)]
    return [*lines, f"if {name} is not None:", *_indented(body)] if spec.optional else [*lines, *body]


def _solving(names: Names, equations: tuple[Equation, ...]) -> Lines:
    """Solve equations until nothing changes."""
    if not names.unknown:
        return []
    lines = [f"{' = '.join(names.unknown)} = None", "_progress = True"]
    body = ["_progress = False"]
    ready: Lines = []
    for place, (axis, expression) in enumerate(names.derived.items()):
        # NOTE: which of them can be derived is settled before any of them is.
        waiting = [f"{axis} is None", *(f"{name} is not None" for name in sorted(names_of(expression) - names.fixed))]
        body.append(f"_is_ready_{place} = {' and '.join(waiting)}")
        ready += [
            f"if _is_ready_{place}:",
            f"    {axis} = {spelt(expression, {})}",
            "    _progress = True",
        ]
    body += ready
    body += _per_array(equations, lambda equation: equation.solving(names))
    body += [f"if {' and '.join(f'{name} is not None' for name in names.unknown)}:", "    break"]
    return [*lines, "while _progress:", *_indented(body)]


def _per_array(equations: tuple[Equation, ...], write: Writer) -> Lines:
    """Write something for each equation, inside the loop over a list and after the test of an optional argument."""
    lines: Lines = []
    for spec, own in _by_array(equations):
        body = [line for equation in own if not equation.is_repeated for line in write(equation)]
        repeated = [line for equation in own if equation.is_repeated for line in write(equation)]
        if repeated:
            body += [f"for _index, _form in _enumerate(_{spec.name}):", *_indented(repeated)]
        if spec.optional and body:
            body = [f"if _{spec.name} is not None:", *_indented(body)]
        lines += body
    return lines


def _by_array(equations: tuple[Equation, ...]) -> Iterator[tuple[ArraySpec, list[Equation]]]:
    for spec in dict.fromkeys(equation.spec for equation in equations):
        yield spec, [equation for equation in equations if equation.spec is spec]


def _divisors(names: Names, contract: Contract) -> list[ScalarSpec]:
    """Return the scalars that sizes are divided by: their bounds, which keep 0 out, are checked before any size."""
    sizes = [
        *(axis for spec in contract.arrays for axis in spec.axes if axis != "..."),
        *dict(contract.derived).values(),
    ]
    divided_by = frozenset[str]().union(*map(divisors_of, sizes))
    return [
        scalar
        for scalar in contract.scalars
        if scalar.name in divided_by and not any(names.late(bound) for bound in (scalar.low, scalar.high) if bound)
    ]


def _limit(names: Names, bound: str | None) -> tuple[str, str]:
    """Write a bound, and the test that it has a value: one that uses a missing name is none."""
    if bound is None:
        return "None", ""
    value, late = spelt(bound, {}), names.late(bound)
    if not late:
        return value, ""
    absent = " or ".join(f"{name} is None" for name in late)
    return f"None if {absent} else ({value})", f"not ({absent}) and "


def _bounds(names: Names, scalar: ScalarSpec) -> Lines:
    """Check that a scalar lies within its bounds, and within what sizes are computed in."""
    least, most = _limit(names, scalar.low), _limit(names, scalar.high)
    conditions = [
        f"{is_there}{scalar.name} {beyond} ({spelt(bound, {})})"
        for bound, (_, is_there), beyond in ((scalar.low, least, "<"), (scalar.high, most, ">"))
        if bound is not None
    ]
    lines = []
    if conditions:
        lines.append(f"if {' or '.join(conditions)}:")
        lines.append(f"    raise _faults.bounds({scalar.name!r}, {scalar.name}, {least[0]}, {most[0]})")
    if len(conditions) < 2 or least[1] or most[1]:
        lines.append(f"if not -{_LIMIT} <= {scalar.name} < {_LIMIT}:")
        lines.append(f"    raise _faults.overflow({scalar.name!r}, {scalar.name})")
    return lines


def _likeness(names: Names, spec: ArraySpec, contract: Contract) -> Lines:
    """Check the element type of an argument, and trailing sizes that it has in common with another one."""
    name = f"_{spec.name}"
    form = "_form" if spec.each is not None else name
    label = label_of(spec)
    guards = [f"{name} is not None"] if spec.optional else []
    allowed = model = ""
    if spec.dtype == "any":
        test = "not _is_number(_name)"
        allowed = "('a real number type', 'bool')"
    elif spec.model is not None:
        guards.append(f"_{spec.model} is not None")
        model = f"_{spec.model}[_index]" if spec.each is not None else f"_{spec.model}"
        allowed = f"(_name_of_dtype({model}[2]),)"
        test = f"_name not in {allowed}"
    elif spec.has_dependent_dtype:
        allowed = f"({spelt(spec.dtype, {'index': '_index'} if spec.each else {})},)"
        test = f"_name not in {allowed}"
    else:
        allowed = repr(tuple(spec.dtype.split("|")))
        test = f"_name not in {allowed}"
    body = [
        f"_name = _name_of_dtype({form}[2])",
        f"if {test}:",
        f"    raise _faults.dtype({label}, _name, {allowed})",
    ]
    of = contract.by_name[spec.model] if spec.model is not None else None
    if isinstance(of, ArraySpec) and spec.axes[-1:] == of.axes[-1:] == ("...",):
        own, others = len(spec.axes) - 1, len(of.axes) - 1
        body += [
            f"if {form}[1][{own}:] != {model}[1][{others}:]:",
            f"    raise _faults.rest({label}, {form}[1], {own}, {model}[1][{others}:], {of.name!r})",
        ]
    if spec.each is not None:
        body = [f"for _index, _form in _enumerate({name}):", *_indented(body)]
    return [f"if {' and '.join(guards)}:", *_indented(body)] if guards else body


def _axes(names: Names) -> Lines:
    """Collect what is bound."""
    sure = [name for name in names.all if name in names.certain]
    lines = [f"_axes = {{{', '.join(f'{name!r}: {name}' for name in sure)}}}"]
    for name in names.all:
        if name not in names.certain:
            lines += [f"if {name} is not None:", f"    _axes[{name!r}] = {name}"]
    return lines


def _forms(names: Names, contract: Contract) -> Lines:
    """Compute shape and element type of each output."""
    forms, used = [], set()
    for spec in contract.outputs:
        trailing = spec.axes[-1:] == ("...",)
        axes = spec.axes[:-1] if trailing else spec.axes
        shape = f"({', '.join(spelt(axis, {}) for axis in axes)}{',' if len(axes) == 1 else ''})"
        used |= {name for axis in axes for name in names.late(axis)}
        if spec.model is not None:
            model = f"_{spec.model}"
            rest = f" + _tuple({model}[1][{len(axes)}:])" if trailing else ""
            forms.append(f"None if {model} is None else ({shape}{rest}, _name_of_dtype({model}[2]))")
        elif spec.has_dependent_dtype:
            used |= set(names.late(spec.dtype))
            forms.append(f"({shape}, {spelt(spec.dtype, {})})")
        else:
            forms.append(f"({shape}, {spec.dtype.split('|')[0]!r})")
    lines = [f"_forms = ({', '.join(forms)},)" if forms else "_forms = ()"]
    if not used:
        return lines
    # NOTE: arithmetic with None raises TypeError; a bare name that is None is found where the output is measured.
    bound = f"{{{', '.join(f'{name!r}: {name}' for name in sorted(used))}}}"
    return ["try:", *_indented(lines), "except _TypeError:", f"    raise _faults.undetermined({bound}) from None"]
