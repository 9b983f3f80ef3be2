"""The equations of a contract (an axis expression equals a size) and the code that solves and checks one of them."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from specsim.contracts.axes import evaluate, names_of, spelt
from specsim.contracts.contract import ArraySpec, Contract

IN_A_LIST = {"index": "_index"}
"""The place in a list argument is a variable of its own, because an axis may have its name."""


@dataclass(frozen=True)
class Names:
    """Every name that a contract can bind.

    Parameters
    ----------
    all : tuple of str
        In the order of their first use.
    fixed : frozenset of str
        Bound by scalars, before anything is solved.
    derived : mapping
        Expressions of the axes that follow from others.
    certain : frozenset of str
        Bound in every call that passes; the others are None where nothing says what they are.
    """

    all: tuple[str, ...]
    fixed: frozenset[str]
    derived: Mapping[str, str]
    certain: frozenset[str]

    @classmethod
    def of(cls, contract: Contract) -> "Names":
        """Collect the names of a contract."""
        scalars = [name for spec in contract.scalars for name in (spec.name, spec.axis) if name is not None]
        derived = dict(contract.derived)
        equations = equations_of(contract)
        used = [name for equation in equations for name in sorted(equation.names)]
        used += [name for expression in _further_expressions(contract) for name in sorted(names_of(expression))]
        fixed = frozenset(scalars)
        always = [equation for equation in equations if not equation.is_repeated and not equation.spec.optional]
        certain = set(fixed)
        for equation in always:
            missing = equation.names - certain - derived.keys()
            if len(missing) == 1 and equation.names == missing and equation.has_fixed_slope:
                certain |= missing
        certain |= {axis for axis, expression in derived.items() if names_of(expression) <= certain}
        return cls(
            all=tuple(dict.fromkeys([*scalars, *derived, *used])),
            fixed=fixed,
            derived=derived,
            certain=frozenset(certain),
        )

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names that no scalar binds."""
        return tuple(name for name in self.all if name not in self.fixed)

    def late(self, expression: str) -> tuple[str, ...]:
        """Return the names of an expression that may be missing."""
        return tuple(sorted(names_of(expression) - self.certain))

    def bound(self, expression: str, without: Collection[str] = ()) -> str:
        """Write the mapping from the names of an expression to what they are bound to."""
        names = [name for name in sorted(names_of(expression)) if name in self.all and name not in without]
        return f"{{{', '.join(f'{name!r}: {name}' for name in names)}}}"


@dataclass(frozen=True)
class Equation:
    """One axis of an argument, or the length of a list of arguments.

    ``label`` and ``size`` are source text; a repeated equation stands in a loop over the list. One that ``can_be_void``
    says nothing where the size is 0.
    """

    spec: ArraySpec
    label: str
    axis: str
    size: str
    is_repeated: bool
    can_be_void: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The names that it may bind."""
        return names_of(self.axis) - (IN_A_LIST.keys() if self.is_repeated else frozenset())

    @property
    def has_fixed_slope(self) -> bool:
        """Whether it can be solved for its one name whatever else is bound."""
        (name,) = self.names
        return bool(evaluate(self.axis, {name: 1}) - evaluate(self.axis, {name: 0}))

    def solving(self, names: Names) -> list[str]:
        """Write the attempts to solve it, one for each name that may be missing."""
        return self._guarded(self._solving(names))

    def checking(self, names: Names) -> list[str]:
        """Write the comparison of the size with what the names say; a name that is still missing is 0 from here on."""
        return self._guarded(self._checking(names))

    def _guarded(self, lines: list[str]) -> list[str]:
        return [f"if {self.size}:", *(f"    {line}" for line in lines)] if self.can_be_void and lines else lines

    def _solving(self, names: Names) -> list[str]:
        unknown = sorted(self.names - names.fixed)
        if names_of(self.axis) == {self.axis}:
            if not unknown or self.axis in names.derived:
                return []
            return [f"if {self.axis} is None:", f"    {self.axis} = {self.size}", "    _progress = True"]
        lines = []
        for name in unknown:
            others = [f"{other} is not None" for other in unknown if other != name]
            at_zero, at_one = (self._source({name: value}) for value in (0, 1))
            bound = names.bound(self.axis, IN_A_LIST.keys() if self.is_repeated else ())
            solved = [] if name in names.derived else [f"    {name} = _value", "    _progress = True"]
            lines += [
                f"if {' and '.join([f'{name} is None', *others])}:",
                f"    _zero = {at_zero}",
                f"    _slope = {at_one} - _zero",
                "    if _slope != 0:",
                f"        _value = ({self.size} - _zero) // _slope",
                f"        if ({self.size} - _zero) % _slope or _value < 0:",
                f"            raise _faults.not_divisible({self.label}, {self.size}, {self.axis!r}, {bound})",
                *(f"    {line}" for line in solved),
            ]
        return lines

    def _checking(self, names: Names) -> list[str]:
        late = sorted(self.names - names.certain)
        wrong = f"raise _faults.size({self.label}, {self.size}, _expected, {self.axis!r})"
        if not late:
            if names_of(self.axis) == {self.axis}:
                return [f"if {self.size} != {self.axis}:", f"    _expected = {self.axis}", f"    {wrong}"]
            return [f"_expected = {self._source({})}", f"if _expected != {self.size}:", f"    {wrong}"]
        index = "_index" if self.is_repeated else "None"
        bound = names.bound(self.axis, IN_A_LIST if self.is_repeated else ())
        lines = [
            f"if {' or '.join(f'{name} is None' for name in late)}:",
            f"    _expected, _missing = _late_size({self.axis!r}, {bound}, {index})",
        ]
        for name in late:
            lines += [f"    if _missing == {name!r}:", f"        {name} = 0"]
        return [
            *lines,
            "else:",
            f"    _expected = {self._source({})}",
            f"if _expected != {self.size}:",
            f"    {wrong}",
        ]

    def _source(self, values: Mapping[str, int]) -> str:
        renamed: dict[str, str | int] = dict(IN_A_LIST) if self.is_repeated else {}
        return f"({spelt(self.axis, {**renamed, **values})})"


def equations_of(contract: Contract) -> tuple[Equation, ...]:
    """Return the equations of every argument, in order."""
    equations = []
    for spec in contract.arrays:
        axes = spec.axes[:-1] if spec.axes[-1:] == ("...",) else spec.axes
        is_list = spec.each is not None
        if spec.each is not None:
            equations.append(Equation(spec, f"'len({spec.name})'", spec.each, f"_len(_{spec.name})", False))
        for place, axis in enumerate(axes):
            size = f"_form[1][{place}]" if is_list else f"_{spec.name}_{place}"
            can_be_void = spec.can_be_empty and place == 0
            equations.append(Equation(spec, label_of(spec, f".shape[{place}]"), axis, size, is_list, can_be_void))
    return tuple(equations)


def _further_expressions(contract: Contract) -> Iterator[str]:
    """Yield the expressions that bind nothing."""
    yield from (expression for _, expression in contract.derived)
    yield from (bound for spec in contract.parameters for bound in (spec.low, spec.high) if bound is not None)
    yield from (requirement.expression for requirement in contract.requires)
    yield from (axis for spec in contract.outputs for axis in spec.axes if axis != "...")
    yield from (spec.dtype for spec in (*contract.arrays, *contract.outputs) if spec.has_dependent_dtype)


def label_of(spec: ArraySpec, ending: str = "") -> str:
    """Write the name of an array, with its place in a list."""
    if spec.each is None:
        return repr(f"{spec.name}{ending}")
    return f'f"{spec.name}[{{_index}}]{ending}"'
