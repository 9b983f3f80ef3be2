"""What a module declares that it does not do: ``LIMITS`` and a few conventions, read once when it is loaded."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from specsim.conformance.plain_text import bounded, said
from specsim.contracts.axes import UnboundAxis, evaluate
from specsim.contracts.axes import names_of as names_in
from specsim.contracts.contract import Contract, ScalarSpec
from specsim.operations import RECORDS
from specsim.operations.derived.signature import nearest
from specsim.operations.record import Operation
from specsim.operations.without_coins import SUFFIX, WITHOUT_COINS

Values = range | tuple[int, ...]
"""Sizes of an axis that are taken, or values of a scalar."""

SWITCHES = {
    "EMPTY": "an empty batch",
    "CONTIGUOUS": "strided arguments",
    "ZERO_PROPOSALS": "a draft token of probability 0 under its own proposal",
    "PADDED_PROPOSALS": "a draft token of -1 that has a proposal of its own",
    "NORMALISED": "rows of probabilities that do not add up to 1",
    "DISTINCT_SIBLINGS": "siblings with equal tokens",
    "THRESHOLDS": "a threshold below 1",
    "SCRATCH": "what is written to scratch memory",
}
"""What is left out where a module declares the attribute, as long as that is not what it is without it."""

AXES_OF = {"nodes": ("node", "draft"), "words": ("vocab", "draft_vocab"), "requests": ("request", "row")}
"""The axes along which something is counted; a chain has one node more than drafts."""

LARGEST_DRAWN = 1 << 20
"""The least size of an axis, and the least value of a scalar, that a declaration may ask for."""

TIES = "ties that are broken otherwise than by the contract"
ACCEPTANCE = "how many drafts a sampler without coins accepts"
DRAFTS = "drafts of workers, and what they keep for them"
DRAWS = "draws"
"""What is accepted where verification draws the target's own tokens: the drafts that equal them."""
SCHEDULES = "schedules that stop before what they read"
PROPOSALS = "drafts that are drawn from the rows that are recorded for them"
LOOK_AHEAD = "schedules that stop before the draft after their cut"
CHOICES = {
    "TIES": ("any",),
    "ACCEPTANCE": ("any", DRAWS),
    "LOCKSTEP": ("outputs",),
    "BONUS_AT_CUT": ("coupled",),
}
"""The values that each of these attributes may have; the first leaves out what the attribute stands for."""
WORDS = {**SWITCHES, "TIES": TIES, "ACCEPTANCE": ACCEPTANCE, "LOCKSTEP": DRAFTS, "BONUS_AT_CUT": LOOK_AHEAD}
"""What is left out where a module declares one of these attributes."""

FIELDS = {
    "EMPTY": "takes_empty",
    "CONTIGUOUS": "is_contiguous",
    "ZERO_PROPOSALS": "takes_zero_proposals",
    "PADDED_PROPOSALS": "takes_padded_proposals",
    "NORMALISED": "is_normalised",
    "DISTINCT_SIBLINGS": "has_distinct_siblings",
    "THRESHOLDS": "takes_thresholds",
    "SCRATCH": "writes_scratch",
    "TIES": "ties_are_free",
    "ACCEPTANCE": "accepts_any_number",
    "LOCKSTEP": "has_own_drafts",
    "BONUS_AT_CUT": "judges_draft_after_cut",
}
"""The field of ``Limits`` that each attribute stands for; a switch is without the attribute what the field is."""


class BadLimits(ValueError):
    """A declaration of a module makes no sense."""


@dataclass(frozen=True)
class Limits:
    """Declared limits; without arguments there are none.

    Parameters
    ----------
    values : mapping
        Of an operation, what is taken of an axis, as a range, or of a scalar, as a tuple.
    takes_empty : bool
        Whether empty batches are taken.
    is_contiguous : bool
        Whether arguments have to be plain C-ordered blocks.
    ties_are_free : bool
        Whether any of several equal scores, logits or probabilities may be the one that is kept.
    takes_zero_proposals : bool
        Whether a draft token may have probability 0 under its own proposal.
    takes_padded_proposals : bool
        Whether a draft that is padded with -1 may have draft probabilities.
    is_normalised : bool
        Whether rows of probabilities have to add up to 1.
    has_distinct_siblings : bool
        Whether siblings have to have different tokens.
    takes_thresholds : bool
        Whether the arguments may differ from their neutral entries that have such: thresholds may be below 1. Functions
        may lack these arguments otherwise.
    writes_scratch : bool
        Whether memory is written that is there for the operation itself. Functions may lack it otherwise.
    accepts_any_number : bool
        Whether a sampler that draws its own coins may accept fewer drafts than one that accepts token by token.
    accepts_equal_draws : bool
        Whether drafts are accepted that equal a draw of the target's own, as sampled verify does: a sampler that draws
        its own coins accepts no other number of them, every schedule keeps the law, and no one reads what a draft was
        drawn from.
    has_own_drafts : bool
        Whether its workers draft what no reference drafts: whole runs compare outputs, and no drafts.
    judges_draft_after_cut : bool
        Whether the draft after the last verified one is judged too, and is the bonus token where it is accepted.
    most : mapping
        The largest number of what ``AXES_OF`` counts, in every operation, where no larger calls are wanted.
    """

    values: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    takes_empty: bool = True
    is_contiguous: bool = False
    ties_are_free: bool = False
    takes_zero_proposals: bool = True
    takes_padded_proposals: bool = True
    is_normalised: bool = False
    has_distinct_siblings: bool = False
    takes_thresholds: bool = True
    writes_scratch: bool = True
    accepts_any_number: bool = False
    accepts_equal_draws: bool = False
    has_own_drafts: bool = False
    judges_draft_after_cut: bool = False
    most: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def are_none(self) -> bool:
        """Whether nothing is declared."""
        return self == NO_LIMITS

    def declares(self, attribute: str) -> bool:
        """Return whether a switch or a choice is another than that of a module without the attribute."""
        return bool(vars(self)[FIELDS[attribute]] != vars(NO_LIMITS)[FIELDS[attribute]])

    def of(self, operation: str) -> Mapping[str, Values]:
        """Return what is taken of the axes and scalars of an operation; a sampler's form without coins takes its."""
        taken = self.declared_of(operation)
        for axis, size, _ in self.largest_sizes():
            sizes = taken.get(axis, range(size + 1))
            taken[axis] = range(sizes[0], max(sizes[0], min(sizes[-1], size)) + 1)
        return taken

    def declared_of(self, operation: str) -> dict[str, Values]:
        """Return of it what the implementation declares."""
        return {**self.values.get(operation.removesuffix(SUFFIX), {}), **self.values.get(operation, {})}

    def lacking(self, contract: Contract) -> tuple[str, ...]:
        """Return the arguments that a function of a contract may lack."""
        neutral = () if self.takes_thresholds else tuple(contract.neutral)
        return (*neutral, *(() if self.writes_scratch else contract.scratch))

    def at_most(self, most: Mapping[str, int]) -> "Limits":
        """Return these limits with other largest numbers."""
        return replace(self, most=dict(most))

    def as_plain(self) -> dict[str, Any]:
        """Return these limits as plain values, which ``limits_from`` reads."""
        values = {
            operation: {name: [one[0], one[-1]] if isinstance(one, range) else list(one) for name, one in taken.items()}
            for operation, taken in self.values.items()
        }
        return {**{one.name: getattr(self, one.name) for one in fields(self)}, "values": values}

    def largest_sizes(self) -> list[tuple[str, int, str]]:
        """Return axes and the largest sizes that are wanted of them in every operation, and how that is called."""
        return [
            (axis, size - 1 if axis == "draft" else size, f"more than {size} {counted}")
            for counted, size in self.most.items()
            for axis in AXES_OF[counted]
        ]

    def in_words(self) -> list[str]:
        """Return what is left out, a line each."""
        lines = [words for attribute, words in WORDS.items() if self.declares(attribute)]
        for operation, taken in self.values.items():
            lines += [left_out(operation, name, values) for name, values in taken.items()]
        return list(dict.fromkeys([*lines, *(words for _, _, words in self.largest_sizes())]))


NO_LIMITS = Limits()


def left_out(operation: str, name: str, values: Values) -> str:
    """Return the calls that do not have one of these sizes or values as words."""
    if isinstance(values, range) and len(values) > 1:
        return f"{operation} with {name} outside {values[0]} to {values[-1]}"
    return f"{operation} with {name} other than {' or '.join(map(str, values))}"


def limits_from(plain: Mapping[str, Any]) -> Limits:
    """Return limits from plain values that another process sent.

    Raises
    ------
    BadLimits
        They are none.
    """
    for one in fields(Limits):
        if not isinstance(plain.get(one.name), bool if isinstance(one.default, bool) else Mapping):
            raise BadLimits(f"limits without {one.name}")
    return Limits(
        **{**plain, "values": {name: _values_of("LIMITS", name, taken) for name, taken in plain["values"].items()}}
    )


def limits_of(module: Mapping[str, Any], name: str) -> Limits:
    """Read what a module declares.

    Parameters
    ----------
    module : mapping
        Its attributes by name.
    name : str
        What it is called.

    Raises
    ------
    BadLimits
        One line says what of it makes no sense.
    """
    chosen: dict[str, Any] = {FIELDS[attribute]: _switch(module, name, attribute) for attribute in SWITCHES}
    choices = {attribute: _choice(module, name, attribute) for attribute in CHOICES}
    chosen |= {FIELDS[attribute]: value == CHOICES[attribute][0] for attribute, value in choices.items()}
    chosen["accepts_equal_draws"] = choices["ACCEPTANCE"] == DRAWS
    declared = module.get("LIMITS", {})
    if not isinstance(declared, Mapping):
        raise BadLimits(f"{name}.LIMITS is {said(declared)}, but should be a dictionary by operation")
    values = {operation: _values_of(f"{name}.LIMITS", operation, taken) for operation, taken in declared.items()}
    return Limits(values=values, **chosen)


def missing_of(module: Mapping[str, Any], name: str, known: Collection[str]) -> frozenset[str]:
    """Return the names that a module lists in ``MISSING``: it has something of the name, but no implementation.

    Parameters
    ----------
    known : collection of str
        Every name that a module may define.

    Raises
    ------
    BadLimits
        The list is none, or has a name that nothing is called by.
    """
    listed = module.get("MISSING", ())
    if isinstance(listed, str) or not isinstance(listed, Collection):
        raise BadLimits(f"{name}.MISSING is {said(listed)}, but should list names of functions")
    for one in listed:
        if not isinstance(one, str) or one not in known:
            close = "".join(f"; did you mean {guess}?" for guess in nearest(bounded(str(one), 80), known)[:1])
            raise BadLimits(f"{name}.MISSING has {said(one)}, but should have names of the catalogue{close}")
    return frozenset(listed)


def axes_of(operation: Operation) -> list[str]:
    """Return the names of the axes that a call of an operation binds, as its contract names them."""
    contract = operation.contract
    found = [spec.axis for spec in contract.scalars if spec.axis is not None]
    found += [axis for spec in contract.arrays for axis in (*spec.axes, spec.each or "") if axis.isidentifier()]
    sizes = [axis for spec in contract.arrays for axis in spec.axes if axis != "..." and not axis.isidentifier()]
    scalars = {spec.name for spec in contract.scalars}
    found += [name for axis in sizes for name in sorted(names_in(axis)) if name not in {*scalars, "index"}]
    return list(dict.fromkeys(found))


def _switch(module: Mapping[str, Any], name: str, attribute: str) -> bool:
    value = module.get(attribute, vars(NO_LIMITS)[FIELDS[attribute]])
    if not isinstance(value, bool):
        raise BadLimits(f"{name}.{attribute} is {said(value)}, but should be True or False")
    return value


def _choice(module: Mapping[str, Any], name: str, attribute: str) -> str | None:
    value, choices = module.get(attribute), CHOICES[attribute]
    if value is None or (isinstance(value, str) and value in choices):
        return value
    wanted = " or ".join(f'"{one}"' for one in choices)
    raise BadLimits(f"{name}.{attribute} is {said(value)}, but should be {wanted}, because nothing else is a choice")


def _values_of(where: str, operation: object, taken: object) -> Mapping[str, Values]:
    """Check what is said of one operation."""
    records = {**RECORDS, **WITHOUT_COINS}
    if not isinstance(operation, str) or operation not in records:
        close = "".join(f"; did you mean {guess}?" for guess in nearest(bounded(str(operation), 80), records)[:1])
        raise BadLimits(f"{where} names {said(operation)}, but should name an operation{close}")
    if not isinstance(taken, Mapping):
        raise BadLimits(f"{where}[{operation!r}] is {said(taken)}, but should be a dictionary by axis or scalar")
    record = records[operation]
    scalars = {spec.name: spec for spec in record.contract.scalars}
    axes = axes_of(record)
    values: dict[str, Values] = {}
    for name, allowed in taken.items():
        place = f"{where}[{operation!r}][{said(name)}]"
        if name in scalars:
            values[name] = _of_scalar(place, scalars[name], allowed)
        elif name in axes:
            values[name] = _of_axis(place, allowed)
        else:
            raise BadLimits(
                f"{place} is no axis or scalar: {operation} has {', '.join(dict.fromkeys([*scalars, *axes]))}"
            )
    return values


def _of_scalar(place: str, spec: ScalarSpec, allowed: object) -> Values:
    is_right = isinstance(allowed, Sequence) and not isinstance(allowed, str) and len(allowed) > 0
    if not is_right or not all(isinstance(value, int) for value in _entries(allowed)):
        raise BadLimits(f"{place} is {said(allowed)}, but should list the values that are taken")
    values = tuple(sorted({int(value) for value in _entries(allowed)}))
    low, high = _constant(spec.low), _constant(spec.high)
    for value in values:
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = f"{low} to {high}" if high is not None else f"at least {low}"
            raise BadLimits(f"{place} lists {value}, but should list values of the contract, {bounds}")
    _require_drawn(place, values[0])
    return values


def _of_axis(place: str, allowed: object) -> Values:
    entries = _entries(allowed)
    if len(entries) != 2 or not all(isinstance(value, int) and not isinstance(value, bool) for value in entries):
        raise BadLimits(f"{place} is {said(allowed)}, but should be the least and the largest size that are taken")
    low, high = entries
    if not 0 <= low <= high:
        raise BadLimits(f"{place} is {said(allowed)}, but should be two sizes, the smaller one first")
    _require_drawn(place, low)
    return range(low, high + 1)


def _require_drawn(place: str, least: int) -> None:
    """Refuse a least size that no example has."""
    if least > LARGEST_DRAWN:
        because = "a call of such a size is never made"
        raise BadLimits(
            f"{place} begins at {least:,}, but should begin at {LARGEST_DRAWN:,} at most, because {because}"
        )


def _entries(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list | range) else ()


def _constant(expression: str | None) -> int | None:
    try:
        return None if expression is None else int(evaluate(expression, {}))
    except UnboundAxis:
        return None
