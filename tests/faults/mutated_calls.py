"""Calls with anything wrong, made through what ``load`` returns: each one is answered rightly or refused.

``python -m tests.faults.mutated_calls specsim.reference --calls 25000`` prints what came of them, a line a count, and
ends with 1 if any call was mishandled. Call number 17 of an operation is the same in every run of one seed.
"""

import argparse
import copy
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import ml_dtypes
import numpy as np

from specsim.cli.device import choose_device
from specsim.conformance.backend import Backend, load
from specsim.conformance.outcomes import Observation
from specsim.contracts.contract import ArraySpec
from specsim.operations import RECORDS
from specsim.properties.operations.generated.margin_cases import difference_beyond_margins
from specsim.properties.strategies.malformed.anything import in_words
from specsim.properties.strategies.malformed.arguments import array_at, num_arrays, with_array
from specsim.properties.strategies.malformed.choices import Choices
from specsim.properties.strategies.malformed.mutations import MUTATIONS
from specsim.rejection import Reason, SpecRejection
from tests.properties.strategies.drawn import valid_calls

OF_THE_CALLER = {Reason.READ_ONLY, Reason.SHARED_MEMORY, Reason.WRONG_KIND}
"""Why a call may be refused whose plain copies are a valid one: of where or in what the caller's arrays lie."""

DTYPES = (
    *("uint16", "uint32", "uint64", "int16", "float16", "longdouble", "complex64", "complex128", "clongdouble"),
    *("U3", "S3", "O", "V8", "datetime64[s]", "timedelta64[s]", "i4,f4", ">i4", ">i8", ">f4", ">f8", ">u2"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4),
)
HUGE = 1 << 40
MOST_SECONDS = 120
"""A call that takes longer ends by a signal, and the attack with it."""

MOST_BYTES = 1 << 28
"""Arrays of more are not looked into: their entries share addresses."""


class Duck:
    """Something that has the form of an array and is none."""

    shape, dtype, ndim, size = (2,), np.dtype(np.int64), 1, 2


class Refusing:
    """Something that raises when it is made an array, an integer, or is asked how long it is."""

    def __array__(self, *_, **__):
        raise RuntimeError("not today")

    def __index__(self):
        raise RuntimeError("not today")

    def __len__(self):
        raise RuntimeError("not today")

    def __iter__(self):
        raise RuntimeError("not today")


class Named(np.ndarray):
    """An array of a class of its own, whose items it returns by rules of its own."""

    def __getitem__(self, place):
        return super().__getitem__(place) * 0

    def __setitem__(self, place, value):
        super().__setitem__(place, 0)

    def __array_finalize__(self, other):
        self.name = getattr(other, "name", "")


def _dtype(values, choices):
    dtype = choices.choice(DTYPES)
    try:
        return values.astype(dtype)
    except (TypeError, ValueError, RuntimeError):
        return np.zeros(values.shape, dtype)


def _subclass(values, choices):
    """Return the entries in an array of a subclass, most often a view of a block that lies otherwise."""
    kind = choices.choice((np.matrix, np.memmap, np.recarray, Named, np.ma.MaskedArray))
    if kind is np.ma.MaskedArray:
        mask = np.zeros(values.shape, bool)
        mask.reshape(-1)[: choices.randrange(2)] = True
        return np.ma.masked_array(values, choices.choice((mask, np.ma.nomask)))
    if kind is np.memmap and values.size:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "entries"
            path.write_bytes(b"\0" * (values.nbytes * 2 + 16))
            order, offset = choices.choice("CF"), choices.choice((0, 16))
            mapped = np.memmap(path, values.dtype, "r+", offset, (*values.shape, 2)[::-1], order)
        mapped[0].T[...] = values
        return mapped[0].T
    laid_out = _view(values, choices)
    return laid_out.view(kind) if kind is not np.matrix or laid_out.ndim == 2 else np.asmatrix(laid_out.reshape(-1))


def _view(values, choices):
    """Return equal entries as a view of a larger block: with gaps, backwards, transposed, of other element types."""
    if not values.ndim or not values.size or values.dtype.kind not in "biufc":
        return np.stack([values, values])[1]
    wide = np.stack([values] * 3, axis=-1)
    deep = np.stack([values] * 3)
    backwards = np.ascontiguousarray(values[::-1])
    fields = np.zeros(values.shape, [("other", "i1"), ("entries", values.dtype)])
    fields["entries"] = values
    return choices.choice(
        (
            *(wide[..., 1], deep[1], backwards[::-1], np.asfortranarray(values), fields["entries"]),
            np.concatenate([values.reshape(-1)] * 1000)[values.size : 2 * values.size].reshape(values.shape),
            np.frombuffer(bytearray(values.tobytes() * 3), values.dtype)[: values.size].reshape(values.shape),
        )
    )


def _broadcast(values, choices):
    """Return an array whose entries share addresses, perhaps more of them than any memory holds."""
    if not values.size:
        return values
    one, shape = values.reshape(-1)[:1].reshape((1,) * values.ndim), list(values.shape)
    if shape and choices.randrange(2):
        shape[choices.randrange(len(shape))] = HUGE
    if choices.randrange(2):
        return np.broadcast_to(one, shape)
    return np.lib.stride_tricks.as_strided(one, shape, (0,) * len(shape))


def _no_array(values, choices):
    import array

    import torch

    return choices.choice(
        (
            *(values.tolist(), (values,), [values, values], {"values": values}, {1, 2}, iter([1]), range(2), b"ab"),
            *(bytearray(8), memoryview(bytes(8)), array.array("q", [1, 2]), None, ..., NotImplemented, Duck(), Duck),
            *(Refusing(), float("nan"), 10**30, Decimal(1), Fraction(1, 2), 1j, "text", True, np.int64(1), np.bool_(1)),
            *(np.float32("nan"), torch.ones(2), torch.tensor(3), torch.zeros(2, device="meta"), np.dtype("i8")),
            *([[1], [1, 2]], [None], ["a", "b"], [values, None], values.reshape(-1)[:0].tolist(), [[]], np.random),
        )
    )


def _in_array(change):
    def mutate(contract, arguments, choices):
        places = [
            (spec, place)
            for spec in contract.arrays
            if spec.each is None or isinstance(arguments[spec.name], list)
            for place in range(num_arrays(spec, arguments))
            if type(array_at(arguments, spec, place)) is np.ndarray
        ]
        if not places:
            return arguments
        spec, place = choices.choice(places)
        return with_array(arguments, spec, place, change(array_at(arguments, spec, place), choices))

    return mutate


def _scalar(contract, arguments, choices):
    if not contract.scalars:
        return arguments
    spec = choices.choice(contract.scalars)
    value = arguments[spec.name]
    plain = value if isinstance(value, int) else 1
    others = (
        *(10**30, -(10**30), float("nan"), float(plain), 1j, Decimal(plain), Fraction(plain), "1", b"1", None, ...),
        *(np.float64(plain), np.float64("nan"), np.array(plain), np.array([plain]), np.array([]), np.datetime64("NaT")),
        *(Refusing(), Duck(), object, {}, set(), [], [plain], True, False, np.True_, np.uint64(2**63), np.int8(1)),
        *(np.longdouble(plain), np.complex64(plain), np.str_("1"), np.int64(plain), np.uint16(plain % 2**16)),
    )
    return {**arguments, spec.name: choices.choice(others)}


def _each(contract, arguments, choices):
    """Hand over something else than a list of arrays, or a list of something else."""
    lists = [spec for spec in contract.arrays if spec.each is not None and isinstance(arguments[spec.name], list)]
    if not lists:
        return arguments
    spec = choices.choice(lists)
    value = arguments[spec.name]
    others = (
        *(tuple(value), iter(value), dict(enumerate(value)), {1}, None, "text", 3, Refusing(), range(3), [Refusing()]),
        *([entry.tolist() for entry in value], [tuple(entry) for entry in value if entry.ndim], [value], [None]),
        *(np.array(len(value)), np.stack(value) if len({one.shape for one in value}) == 1 else value, value + value),
        *([entry.view(Named) for entry in value], [np.ma.masked_array(entry) for entry in value]),
        *(Counter(), type("L", (list,), {})(value)),
    )
    return {**arguments, spec.name: choices.choice(others)}


def _overlapping(contract, arguments, choices):
    """Lay two arguments into one block, at one place, beside each other, or interleaved."""
    names = [spec.name for spec in contract.arrays if type(arguments[spec.name]) is np.ndarray]
    written = [name for name in contract.writes if name in names]
    if len(names) < 2 and not written:
        return arguments
    one = choices.choice(written or names)
    other = choices.choice(names)
    values = arguments[one]
    if choices.randrange(2) and values.ndim and values.size:
        block = np.concatenate([values, values])
        return {
            **arguments,
            other: block[: len(values)],
            one: block[choices.randrange(len(values) + 1) :][: len(values)],
        }
    return {**arguments, other: values[...] if choices.randrange(2) else values}


MORE: dict = {
    "foreign dtype": _in_array(_dtype),
    "subclass": _in_array(_subclass),
    "view": _in_array(_view),
    "broadcast": _in_array(_broadcast),
    "foreign array": _in_array(_no_array),
    "foreign scalar": _scalar,
    "foreign list": _each,
    "overlapping": _overlapping,
}
ALL = {**MUTATIONS, **MORE}
SIGNATURES = ("missing", "extra", "by position", "twice", "too many")


@dataclass(frozen=True)
class Call:
    """One call: its arguments by position and by name, and how it was made."""

    operation: str
    made_by: tuple
    positional: list
    named: dict

    @property
    def arguments(self):
        """Every argument by name, as far as a name can be put to it."""
        names = RECORDS[self.operation].contract.names
        return {**dict(zip(names, self.positional, strict=False)), **self.named}

    def __str__(self):
        given = ", ".join(f"{name}={_words(value)}" for name, value in self.arguments.items())
        return f"{self.operation}({given}) by {' and '.join(self.made_by)}"


@dataclass
class Figures:
    """What came of the calls so far; ``found`` holds the words of the ones that were mishandled."""

    counts: Counter = field(default_factory=Counter)
    kinds: Counter = field(default_factory=Counter)
    found: list = field(default_factory=list)

    def count(self, outcome, call=None, words=""):
        """Count an outcome; it is a fault where the call is named."""
        self.counts["tried"] += outcome in ("accepted", "rejected", "leaked")
        self.counts[outcome] += 1
        if call is not None:
            self.kinds[f"{outcome}: {words.split(':')[0][:60]}, by {call.made_by[0]}"] += 1
            self.found.append(f"{outcome}: {words} of {call}"[:600])

    def __str__(self):
        return ", ".join(f"{name} {self.counts[name]:,}" for name in OUTCOMES)


OUTCOMES = ("tried", "accepted", "rejected", "leaked", "wrong", "changed", "refused without cause")


def calls(operation: str, count: int, seed: int = 0, num_valid: int = 40) -> Iterator[Call]:
    """Yield mutated calls of an operation, the same ones for the same seed."""
    contract = RECORDS[operation].contract
    valid = valid_calls(operation, num_valid)
    for number in range(count):
        random = Random(f"{seed} {operation} {number}")
        choices = Choices([random.randrange(2**16) for _ in range(60)])
        arguments = copy.deepcopy(random.choice(valid))
        made_by = []
        for _ in range(choices.choice((1, 1, 1, 2, 3))):
            name = choices.choice(tuple(ALL))
            if any(entry.nbytes > MOST_BYTES for _, entry in _arrays(arguments)):
                break
            # NOTE: not every change can be made once another one has been.
            with suppress(TypeError, ValueError, AttributeError, ArithmeticError, LookupError, MemoryError):
                arguments = ALL[name](contract, arguments, choices)
                made_by.append(name)
        yield _signed(operation, arguments, choices, made_by)


def _signed(operation, arguments, choices, made_by):
    """Return a call whose arguments are most often handed over by name."""
    if choices.randrange(4):
        return Call(operation, tuple(made_by), [], arguments)
    signature = choices.choice(SIGNATURES)
    made_by, names = (*made_by, signature), list(arguments)
    if signature == "missing":
        del arguments[choices.choice(names)]
    elif signature == "extra":
        arguments[choices.choice(("out", "self", "name", "operation", "x" * 100, names[0] + "s"))] = 1
    else:
        values = list(arguments.values())
        if signature == "too many":
            values.append(1)
        place = choices.randrange(len(names)) if signature == "twice" else len(names)
        rest = {names[choices.randrange(place + 1) % len(names)]: values[0]} if signature == "twice" else {}
        return Call(operation, made_by, values[:place] if signature == "twice" else values, rest)
    return Call(operation, made_by, [], arguments)


def try_call(backend, reference, call: Call, figures: Figures) -> None:
    """Make a call and count what came of it."""
    before = _held(call.arguments)
    signal.alarm(MOST_SECONDS)
    expected = _expected(reference, call)
    writes = RECORDS[call.operation].contract.writes
    try:
        with backend.arrays.debugging():
            returned = backend.call(call.operation, *call.positional, **call.named)
    except SpecRejection as rejection:
        figures.count("rejected")
        words = _words_of(rejection)
        if words:
            figures.count("leaked", call, words)
        elif isinstance(expected, Observation) and not _is_of_the_caller(backend, call, rejection):
            figures.count("refused without cause", call, str(rejection))
        writes = ()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        figures.count("leaked", call, f"{type(error).__name__}: {error}")
        writes = ()
    else:
        figures.count("accepted")
        difference = _difference(call, returned, expected)
        if difference is not None:
            figures.count("wrong", call, difference)
    signal.alarm(0)
    changed = _changed(call.arguments, before, writes)
    if changed:
        figures.count("changed", call, changed)


def _is_of_the_caller(backend, call, rejection):
    """Return whether a call is refused for where or in what its arrays lie, or for a type that the layer lacks."""
    if rejection.reason in OF_THE_CALLER:
        return True
    for _, entry in _arrays(call.arguments):
        try:
            backend.arrays.from_numpy(np.zeros(1, entry.dtype))
        except TypeError:
            return rejection.reason is Reason.WRONG_DTYPE
    return False


def _words_of(rejection):
    """Return what a rejection lacks: each one says what, got, expected and because."""
    lacking = [name for name in ("what", "expected", "because") if not str(getattr(rejection, name, ""))]
    return f"a rejection without {lacking}" if lacking else ""


def _expected(reference, call):
    """Return what the reference gives on plain copies, or its rejection."""
    contract = RECORDS[call.operation].contract
    given = call.arguments
    if not given.keys() <= set(contract.names) or len(call.positional) > len(contract.names):
        return None
    try:
        arguments = {
            spec.name: _plain(spec, given.get(spec.name, contract.defaults.get(spec.name)))
            for spec in contract.parameters
        }
        if set(call.named) & set(contract.names[: len(call.positional)]):
            return None
        returned = reference.functions[call.operation](**arguments)
    except (SpecRejection, Strange):
        return None
    values = returned if isinstance(returned, tuple) else (returned,) if contract.outputs else ()
    outputs = {spec.name: value for spec, value in zip(contract.outputs, values, strict=True)}
    outputs.update({name: arguments[name] for name in contract.writes})
    return Observation(outputs)


class Strange(Exception):
    """No plain copy stands for an argument."""


def _plain(spec, value):
    if not isinstance(spec, ArraySpec):
        if value is None:
            return spec.default
        if isinstance(value, np.generic) and isinstance(value, np.integer | np.bool_):
            return value.item()
        return value
    if value is None:
        return None
    if spec.each is not None:
        if not isinstance(value, list | tuple) or any(isinstance(entry, list | tuple) for entry in value):
            raise Strange
        return [_plain_array(entry) for entry in value]
    if isinstance(value, list | tuple):
        raise Strange
    return _plain_array(value)


def _plain_array(value):
    if isinstance(value, np.ndarray):
        if value.nbytes > MOST_BYTES or not value.dtype.isnative or isinstance(value, np.ma.MaskedArray):
            raise Strange
        return np.array(value.view(np.ndarray) if type(value) is not np.recarray else np.asarray(value), order="C")
    try:
        return np.array(value)
    except Exception as error:
        raise Strange from error


def _difference(call, returned, expected):
    if not isinstance(expected, Observation):
        return "accepted, but the reference refuses plain copies"
    contract = RECORDS[call.operation].contract
    values = returned if isinstance(returned, tuple) else (returned,) if contract.outputs else ()
    outputs = {spec.name: value for spec, value in zip(contract.outputs, values, strict=True)}
    arguments = call.arguments
    for name in contract.writes:
        value = arguments[name]
        entries = value if isinstance(value, list | tuple) else [value]
        if not all(isinstance(one, np.ndarray) for one in entries):
            return f"{name} is written, but is no array"
        plain = [np.asarray(one).view(np.ndarray) for one in entries]
        outputs[name] = plain if isinstance(value, list | tuple) else plain[0]
    given = {
        spec.name: _plain(spec, arguments.get(spec.name, contract.defaults.get(spec.name)))
        for spec in contract.parameters
    }
    return difference_beyond_margins(call.operation, given, expected, Observation(outputs))


def _arrays(arguments):
    for name, value in arguments.items():
        for entry in value if type(value) in (list, tuple) else [value]:
            if isinstance(entry, np.ndarray):
                yield name, entry


def _bytes(value):
    if value.nbytes > MOST_BYTES:
        return b""
    if value.dtype.hasobject:
        return repr(value.tolist())
    mask = np.ma.getmaskarray(value).tobytes() if isinstance(value, np.ma.MaskedArray) else b""
    return np.asarray(value).view(np.ndarray).tobytes() + mask


def _held(arguments):
    """Return what the arrays of a call hold, and the blocks that they are views of."""
    return [
        (np.array(entry.view(np.ndarray)) if entry.nbytes <= MOST_BYTES else None, _bytes(entry), _block(entry))
        for _, entry in _arrays(arguments)
    ]


def _block(entry):
    return _bytes(entry.base) if isinstance(entry.base, np.ndarray) and entry.base.nbytes <= MOST_BYTES else None


def _changed(arguments, before, writes):
    """Return which array is not what it was, apart from entries that are written."""
    for (name, entry), (values, held, _) in zip(_arrays(arguments), before, strict=True):
        if name not in writes:
            if _bytes(entry) != held:
                return f"{name} is not what it was"
        elif entry.flags.writeable and values is not None:
            # NOTE: what was written is taken back, and then the block around it is as before.
            entry.view(np.ndarray)[...] = values
    for (name, entry), (_, _, block) in zip(_arrays(arguments), before, strict=True):
        if _block(entry) != block:
            return f"what lies around {name} is not what it was"
    return ""


def _words(value):
    try:
        words = in_words(value)
    except Exception:
        words = type(value).__name__
    return words if len(words) < 120 else f"{words[:117]}..."


def attack(backend: Backend, count: int, seed: int = 0, operations=tuple(RECORDS)) -> Figures:
    """Make so many calls, spread over the operations, and return what came of them."""
    reference, figures = load("specsim.reference"), Figures()
    num_calls = -(-count // len(operations))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operation in operations:
            for call in calls(operation, num_calls, seed, num_valid=min(20, 2 + num_calls // 4)):
                try_call(backend, reference, call, figures)
    return figures


def main() -> int:
    """Attack an implementation and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("implementation", nargs="?", default="specsim.reference")
    parser.add_argument("--calls", type=int, default=25_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shown", type=int, default=40)
    chosen = parser.parse_args()
    choose_device()
    figures = attack(load(chosen.implementation), chosen.calls, chosen.seed)
    print(f"{chosen.implementation}, seed {chosen.seed}: {figures}")
    for kind, count in figures.kinds.most_common(chosen.shown):
        print(f"{count:6} {kind}")
    for line in figures.found[: chosen.shown]:
        print(line)
    print(f"mutated calls: {figures.counts['tried']:,} tried, {len(figures.found):,} mishandled")
    return 1 if figures.found else 0


if __name__ == "__main__":
    sys.exit(main())
