import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim.conformance.backend import load
from specsim.conformance.outcomes import Observation
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.probabilities import CHUNK
from specsim.gpu.sampled_verify import QUADS
from specsim.gpu.switches import poisoned
from specsim.host.noise import arrivals, stream_key
from specsim.properties.operations.generated.margin_cases import counting, difference_beyond_margins
from specsim.rejection import Reason
from tests.gpu.test_probabilities import cut_rows

ON_GPU = pytest.mark.skipif(DEVICE.type != "cuda", reason="too large for the interpreter")
DRAW = "sample_target_predict"
REFERENCE, GPU = load("specsim.reference"), load("specsim.gpu")
KINDS = ("normal", "equal", "peaked", "forbidden")
EVERYTHING = 2**30


def call(num_requests, num_nodes, vocab, kind="normal", dtype=np.float32, seed=0, is_filtered=False):
    """Return rows of a kind; requests take turns in temperatures, and in filters where there are any."""
    source = np.random.default_rng([seed, vocab])
    logits = source.normal(size=(num_requests * num_nodes, vocab)) * 3
    if kind == "equal":
        logits[:] = 1.5
    if kind == "peaked":
        logits[np.arange(len(logits)), source.integers(0, vocab, len(logits))] = 40
    if kind == "forbidden":
        logits[source.random(logits.shape) < 0.5] = -np.inf
        logits[np.isneginf(logits).all(axis=1), -1] = 0

    def each(values, of=np.float32):
        return np.resize(np.array(values, dtype=of), num_requests)

    return {
        "logits": logits.astype(dtype),
        "temperature": each((1, 0.7, 0, 2)),
        "top_k": each((EVERYTHING, 50, 2) if is_filtered else (EVERYTHING,), np.int32),
        "top_p": each((0.9, 1, 0.5) if is_filtered else (1,)),
        "min_p": each((0, 0.1) if is_filtered else (0,)),
        "seeds": source.integers(0, 2**63 - 1, num_requests),
        "positions": source.integers(0, 2**32 - 2, (num_requests, num_nodes)),
    }


def require_same_draws(arguments):
    expected = REFERENCE.run(DRAW, arguments)
    with poisoned(0x5A):
        got = GPU.run(DRAW, arguments)
    difference = difference_beyond_margins(DRAW, arguments, Observation(expected.outputs), Observation(got.outputs))
    assert difference is None, difference


@pytest.mark.parametrize(
    ("num_requests", "num_nodes", "vocab"), [(0, 3, 5), (1, 1, 1), (2, 3, 2), (3, 4, 33), (4, 2, 1001)]
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_draws_are_those_of_the_reference(num_requests, num_nodes, vocab, kind, dtype):
    with counting() as count:
        require_same_draws(call(num_requests, num_nodes, vocab, kind, dtype))
        require_same_draws(call(num_requests, num_nodes, vocab, kind, dtype, seed=1, is_filtered=True))
    assert not count.calls, "in so few calls no race is nearly tied"


@pytest.mark.parametrize("vocab", [3, 4, 5, 15, 16, 17, 63, 64, 65, 250])
def test_counters_and_chunks_end_anywhere(cut, vocab):
    """Chunks of four counters: several of them race, and the last is cut in a counter."""
    cut(block=lambda size, most, interpreted: min(4, 1 << max(size - 1, 0).bit_length()) if most == QUADS else 256)
    require_same_draws(call(4, 3, vocab))
    require_same_draws(call(4, 3, vocab, "forbidden"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize("is_filtered", [False, True])
def test_long_rows_race_on_logits_where_no_filter_reads_them(cut, is_filtered, dtype, kind):
    """Rows of several chunks; the request of temperature 0 has a filter in any case."""
    cut_rows(cut, 64, 32)
    assert choose_block(250, CHUNK) < 250 > 4 * choose_block(250, QUADS)
    require_same_draws(call(4, 3, 250, kind, dtype, is_filtered=is_filtered))


def test_arrivals_have_nearly_all_digits():
    """Two tokens whose times differ by 2 in 100,000: whichever numbers they have, the sooner one is drawn."""
    positions = np.arange(1000)[None]
    sooner = positions[0] % 2
    times = np.array([arrivals(stream_key("token", 3, int(position) + 1), 2) for position in positions[0]])
    ahead = np.log(times[:, 1] / times[:, 0]) + np.where(sooner, 2e-5, -2e-5)
    one = np.ones(1, dtype=np.float32)
    arguments = {
        "logits": np.stack([np.zeros(1000), ahead], axis=1).astype(np.float32),
        "temperature": one,
        "top_k": np.array([EVERYTHING], dtype=np.int32),
        "top_p": one,
        "min_p": 0 * one,
        "seeds": np.array([3]),
        "positions": positions,
    }
    drawn = GPU.run(DRAW, arguments).outputs["target_predict"]
    assert (drawn == sooner[None]).all()


def test_every_bit_of_seed_and_position_counts(agrees):
    """Words that are empty or full, and a position whose successor is the last one."""
    arguments = call(4, 2, 200)
    arguments["temperature"][:] = 1
    seeds = np.array([0, 2**32 - 1, 2**32, 2**63 - 1])
    agrees(DRAW, **{**arguments, "seeds": seeds, "positions": np.array([[0, 2**31], [2**31 - 1, 2**32 - 2]] * 2)})


def test_strided_arguments_are_read_in_place(agrees):
    arguments = call(2, 3, 64)
    wide = np.zeros((6, 130), dtype=np.float32)
    wide[:, 1:129:2] = arguments["logits"]
    agrees(DRAW, **{**arguments, "logits": wide[:, 1:129:2], "positions": np.asfortranarray(arguments["positions"])})


def test_bad_rows_are_refused_alike(rejection):
    arguments = call(2, 2, 5)
    arguments["logits"][1] = -np.inf
    assert rejection(DRAW, **arguments) is Reason.EMPTY_DISTRIBUTION
    assert rejection(DRAW, **{**call(2, 2, 5), "seeds": np.array([0, -1])}) is Reason.COUNT_OUT_OF_RANGE


@ON_GPU
@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_large_vocabularies_are_drawn_alike(dtype):
    with counting() as count:
        for seed in range(2):
            require_same_draws(call(8, 4, 128_256, "normal", dtype, seed))
            require_same_draws(call(8, 4, 128_255, "normal", dtype, seed, is_filtered=True))
    assert count.calls <= 1
