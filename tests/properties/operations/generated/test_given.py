"""Outputs that the caller allocates: who writes beside them, or reads them, is found; who does neither conforms."""

import types
from dataclasses import replace

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from specsim.conformance.backend import load
from specsim.conformance.given import functions_with_outputs
from specsim.conformance.limits import BadLimits, Limits
from specsim.properties.operations.generated.given import given_properties, outputs_are_written_where_they_are
from specsim.properties.suite.hunt.cases import draw_cases

ORACLE = load("specsim.reference")
PROPERTIES = {one.name: one for one in given_properties()}


def plain(arrays):
    """Return the same memory as if its rows had no room between them."""
    return as_strided(arrays, strides=np.cumprod([arrays.itemsize, *arrays.shape[:0:-1]])[::-1])


def rightly(out, wanted):
    out[...] = wanted


def with_the_width_as_stride(out, wanted):
    plain(out)[...] = wanted


def past_the_end(out, wanted):
    out[...] = wanted
    as_strided(out, (out.shape[0] + 1, *out.shape[1:]))[-1] = 0


def on_top_of_what_is_there(out, wanted):
    np.maximum(out, wanted, out=out)


def writing(operation, write, limits=None):
    """Return an implementation of one operation that writes its outputs in some way."""

    def given(out, **arguments):
        returned = ORACLE.functions[operation](**arguments)
        outputs = returned if isinstance(returned, tuple) else (returned,)
        for one, wanted in zip(out if isinstance(out, tuple) else (out,), outputs, strict=True):
            if one is not None:
                write(one, wanted)

    functions = functions_with_outputs({f"{operation}_out": given}, "mine", ORACLE.arrays, limits or Limits())
    return replace(ORACLE, name="mine", functions=functions, limits=limits or Limits())


def message_of(backend, operation, count=12):
    for cases in draw_cases(PROPERTIES[f"given.{operation}"], 0, count):
        try:
            outputs_are_written_where_they_are(operation, backend, cases)
        except AssertionError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("operation", ["fast_topk", "gather_accept_tokens", "build_tree", "select_top_k_tokens"])
def test_who_writes_its_outputs_only_conforms(operation):
    assert message_of(writing(operation, rightly), operation) == ""
    assert message_of(writing(operation, rightly, Limits(is_contiguous=True)), operation) == ""


@pytest.mark.parametrize("write", [with_the_width_as_stride, past_the_end, on_top_of_what_is_there])
@pytest.mark.parametrize("operation", ["fast_topk", "gather_accept_tokens"])
def test_who_does_not_is_found(operation, write):
    assert message_of(writing(operation, write), operation)


def test_a_write_beside_an_output_is_named():
    reported = message_of(writing("gather_accept_tokens", past_the_end), "gather_accept_tokens")
    assert reported.startswith("gather_accept_tokens: the memory around accept_tokens = 0 at [")
    assert reported.endswith(" as before")
    blocks = writing("fill_bonus_tokens", past_the_end, Limits(is_contiguous=True))
    assert "the memory around bonus_tokens" in message_of(blocks, "fill_bonus_tokens")


def test_a_function_with_given_outputs_is_the_operation_too():
    backend = writing("fast_topk", rightly)
    values = np.array([[1, 3, 2]], dtype=np.float32)
    assert list(backend.functions) == ["fast_topk_out", "fast_topk"]
    assert backend.fast_topk(values, 2).topk_index.tolist() == [[1, 2]]


def test_all_outputs_of_a_module_may_be_given():
    def fill_bonus_tokens(accept_tokens, num_accepted_tokens, out):
        out[...] = ORACLE.fill_bonus_tokens(accept_tokens, num_accepted_tokens)

    module = types.SimpleNamespace(OUTPUTS="given", fill_bonus_tokens=fill_bonus_tokens)
    functions = functions_with_outputs(vars(module), "mine", ORACLE.arrays, Limits())
    arguments = {"accept_tokens": np.array([[3, 4]], np.int32), "num_accepted_tokens": np.array([2], np.int32)}
    assert functions["fill_bonus_tokens"](**arguments).tolist() == [4]
    with pytest.raises(BadLimits, match=r'mine.OUTPUTS is \'mine\', but should be "given"'):
        functions_with_outputs({"OUTPUTS": "mine"}, "mine", ORACLE.arrays, Limits())
