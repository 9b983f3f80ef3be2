"""What a loaded implementation gets is what the caller gave: equal entries, in copies no larger than need be."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.carrying import copy_in_place
from specsim.rejection import Reason, SpecRejection

LAYERS = [load("specsim.reference"), load("specsim.gpu")]
NAMES = ["reference", "gpu"]
both = pytest.mark.parametrize("backend", LAYERS, ids=NAMES)


class Hiding(np.ndarray):
    """An array that reads and writes by rules of its own."""

    def __getitem__(self, place):
        return super().__getitem__(place) * 0

    def __setitem__(self, place, value):
        super().__setitem__(place, 0)


def mapped(tmp_path, order="F"):
    """Return a writable memmap that lies in another order than its base, with 16 bytes of the file before it."""
    path = tmp_path / f"entries {order}"
    path.write_bytes(bytes(16 + 6 * 4))
    values = np.memmap(path, np.float32, "r+", 16, (3, 2), order).T
    values[...] = [[1, 5, 3], [6, 2, 4]]
    return values


def refusal(call, *positional, **named):
    with pytest.raises(SpecRejection) as caught:
        call(*positional, **named)
    return caught.value


@both
def test_a_view_of_a_subclass_arrives_with_its_entries(backend, tmp_path):
    plain = np.array([[1, 5, 3], [6, 2, 4]], dtype=np.float32)
    wide = np.repeat(plain, 2, axis=1)
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(wide)
    for values in (mapped(tmp_path), mapped(tmp_path, "C"), matrix[:, ::2], matrix.T[::2].T, wide[:, ::2].view(Hiding)):
        assert backend.fast_topk(values, 1).topk_index.tolist() == [[1], [0]], type(values)


@both
def test_what_is_written_into_a_subclass_is_written(backend, tmp_path):
    path = tmp_path / "pool"
    path.write_bytes(bytes(8 * 8))
    for pool in (np.memmap(path, np.int64, "r+", shape=(8,))[::2], np.zeros(8, np.int64).view(Hiding)[::2]):
        plain = pool.view(np.ndarray)
        plain[:] = [0, 10, 20, 30]
        backend.move_kv_cache([pool], np.array([1]), np.array([3]))
        assert plain.tolist() == [0, 30, 20, 30]


def test_a_copy_holds_the_view_and_little_more():
    base = np.zeros((2_000, 1_000), np.int64)
    views = (base[3], base[5:8, ::2], base[:, 7], base[1:3].T, np.frombuffer(bytearray(1 << 24), np.int64)[9:12])
    for view in views:
        tracemalloc.start()
        copied = copy_in_place(view)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (copied.tolist(), copied.dtype) == (view.tolist(), view.dtype)
        assert not np.shares_memory(copied, view)
        assert peak < 5 * view.nbytes + 40_000
    assert copy_in_place(base[5:8, ::2]).strides == base[5:8, ::2].strides
    assert copy_in_place(base[:, 7]).strides == (8,)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float64", "longdouble", "complex128", ml_dtypes.bfloat16])
def test_views_of_any_element_type_keep_their_entries(dtype):
    table = np.arange(24).reshape(4, 6).astype(dtype)
    fields = np.zeros((4, 6), [("other", "i1"), ("entries", table.dtype)])
    fields["entries"] = table
    for view in (table[1:, ::2], table[::-1, ::-1], table.T, fields["entries"]):
        assert copy_in_place(view).tolist() == view.tolist()


@both
def test_entries_that_share_an_address_arrive(backend):
    row = np.array([1, 5, 3], np.float32)
    shared = (
        np.broadcast_to(row, (2, 3)),
        np.lib.stride_tricks.as_strided(row, (2, 3), (0, 4)),
        np.lib.stride_tricks.sliding_window_view(np.array([1, 5, 3, 5], np.float32), 3),
        np.lib.stride_tricks.sliding_window_view(np.array([1, 5, 3, 5], np.float32), 3, writeable=True),
    )
    for values in shared:
        assert backend.fast_topk(values, 1)[0].tolist() == [[5], [5]]


@both
def test_a_mask_is_not_lost(backend):
    masked = np.ma.masked_array(np.array([[1.0, 9.0]], np.float32), [[False, True]])
    refused = refusal(backend.fast_topk, masked, 1)
    assert (refused.reason, refused.what, refused.got) == (Reason.WRONG_KIND, "values", "MaskedArray")
    pool = np.ma.masked_array(np.arange(4), [True] * 4)
    refused = refusal(backend.move_kv_cache, [np.arange(4), pool], np.array([1]), np.array([2]))
    assert (refused.reason, refused.what) == (Reason.WRONG_KIND, "kv_buffers[1]")
    assert pool.data.tolist() == [0, 1, 2, 3] and pool.mask.all()


@both
def test_what_cannot_be_written_into_is_refused_before_anything_is(backend):
    first, places = np.arange(4), (np.array([1]), np.array([2]))
    for pools, what, got in (
        ([first, [0, 1, 2, 3]], "kv_buffers[1]", "list"),
        ([first, None], "kv_buffers[1]", "NoneType"),
        (first, "kv_buffers", "ndarray"),
        ({0: first}, "kv_buffers", "dict"),
    ):
        refused = refusal(backend.move_kv_cache, pools, *places)
        assert (refused.reason, refused.what, refused.got) == (Reason.WRONG_KIND, what, got)
    assert first.tolist() == [0, 1, 2, 3]


@both
def test_more_than_memory_holds_is_refused(backend):
    one = np.ones((1, 1), np.float32)
    for values in (np.broadcast_to(one, (1, 1 << 40)), np.lib.stride_tricks.as_strided(one, (1 << 40, 1), (0, 0))):
        refused = refusal(backend.fast_topk, values, 1)
        assert (refused.reason, refused.what) == (Reason.ARGUMENT_TOO_LARGE, "values")


@both
@pytest.mark.parametrize("dtype", ["longdouble", "O", "U3", "datetime64[s]", ">i8", "i4,f4", "complex64", "uint32"])
def test_an_element_type_that_the_contract_lacks_is_refused(backend, dtype):
    refused = refusal(backend.map_hot_tokens, np.zeros((1, 2), dtype), np.arange(4))
    assert (refused.reason, refused.what) == (Reason.WRONG_DTYPE, "topk_index.dtype")


def test_an_element_type_that_a_layer_lacks_is_refused():
    values, paths = np.zeros((2, 3), np.longdouble), np.array([[0, 1]], np.int32)
    refused = refusal(LAYERS[1].compact_accepted_to_front, values, paths)
    assert (refused.reason, refused.expected) == (Reason.WRONG_DTYPE, "one that the layer has")
    assert LAYERS[0].compact_accepted_to_front(values, paths).dtype == np.longdouble


@both
def test_what_no_array_can_be_made_of_is_refused(backend):
    class Refusing:
        def __array__(self, *_, **__):
            raise RuntimeError("not today")

    for values in (Refusing(), object(), [[1], [1, 2]], {1}, "text", 1, iter([1])):
        refused = refusal(backend.fast_topk, values, 1)
        assert refused.what.startswith("values") and refused.expected and refused.because


@both
def test_a_call_that_runs_out_of_memory_is_refused(backend):
    def greedy(values, k):
        raise MemoryError("8.00 TiB")

    strict = backend.with_function("fast_topk", greedy, "greedy")
    refused = refusal(strict.fast_topk, np.ones((1, 2), np.float32), 1)
    assert (refused.reason, refused.what) == (Reason.OUTPUT_TOO_LARGE, "call of fast_topk")
