"""What the values of an interpreted kernel are, looked up where Triton works it out again for each value.

Under the interpreter Triton's semantic makes the type, the shape and the size of every value afresh, casts values to
the type that they have, copies a lone number for each entry beside it, and adds 32-bit integers a second time, in 64
bits, for an assertion that only a debugging builder makes. None of this depends on entries, and nothing here touches
an entry: operands, results and errors are Triton's own (docs/decisions/interpreted-language.md).
"""

from typing import Any

from triton import language
from triton.language.semantic import TritonSemantic

INTEGERS = {
    one.name: (one.get_int_min_value(), one.get_int_max_value())
    for one in (
        *(language.int8, language.int16, language.int32, language.int64),
        *(language.uint8, language.uint16, language.uint32, language.uint64),
    )
}
"""Least and largest number of each type of integers."""

SIGNED = {one.name: one.primitive_bitwidth for one in (language.int8, language.int16, language.int32, language.int64)}
"""Bits of each type of integers of both signs: of two of them the wider one is that of a result."""

FLOATS = frozenset(one.name for one in (language.float16, language.bfloat16, language.float32, language.float64))

BOOLEAN = language.int1.name

PLAIN = INTEGERS.keys() | FLOATS | {BOOLEAN}
"""Names of the types of which two operands of one type keep it."""

CAST_BY_NUMPY = INTEGERS.keys() | {language.float32.name, language.float64.name}
"""Names of the types whose entries Triton casts into each other as NumPy does: others have a rounding of their own."""

_SHAPES: dict[tuple[int, ...], tuple[Any, Any]] = {}
_BLOCKS: dict[tuple[str, tuple[int, ...]], Any] = {}
_SHAPED: dict[int, tuple[Any, Any]] = {}
"""Shape and size of the values of each type in ``_BLOCKS``, by its identity."""


class ShapedTensor(language.tensor):  # type: ignore[misc]
    """A value of a kernel, which shares its shape and its size with all values of that shape."""

    def __init__(self, handle: Any, type: Any) -> None:
        self.handle = handle
        self.type = type
        self.dtype = type.scalar
        # Triton's builder labels what a comparison returns with the type of what was compared, so the entries of a
        # lone flag that is spread over a block would be of that type; Triton 3.9 takes masks of booleans alone.
        if self.dtype.name == BOOLEAN:
            handle.dtype = self.dtype
        self.shape, self.numel = _SHAPED.get(id(type)) or _shape_of(handle, type)


class LeanSemantic(TritonSemantic):  # type: ignore[misc]
    """Triton's semantic without what it does again: each method ends early, or asks Triton."""

    tensor = ShapedTensor

    def to_tensor(self, x: Any, check_type: bool = True) -> Any:
        """Return a value as a tensor; one that Triton made itself is one too."""
        return x if isinstance(x, language.tensor) else super().to_tensor(x, check_type)

    def binary_op_type_checking_impl(
        self,
        lhs: Any,
        rhs: Any,
        allow_lhs_ptr: bool = False,
        allow_rhs_ptr: bool = False,
        arithmetic_check: bool = True,
        div_or_mod: bool = False,
    ) -> tuple[Any, Any]:
        """Bring two operands to one type and shape."""
        if arithmetic_check and not div_or_mod:
            left, right = self._beside(lhs, rhs), self._beside(rhs, lhs)
            if isinstance(left, language.tensor) and isinstance(right, language.tensor):
                name, other = left.dtype.name, right.dtype.name
                if name != other and name in SIGNED and other in SIGNED:
                    wider = left.dtype if SIGNED[name] > SIGNED[other] else right.dtype
                    left, right, name, other = self.cast(left, wider), self.cast(right, wider), wider.name, wider.name
                if name == other and name in PLAIN:
                    return self._side_by_side(left, right)
        return super().binary_op_type_checking_impl(
            lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod
        )

    def binary_op_sanitize_overflow_impl(self, lhs: Any, rhs: Any, binary_op: Any) -> None:
        """Assert that nothing overflows, where assertions are made."""
        if self.builder.options.debug:
            super().binary_op_sanitize_overflow_impl(lhs, rhs, binary_op)

    def broadcast_impl_value(self, lhs: Any, rhs: Any) -> tuple[Any, Any]:
        """Bring two operands to one shape."""
        left, right = lhs.type, rhs.type
        if left.is_block():
            if not right.is_block():
                return lhs, self._spread(rhs, left)
            shape = _shape_of_both(tuple(left.shape), tuple(right.shape))
            if shape is None:
                return super().broadcast_impl_value(lhs, rhs)
            return self._stretched(lhs, shape), self._stretched(rhs, shape)
        return (self._spread(lhs, right), rhs) if right.is_block() else (lhs, rhs)

    def cast(self, input: Any, dst_ty: Any, fp_downcast_rounding: str | None = None) -> Any:
        """Cast a value, unless it has that type."""
        element = dst_ty.scalar
        name, target = input.dtype.name, element.name
        if name == target and name in PLAIN:
            return input
        if target in CAST_BY_NUMPY and (name in CAST_BY_NUMPY or name == BOOLEAN) and fp_downcast_rounding is None:
            made = _block_like(input.type, element) if input.type.is_block() else element
            return self.tensor(self.builder.cast_impl(input.handle, element.to_ir(self.builder)), made)
        return super().cast(input, dst_ty, fp_downcast_rounding)

    def expand_dims(self, input: Any, axis: int) -> Any:
        """Return a block with an axis of one more."""
        if not input.type.is_block() or not 0 <= axis <= len(input.type.shape):
            return super().expand_dims(input, axis)
        shape = [*input.type.shape]
        shape.insert(axis, 1)
        return self.tensor(self.builder.create_expand_dims(input.handle, axis), _block(input.dtype, tuple(shape)))

    def _bool_like(self, v: Any) -> Any:
        return _block_like(v.type, language.int1) if v.type.is_block() else language.int1

    def _beside(self, operand: Any, other: Any) -> Any:
        """Return a number in the type of the tensor beside it, where it takes that type; or the operand itself."""
        if type(operand) not in (int, float, bool) or not isinstance(other, language.tensor):
            return operand
        name = other.dtype.name
        least, largest = INTEGERS.get(name, (1, 0))
        takes_type = name in FLOATS or (type(operand) is not float and least <= operand <= largest)
        return self.scalar_constant(operand, other.dtype) if takes_type else operand

    def _side_by_side(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Bring the operands of an elementwise operation to one shape.

        NumPy spreads the entry of a lone number over the block beside it.
        """
        if left.type.is_block() and not right.type.is_block():
            return left, self.tensor(right.handle, _block_like(left.type, right.dtype))
        if right.type.is_block() and not left.type.is_block():
            return self.tensor(left.handle, _block_like(right.type, left.dtype)), right
        return self.broadcast_impl_value(left, right)

    def _stretched(self, block: Any, shape: tuple[int, ...]) -> Any:
        if tuple(block.type.shape) == shape:
            return block
        return self.tensor(self.builder.create_broadcast(block.handle, shape), _block(block.dtype, shape))

    def _spread(self, scalar: Any, like: Any) -> Any:
        block = _block_like(like, scalar.dtype)
        return self.tensor(self.builder.create_splat(block, scalar.handle), block)


def _block_like(block: Any, element: Any) -> Any:
    """Return the type of blocks of a shape with other entries."""
    return _block(element, tuple(block.shape))


def _block(element: Any, shape: tuple[int, ...]) -> Any:
    """Return the type of blocks of a shape."""
    made = _BLOCKS.get((element.name, shape))
    if made is None:
        made = _BLOCKS[element.name, shape] = language.block_type(element, [*shape])
        _SHAPED[id(made)] = _shape_of(None, made)
    return made


def _shape_of_both(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that two blocks of as many axes come to, None where Triton has to say what is wrong."""
    if left == right:
        return left
    if len(left) != len(right) or any(
        one != other and 1 not in (one, other) for one, other in zip(left, right, strict=True)
    ):
        return None
    return tuple(other if one == 1 else one for one, other in zip(left, right, strict=True))


def _shape_of(handle: Any, type: Any) -> tuple[Any, Any]:
    """Return shape and size of values of a type, as Triton makes them."""
    key = tuple(type.shape) if type.is_block() else ()
    if key not in _SHAPES:
        made = language.tensor(handle, type)
        _SHAPES[key] = made.shape, made.numel
    return _SHAPES[key]
