"""What an interpreted value is: the same whether it is looked up or worked out by Triton."""

import itertools
import warnings

import numpy as np
import pytest
from triton import language
from triton.runtime import interpreter

from specsim.gpu.launching.blocks import INTERPRETED
from specsim.gpu.launching.semantic import BOOLEAN, FLOATS, INTEGERS, PLAIN, LeanSemantic

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="kernels are compiled here")

TRITON = interpreter.TritonSemantic(interpreter.interpreter_builder)
LEAN = LeanSemantic(interpreter.interpreter_builder)
TYPES = {
    one.name: one
    for one in (
        *(language.int1, language.int8, language.int16, language.int32, language.int64),
        *(language.uint8, language.uint16, language.uint32, language.uint64),
        *(language.float16, language.bfloat16, language.float32, language.float64),
    )
}
SHAPES = ((), (4,), (1, 4), (2, 4))
NUMBERS = (0, 1, -1, True, False, 2**31 - 1, 2**31, -(2**31), 2**40, 2**63, 0.0, 1.5, -1.5, 1e300, float("inf"))
ENTRIES = np.array([0, 1, 2, 3, 100, 127, 5, 64])


def value(semantic, name, shape):
    """Return a tensor of a type and a shape as a semantic makes it."""
    element = TYPES[name]
    entries = ENTRIES[: max(1, int(np.prod(shape)))].reshape(shape or (1,))
    handle = interpreter.TensorHandle(entries.astype(interpreter._get_np_dtype(element)), element)
    return semantic.tensor(handle, language.block_type(element, list(shape)) if shape else element)


def described(tensor):
    """Return all that a kernel can find out about a tensor."""
    entries = tensor.handle.data
    # Triton's builder labels what a comparison returns with the type of what was compared, the lean one with its own.
    label = tensor.dtype if tensor.dtype.name == BOOLEAN else tensor.handle.dtype
    return (
        tensor.type,
        tensor.dtype,
        [one.value for one in tensor.shape],
        tensor.numel.value,
        label,
        (entries.dtype, entries.shape, entries.tobytes()),
    )


def outcome(act, semantic, *given):
    """Return what an act makes of what is given, described, or the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = act(semantic, *given)
    except Exception as error:
        return type(error), str(error)
    return [described(one) for one in made] if isinstance(made, tuple) else described(made)


def require_same(act, *given):
    """Require that both semantics make the same of what is given, or raise the same error."""
    assert outcome(act, LEAN, *given) == outcome(act, TRITON, *given), given


OPERATIONS = {
    "add": lambda semantic, a, b: semantic.add(a, b, True),
    "sub": lambda semantic, a, b: semantic.sub(a, b, True),
    "mul": lambda semantic, a, b: semantic.mul(a, b, True),
    "truediv": lambda semantic, a, b: semantic.truediv(a, b),
    "floordiv": lambda semantic, a, b: semantic.floordiv(a, b),
    "and": lambda semantic, a, b: semantic.and_(a, b),
    "or": lambda semantic, a, b: semantic.or_(a, b),
    "xor": lambda semantic, a, b: semantic.xor_(a, b),
    "shl": lambda semantic, a, b: semantic.shl(a, b),
    "lshr": lambda semantic, a, b: semantic.lshr(a, b),
    "ashr": lambda semantic, a, b: semantic.ashr(a, b),
    "mod": lambda semantic, a, b: semantic.mod(a, b),
    "minimum": lambda semantic, a, b: semantic.minimum(a, b, language.PropagateNan.NONE),
    "less": lambda semantic, a, b: semantic.less_than(a, b),
    "equal": lambda semantic, a, b: semantic.equal(a, b),
}


def on_tensors(semantic, name, left, right):
    """Carry an operation out on two tensors, each given by its type and shape."""
    return OPERATIONS[name](semantic, value(semantic, *left), value(semantic, *right))


def beside_number(semantic, name, element, number, is_first):
    """Carry an operation out on a tensor and a number, in either order."""
    tensor = value(semantic, element, (4,))
    return OPERATIONS[name](semantic, *((number, tensor) if is_first else (tensor, number)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_operands_of_any_types_and_shapes_give_what_triton_gives(name):
    for left, right in itertools.product(TYPES, TYPES):
        require_same(on_tensors, name, (left, (4,)), (right, ()))
    for element, (shape, other) in itertools.product(TYPES, (((4,), (4,)), ((), (4,)), ((1, 4), (2, 4)))):
        require_same(on_tensors, name, (element, shape), (element, other))


@pytest.mark.parametrize("name", ["add", "truediv", "less"])
def test_numbers_beside_tensors_give_what_triton_gives(name):
    for element, number, is_first in itertools.product(TYPES, NUMBERS, (False, True)):
        require_same(beside_number, name, element, number, is_first)


def test_casts_give_what_triton_gives():
    for source, target in itertools.product(TYPES, TYPES):
        require_same(
            lambda semantic, *names: semantic.cast(value(semantic, names[0], (2, 4)), TYPES[names[1]]), source, target
        )


def test_shapes_are_brought_together_as_triton_does():
    for shapes in itertools.product(SHAPES, (*SHAPES, (8,))):
        require_same(
            lambda semantic, *both: semantic.broadcast_impl_value(*(value(semantic, "fp32", one) for one in both)),
            *shapes,
        )


@pytest.mark.parametrize("axis", [-1, 0, 1, 2, 3])
def test_an_axis_of_one_is_put_where_triton_puts_it(axis):
    for name, shape in itertools.product(TYPES, SHAPES):
        require_same(lambda semantic, *of: semantic.expand_dims(value(semantic, *of), axis), name, shape)


def test_a_choice_between_lone_numbers_and_blocks_gives_what_triton_gives():
    def choose(semantic, name, *shapes):
        flags, first, second = (
            value(semantic, one, shape) for one, shape in zip(("int1", name, name), shapes, strict=True)
        )
        return semantic.where(flags, first, second)

    for name, *shapes in itertools.product(TYPES, SHAPES, SHAPES, SHAPES):
        require_same(choose, name, *shapes)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_lone_flag_that_is_spread_over_a_block_is_one_of_booleans(name):
    flag = LEAN.less_than(value(LEAN, name, ()), value(LEAN, name, ()))
    mask = LEAN.broadcast_impl_value(value(LEAN, "int32", (4,)), flag)[1]
    assert flag.handle.dtype == mask.handle.dtype == language.int1
    assert mask.handle.data.dtype == np.bool_


def test_a_tensor_of_tritons_own_is_a_tensor():
    own = language.tensor(value(LEAN, "int32", (4,)).handle, language.block_type(language.int32, [4]))
    assert LEAN.to_tensor(own) is own
    assert described(LEAN.add(own, 1, True)) == described(TRITON.add(own, 1, True))


def test_the_types_that_are_looked_up_are_those_that_promote_to_themselves():
    assert TYPES.keys() == PLAIN
    for name, (least, largest) in INTEGERS.items():
        entries = np.iinfo(interpreter._get_np_dtype(TYPES[name]))
        assert (least, largest) == (entries.min, entries.max)
    assert {"fp16", "bf16", "fp32", "fp64"} == FLOATS
