"""What an operation takes and returns: shapes, dtypes, units, bounds, sentinels, and which entries are defined."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from specsim.rejection import Reason


class Unit(StrEnum):
    """What one entry of an array counts or names."""

    TOKEN = "token id"
    SLOT = "slot"
    NODE = "node"
    CANDIDATE = "flat candidate id"
    ROW = "request row"
    POSITION = "position"
    COUNT = "count"
    SCORE = "score"
    PROBABILITY = "probability"
    COIN = "coin in [0, 1)"
    TEMPERATURE = "temperature"
    BITS = "32 truth values"
    STATE = "grammar state"
    VISIBLE = "visible or not"
    OFFSET = "offset"
    TAG = "tag word"
    LOGIT = "logit"
    LOGPROB = "log-probability"
    ACTIVATION = "activation"
    ANY = "opaque"


REASON_OF_UNIT = {
    Unit.TOKEN: Reason.TOKEN_OUT_OF_RANGE,
    Unit.SLOT: Reason.SLOT_OUT_OF_RANGE,
    Unit.NODE: Reason.NODE_OUT_OF_RANGE,
    Unit.CANDIDATE: Reason.CANDIDATE_OUT_OF_RANGE,
    Unit.ROW: Reason.ROW_OUT_OF_RANGE,
    Unit.POSITION: Reason.ROW_TOO_SHORT,
    Unit.SCORE: Reason.NEGATIVE_SCORE,
    Unit.PROBABILITY: Reason.PROBABILITY_OUT_OF_RANGE,
    Unit.TEMPERATURE: Reason.TEMPERATURE_OUT_OF_RANGE,
    Unit.COIN: Reason.COIN_OUT_OF_RANGE,
    Unit.STATE: Reason.STATE_OUT_OF_RANGE,
}


@dataclass(frozen=True)
class Defined:
    """Which entries of an array carry meaning; the others are never read and never compared.

    ``rule`` is one of

    ``all``     every entry;
    ``prefix``  entry (b, j) where j is below entry b of the array ``by``;
    ``at``      the flat entries that the array ``by`` names, sentinels skipped;
    ``front``   entry j of a request's block where (b, j) of the array ``by`` is no sentinel;
    ``rows``    of row i, the first ``by[i, -1]`` entries;
    ``length``  the first n entries, n the value of the expression ``by`` (``sum_x`` stands for the sum of array x);
    ``chain``   of the rows of a ragged chain, ``by`` of either side, those that its walk reads (semantics B.9);
    ``block``   the same of a chain that is judged as a block (semantics B.9b);
    ``attended``  those that hold keys: pages of a table, ``by`` lengths, or slots of a pool, ``by`` such a table;
    ``live``    every entry but those of dump slot 0;
    ``owned``   entry i where entry i of the array ``by``, a slot, is not dump slot 0.
    """

    rule: str = "all"
    by: str = ""


ALL = Defined()


@dataclass(frozen=True)
class ArraySpec:
    """One array argument or output.

    ``dtype`` is a name, alternatives joined by ``|``, ``any``, ``like <argument>``, or a conditional expression. Of two
    arguments that are alike ``...`` stands for the same sizes, and of two lists each array is like the other's.
    ``each`` makes it a list of that many arrays; ``index`` in an axis then stands for the place in the list. With
    ``can_be_empty`` an array of the list may have nothing along its first axis, whatever the others have there.
    ``low`` and ``high`` are inclusive bounds on defined entries; ``sentinel`` is allowed besides them. An entry
    that leaves its bounds is rejected for ``reason``, where that is another one than the unit's. An implementation may
    declare that it lacks an argument that has ``neutral``; its calls are those in which every entry is that.
    """

    name: str
    dtype: str
    axes: tuple[str, ...]
    unit: Unit
    low: str | None = None
    high: str | None = None
    sentinel: int | None = None
    defined: Defined = ALL
    optional: bool = False
    each: str | None = None
    reason: Reason | None = None
    can_be_empty: bool = False
    neutral: int | None = None

    @property
    def model(self) -> str | None:
        """The argument whose element type this one has, if it has that of an argument."""
        return self.dtype.removeprefix("like ") if self.dtype.startswith("like ") else None

    @property
    def has_dependent_dtype(self) -> bool:
        """Whether the element type is an expression."""
        return self.model is None and " " in self.dtype

    @property
    def out_of_range(self) -> Reason:
        """The reason of a rejection when an entry leaves its bounds."""
        return self.reason or REASON_OF_UNIT.get(self.unit, Reason.COUNT_OUT_OF_RANGE)


@dataclass(frozen=True)
class ScalarSpec:
    """One integer argument; ``axis`` is the axis name that its value binds, if it binds one.

    A ``flag`` is a truth value, and 0 and 1 are taken for one.
    """

    name: str
    axis: str | None = None
    low: str | None = None
    high: str | None = None
    default: int | None = None
    flag: bool = False


@dataclass(frozen=True)
class Requirement:
    """A relation between sizes that must hold; skipped while one of its names is unbound."""

    expression: str
    because: str
    reason: Reason = Reason.SCALAR_OUT_OF_RANGE


@dataclass(frozen=True)
class Contract:
    """Parameters in call order, outputs in return order, axes derived from others, relations, and what is written.

    ``scratch`` names what is written for the operation itself: an implementation may declare that it leaves it alone.
    """

    parameters: tuple[ArraySpec | ScalarSpec, ...]
    outputs: tuple[ArraySpec, ...] = ()
    derived: tuple[tuple[str, str], ...] = ()
    requires: tuple[Requirement, ...] = ()
    writes: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    by_name: dict[str, ArraySpec | ScalarSpec] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {spec.name: spec for spec in (*self.parameters, *self.outputs)})

    @cached_property
    def arrays(self) -> tuple[ArraySpec, ...]:
        """The parameters that are arrays or lists of arrays."""
        return tuple(spec for spec in self.parameters if isinstance(spec, ArraySpec))

    @cached_property
    def scalars(self) -> tuple[ScalarSpec, ...]:
        """The parameters that are integers."""
        return tuple(spec for spec in self.parameters if isinstance(spec, ScalarSpec))

    @cached_property
    def neutral(self) -> dict[str, int]:
        """The entries of the arguments that an implementation may lack, by name."""
        return {spec.name: spec.neutral for spec in self.arrays if spec.neutral is not None}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(spec.name for spec in self.parameters)

    @cached_property
    def defaults(self) -> dict[str, int | None]:
        """What the parameters are that may be left out: None for an array, a number for a scalar."""
        arrays: dict[str, int | None] = {spec.name: None for spec in self.arrays if spec.optional}
        return arrays | {spec.name: spec.default for spec in self.scalars if spec.default is not None}


def array(
    name: str,
    form: str,
    unit: Unit,
    *,
    within: tuple[str | None, str | None] = (None, None),
    sentinel: int | None = None,
    defined: Defined = ALL,
    optional: bool = False,
    each: str | None = None,
    reason: Reason | None = None,
    can_be_empty: bool = False,
    neutral: int | None = None,
) -> ArraySpec:
    """Read ``"int32 [request, draft+1]"`` into an ArraySpec."""
    dtype, _, axes = form.partition(" [")
    names = tuple(axis.strip() for axis in axes.rstrip("]").split(",")) if axes.rstrip("]") else ()
    return ArraySpec(
        name=name,
        dtype=dtype,
        axes=names,
        unit=unit,
        low=within[0],
        high=within[1],
        sentinel=sentinel,
        defined=defined,
        optional=optional,
        each=each,
        reason=reason,
        can_be_empty=can_be_empty,
        neutral=neutral,
    )


def flag(name: str, default: bool) -> ScalarSpec:
    """Return a truth value."""
    return ScalarSpec(name, low="0", high="1", default=default, flag=True)
