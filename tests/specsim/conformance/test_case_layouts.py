import numpy as np
import pytest

from specsim.conformance.cases import read_case
from specsim.conformance.isolation.heartbeat import Heart
from tests.specsim.conformance.some_cases import assert_round_trip, make_case


def laid_out(layout):
    tokens = np.array([[5, 6, 9], [7, 0, 0]], dtype=np.int32)
    if layout == "transposed":
        return np.ascontiguousarray(tokens.T).T
    wide = np.full((5, 8), 3, dtype=np.int32)
    view = {
        "gapped": wide[:2, 1:7:2],
        "offset": np.full((5, 3), 3, dtype=np.int32)[2:4],
        "backwards": wide[3:1:-1, 6:0:-2],
        "one row": wide[1:2, :3],
        "part of a large pool": np.full((5000, 3), 3, dtype=np.int32)[2500:2502],
    }[layout]
    view[...] = tokens[: len(view)]
    return view


@pytest.mark.parametrize("layout", ["transposed", "gapped", "offset", "backwards", "one row", "part of a large pool"])
def test_a_view_is_a_view_again(layout, tmp_path):
    tokens = laid_out(layout)
    counts = np.array([2, 1], dtype=np.int32)[: len(tokens)]
    case = make_case("fill_bonus_tokens", accept_tokens=tokens, num_accepted_tokens=counts)
    got = read_case(assert_round_trip(case, tmp_path)).arguments["accept_tokens"]
    assert got.base is not None
    assert tuple(np.array(got.strides)[np.array(got.shape) > 1]) == tuple(
        np.array(tokens.strides)[np.array(tokens.shape) > 1]
    )
    plain = make_case("fill_bonus_tokens", accept_tokens=tokens.copy(), num_accepted_tokens=counts)
    assert plain.id != case.id


def test_a_view_of_many_entries_stands_beside(tmp_path):
    values = np.arange(80000, dtype=np.float32).reshape(4, 20000)[:, ::2]
    case = make_case("compact_accepted_to_front", values=values, accept_index=np.array([[0, 2]], dtype=np.int32))
    path = assert_round_trip(case, tmp_path)
    assert path.with_suffix(".safetensors").exists()
    assert read_case(path).arguments["values"].strides == values.strides


def test_a_call_that_never_returns_is_reported_with_its_views():
    heart = Heart.new()
    given = {"tokens": laid_out("gapped"), "buffers": [laid_out("transposed"), None], "plain": np.arange(3), "k": 2}
    heart.call("fill_bonus_tokens", given)
    name, reported = heart.last_call()
    heart.close()
    assert (name, reported.keys(), reported["k"]) == ("fill_bonus_tokens", given.keys(), 2)
    for one, other in ((reported["tokens"], given["tokens"]), (reported["buffers"][0], given["buffers"][0])):
        assert (one.strides, one.tolist()) == (other.strides, other.tolist())
    assert reported["plain"].tolist() == [0, 1, 2] and reported["buffers"][1] is None
