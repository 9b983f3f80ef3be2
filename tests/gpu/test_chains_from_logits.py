import numpy as np
import pytest
import torch
from ml_dtypes import bfloat16

from specsim import gpu
from specsim.conformance.backend import load
from specsim.conformance.outcomes import Observation
from specsim.contracts.chains import draft_logits_read, target_logits_read
from specsim.gpu import chains, from_logits
from specsim.gpu.arrays import DEVICE, from_numpy
from specsim.gpu.launching.blocks import power_of_two
from specsim.gpu.launching.mode import launching
from specsim.gpu.switches import poisoned
from specsim.properties.operations.generated.margin_cases import difference_beyond_margins
from specsim.rejection import Reason

ON_GPU = pytest.mark.skipif(DEVICE.type != "cuda", reason="too large for the interpreter")
CHAIN = "chain_speculative_sampling_from_logits"
REFERENCE, GPU = load("specsim.reference"), load("specsim.gpu")
FILTERS = ("top_k", "top_p", "min_p")
KINDS = ("normal", "ties", "peaked", "forbidden", "same")
TEMPERATURES, DRAFT_TEMPERATURES = (1, 0.8, 0, 0.3), (1, 0.8, 0, 2)


def rows(source, kind, num_rows, vocab):
    drawn = source.normal(size=(num_rows, vocab)) * 3
    if kind == "ties":
        drawn = np.round(drawn)
    if kind == "peaked":
        drawn[np.arange(num_rows), source.integers(0, vocab, num_rows)] = 12
    if kind == "forbidden":
        drawn[source.random(drawn.shape) < 0.5] = -np.inf
        drawn[np.isneginf(drawn).all(axis=1), -1] = 0
    return drawn


def scene(kind, counts, vocab, *, draft_vocab=None, dtype=np.float32, seed=0, filters=False, drawn=True, spare=0):
    """Return ragged chains whose draft's rows are near the target's and whose drafts are mostly likely tokens."""
    source = np.random.default_rng(seed + vocab)
    drafted, num_requests, width = sum(counts), len(counts), draft_vocab or vocab
    target = rows(source, kind, drafted + num_requests, vocab)
    draft = rows(source, kind, drafted, width)
    of_drafts = np.concatenate([np.arange(count) for count in counts] + [np.zeros(0, int)]).astype(int)
    of_drafts += np.repeat(np.cumsum([0, *(count + 1 for count in counts)])[:-1], counts).astype(int)
    common = min(vocab, width)
    if drafted:
        draft[:, :common] = target[of_drafts, :common] + (kind != "same") * 0.7 * source.normal(size=(drafted, common))
        draft[np.isneginf(draft).all(axis=1), 0] = 0
    draft, target = draft.astype(dtype), target.astype(dtype)
    gumbel = draft[:, :common].astype(np.float32) - np.log(-np.log(source.random((drafted, common))))
    tokens = gumbel.argmax(axis=1) if drafted else np.zeros(0, int)
    tokens = np.where(source.random(drafted) < 0.1, source.integers(0, vocab, drafted), tokens)
    tokens = np.where(source.random(drafted) < 0.05, -1, tokens)

    def each(values, of=np.float32):
        return source.choice(values, num_requests).astype(of)

    def coins(size):
        plain = source.integers(0, 2**24, size) / 2**24
        return np.where(source.random(size) < 0.1, source.choice((0, 1 - 2**-24), size), plain).astype(np.float32)

    return {
        "draft_tokens": tokens.astype(np.int64),
        "cu_num_drafts": np.cumsum([0, *counts]).astype(np.int32),
        "uniform_samples": coins(drafted),
        "uniform_samples_for_final_sampling": coins(num_requests),
        "draft_logits": draft if drawn else None,
        "target_logits": target,
        "temperature": each(TEMPERATURES),
        "top_k": each((50, 2**30, 1, 5), np.int32) if filters else None,
        "top_p": each((0.95, 1, 0.3)) if filters else None,
        "min_p": each((0, 0.1)) if filters else None,
        "draft_temperature": each(DRAFT_TEMPERATURES),
        "max_num_drafts": max(counts, default=0) + spare,
    }


def check(patterns=(0x5A, 0xA5), operation=CHAIN, **arguments):
    """Compare with the reference, under patterns of fresh memory; margins excuse requests."""
    expected = Observation(outputs=REFERENCE.run(operation, arguments).outputs)
    for pattern in patterns:
        with poisoned(pattern):
            observed = Observation(outputs=GPU.run(operation, arguments).outputs)
        assert difference_beyond_margins(operation, arguments, expected, observed) is None


@pytest.fixture(params=["all rows ahead", "level by level"])
def ahead(request, monkeypatch, cut):
    """Read all rows before any draft is judged, or one level."""
    if request.param == "level by level":
        monkeypatch.setattr(chains, "BYTES_AHEAD", 1)
    # NOTE: calls that are cut by hand are not replayed as they were met.
    cut()


@pytest.fixture
def split(ahead, cut):
    """Cut rows into blocks of 64 logits, each of them read by a program of its own."""
    cut(
        block=lambda size, most, interpreted: min(power_of_two(size), most, 64),
        chunks=lambda items, chunks, programs: max(1, chunks),
    )


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("filters", [False, True])
def test_acceptance(ahead, kind, dtype, filters):
    for seed in range(3 if DEVICE.type == "cuda" else 1):
        check(**scene(kind, (3, 0, 5, 1), 60, dtype=dtype, seed=seed, filters=filters))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("filters", [False, True])
def test_acceptance_across_blocks(split, kind, filters):
    check(patterns=(0xA5,), **scene(kind, (2, 3), 200, dtype=bfloat16, filters=filters))
    check(patterns=(0x5A,), **scene(kind, (4,), 130, seed=1, filters=filters))


@pytest.mark.parametrize("filters", [False, True])
def test_weights_in_float32(cut, ahead, filters):
    cut(block=lambda size, most, interpreted: min(power_of_two(size), most, 1024))
    check(
        patterns=(0x5A,), **scene("normal", (3, 2), from_logits.LARGEST_PRECISE + 100, dtype=bfloat16, filters=filters)
    )


@pytest.mark.parametrize("counts", [(), (0,), (0, 0), (1,), (40, 2)], ids=str)
@pytest.mark.parametrize("filters", [False, True])
def test_shapes_of_chains(ahead, counts, filters):
    check(**scene("peaked", counts, 30, filters=filters, spare=2))


@pytest.mark.parametrize("vocab", [1, 2, 7, 8, 9, 127, 129, 257, 2049])
def test_sizes_of_vocabularies(ahead, vocab):
    check(patterns=(0x5A,), **scene("normal", (2, 1), vocab))


@pytest.mark.parametrize("draft_vocab", [1, 5, 39, 41, 300])
@pytest.mark.parametrize("filters", [False, True])
def test_drafts_of_another_vocabulary(split, draft_vocab, filters):
    for seed in range(2):
        check(patterns=(0x5A,), **scene("normal", (3, 2), 40, draft_vocab=draft_vocab, seed=seed, filters=filters))


@pytest.mark.parametrize("filters", [False, True])
def test_certain_drafts(split, filters):
    check(**scene("peaked", (3, 0, 4), 100, drawn=False, filters=filters))


def test_rows_of_two_types(ahead):
    arguments = scene("normal", (3, 2), 50)
    check(**{**arguments, "draft_logits": arguments["draft_logits"].astype(bfloat16)})
    check(**{**arguments, "target_logits": arguments["target_logits"].astype(bfloat16)})


@pytest.mark.parametrize("name", FILTERS)
def test_filters_are_left_out_one_by_one(ahead, name):
    arguments = scene("normal", (3, 2, 1), 50, filters=True)
    check(**{**arguments, name: None})
    check(**{**arguments, **dict.fromkeys(FILTERS), name: arguments[name]})


def test_a_walk_by_hand(ahead):
    """p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4): draft 1 is rejected at coin 1/2, and token 0 alone is left."""
    halves = np.log(np.array([[2, 1, 1]], dtype=np.float32))
    one = np.ones(1, dtype=np.float32)
    arguments = {
        "draft_tokens": np.array([1]),
        "cu_num_drafts": np.array([0, 1], dtype=np.int32),
        "uniform_samples": np.array([0.5], dtype=np.float32),
        "uniform_samples_for_final_sampling": np.array([0.99], dtype=np.float32),
        "draft_logits": halves[:, [1, 0, 2]],
        "target_logits": np.concatenate([halves, halves]),
        "temperature": one,
        **dict.fromkeys(FILTERS),
        "draft_temperature": one,
        "max_num_drafts": 1,
    }
    assert on_device(arguments) == [[[0, -1]], [0]]
    arguments["uniform_samples"] -= np.float32(0.01)
    assert on_device(arguments) == [[[1, 2]], [1]]


@pytest.mark.parametrize("vocab", [1000, from_logits.LARGEST_PRECISE + 904])
def test_a_coin_falls_on_its_token_in_every_part_of_a_row(cut, vocab):
    cut(block=lambda size, most, interpreted: min(power_of_two(size), most, 512))
    num_requests = 60
    each = np.zeros(num_requests, dtype=np.float32)
    arguments = {
        "draft_tokens": np.zeros(0, dtype=np.int64),
        "cu_num_drafts": np.zeros(num_requests + 1, dtype=np.int32),
        "uniform_samples": each[:0],
        "uniform_samples_for_final_sampling": ((np.arange(num_requests) + 0.501) / num_requests).astype(np.float32),
        "draft_logits": None,
        "target_logits": np.zeros((num_requests, vocab), dtype=np.float32),
        "temperature": each + 1,
        **dict.fromkeys(FILTERS),
        "draft_temperature": each,
        "max_num_drafts": 0,
    }
    tokens, _ = on_device(arguments)
    assert tokens == [[int(coin * vocab)] for coin in arguments["uniform_samples_for_final_sampling"].tolist()]


@pytest.mark.skipif(DEVICE.type == "cuda", reason="programs of a level start before others have judged the one above")
def test_no_level_is_read_after_the_end_of_a_walk(monkeypatch):
    monkeypatch.setattr(chains, "BYTES_AHEAD", 1)
    seen, lengths = [], (4, 0, 5, 5)
    with launching(seen.append):
        _, counts = on_device(scene("normal", lengths, 40))
    known, num_programs = seen[-1].scratch["count"][1].unbind(1)
    levels = np.arange(known.shape[1])
    for request, count in enumerate(counts):
        assert known[request].tolist() == np.where(levels == count, 2, levels < count).tolist()
        assert num_programs[request].tolist() == ((levels > 0) & (levels <= count)).tolist()
    assert any(0 < count < length for count, length in zip(counts, lengths, strict=True))


@pytest.mark.parametrize("filters", [False, True])
@pytest.mark.parametrize("draft_row", [[0.0], [0.0, 0.0, -np.inf]], ids=["no such column", "forbidden"])
def test_a_draft_that_its_row_cannot_choose_is_drawn_from_the_rest(ahead, draft_row, filters):
    """p = (1/4, 1/4, 1/2), q(2) = 0: draft 2 is rejected and stays in the rest, of which it is two thirds or all."""
    one = np.ones(1, dtype=np.float32)
    arguments = {
        "draft_tokens": np.array([2]),
        "cu_num_drafts": np.array([0, 1], dtype=np.int32),
        "uniform_samples": np.zeros(1, dtype=np.float32),
        "uniform_samples_for_final_sampling": np.array([0.4], dtype=np.float32),
        "draft_logits": np.array([draft_row], dtype=np.float32),
        "target_logits": np.log(np.array([[1, 1, 2]] * 2, dtype=np.float32)),
        "temperature": one,
        **dict.fromkeys(FILTERS),
        "top_p": one if filters else None,
        "draft_temperature": one,
        "max_num_drafts": 1,
    }
    assert on_device(arguments) == [[[2, -1]], [0]]


def on_device(arguments, operation=CHAIN):
    """Return the outputs of a call as lists."""
    given = {name: from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    return [output.tolist() for output in vars(gpu)[operation](**given)]


def test_a_list_that_was_not_written_is_not_read(ahead):
    """Fresh memory that happens to hold the largest logit of a greedy row names no token."""
    pattern, arguments = 0xC0, scene("equal", (3, 0, 2), 1, filters=True, drawn=False)
    arguments["target_logits"][:] = np.full(4, pattern, dtype=np.uint8).view(np.float32)
    arguments["temperature"][:] = 0
    for name, value in {"top_k": 2**30, "top_p": 1, "min_p": 0}.items():
        arguments[name][:] = value
    check(patterns=(pattern,), **arguments)


@pytest.mark.parametrize("filters", [False, True])
def test_how_rows_are_split_does_not_matter(cut, monkeypatch, filters):
    arguments = scene("normal", (3, 0, 5), 300, filters=filters)
    found = []
    for chunks in (1, 3, 64):
        cut(
            block=lambda size, most, interpreted: min(power_of_two(size), most, 64),
            chunks=lambda items, most, programs, wanted=chunks: min(most, wanted),
        )
        for num_bytes in (1, 30_000, 2**30):
            monkeypatch.setattr(chains, "BYTES_AHEAD", num_bytes)
            found.append(on_device(arguments))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("filters", [False, True])
def test_rows_that_no_walk_reads_have_no_influence(ahead, filters):
    arguments = scene("normal", (4, 3, 5), 40, filters=filters)
    expected = on_device(arguments)
    for name, rows_read in (("target_logits", target_logits_read), ("draft_logits", draft_logits_read)):
        unread = ~rows_read(arguments)
        assert unread.any()
        arguments[name][unread] = np.nan
    assert on_device(arguments) == expected


def test_views_are_read_where_they_lie(ahead):
    for filters in (False, True):
        arguments = scene("normal", (3, 2), 60, filters=filters)
        strided = {
            name: np.repeat(value, 2, axis=-1)[..., ::2] if isinstance(value, np.ndarray) else value
            for name, value in arguments.items()
        }
        check(**strided)
        turned = {name: np.asfortranarray(arguments[name]) for name in ("target_logits", "draft_logits")}
        check(**{**arguments, **turned})


@pytest.mark.parametrize("filters", [False, True])
def test_malformed_offsets_and_tokens_neither_hang_nor_leave_the_request(ahead, filters):
    arguments = scene("normal", (2, 2, 2), 30, filters=filters)
    expected = on_device(arguments)
    arguments["draft_tokens"][2:4] = 2**40, -7
    tokens, counts = on_device(arguments)
    assert tokens[0] == expected[0][0]
    assert tokens[2] == expected[0][2]
    for wrong in ([0, 2, 4, 99], [-5, 2, 1, 6], [6, 6, 0, 0], [2**31 - 1, -(2**31), 3, 3]):
        arguments["cu_num_drafts"][:] = wrong
        tokens, counts = on_device(arguments)
        assert all(0 <= count <= 2 for count in counts)
        assert all(-1 <= token < 30 for row in tokens for token in row)


def test_rejections(rejection):
    arguments = scene("normal", (2, 1), 5, filters=True)
    arguments["temperature"][:] = arguments["draft_temperature"][:] = 1
    wrong = {
        "target_logits": (np.full((5, 5), np.nan, dtype=np.float32), Reason.NAN_SCORE),
        "draft_logits": (np.full((3, 5), -np.inf, dtype=np.float32), Reason.EMPTY_DISTRIBUTION),
        "temperature": (np.array([1, 1e-9], dtype=np.float32), Reason.TEMPERATURE_OUT_OF_RANGE),
        "draft_temperature": (np.array([1, 2**21], dtype=np.float32), Reason.TEMPERATURE_OUT_OF_RANGE),
        "top_p": (np.zeros(2, dtype=np.float32), Reason.PROBABILITY_OUT_OF_RANGE),
        "cu_num_drafts": (np.array([0, 2, 2], dtype=np.int32), Reason.INCONSISTENT_LENGTHS),
        "uniform_samples": (np.ones(3, dtype=np.float32), Reason.COIN_OUT_OF_RANGE),
    }
    for name, (value, reason) in wrong.items():
        assert rejection(CHAIN, **{**arguments, name: value}) is reason
    assert rejection(CHAIN, **{**arguments, "max_num_drafts": 1}) is Reason.COUNT_OUT_OF_RANGE


@ON_GPU
@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize("vocab", [32_000, 128_256, 152_064])
@pytest.mark.parametrize("filters", [False, True])
def test_large_vocabularies(ahead, vocab, dtype, filters):
    for kind in ("normal", "peaked"):
        check(patterns=(0x5A,), **scene(kind, (5, 0, 3, 5, 5), vocab, dtype=dtype, filters=filters))


@ON_GPU
@pytest.mark.parametrize("num_requests", [1, 16, 200])
@pytest.mark.parametrize("filters", [False, True])
def test_a_graph_gives_the_same_at_every_replay(num_requests, filters):
    arguments = scene("normal", (5,) * num_requests, 32_000, dtype=bfloat16, filters=filters)
    given = {name: from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    eager = [output.clone() for output in gpu.chain_speculative_sampling_from_logits(**given)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = gpu.chain_speculative_sampling_from_logits(**given)
    for _ in range(3):
        for output in outputs:
            output.fill_(77)
        graph.replay()
        assert all(torch.equal(one, other) for one, other in zip(outputs, eager, strict=True))


@ON_GPU
@pytest.mark.parametrize("num_requests", [1, 64, 300])
def test_the_other_way_of_reading_gives_the_same(monkeypatch, cut, num_requests):
    arguments = scene("normal", (5,) * num_requests, 128_256, dtype=bfloat16)
    cut()
    found = []
    for num_bytes in (1, 2**27, 2**40):
        monkeypatch.setattr(chains, "BYTES_AHEAD", num_bytes)
        found.append(on_device(arguments))
    assert found[0] == found[1] == found[2]
