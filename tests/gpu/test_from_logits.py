import numpy as np
import pytest
import torch
from ml_dtypes import bfloat16

from specsim import gpu
from specsim.conformance.backend import load
from specsim.conformance.outcomes import Observation
from specsim.gpu import acceptance, from_logits
from specsim.gpu.arrays import DEVICE, from_numpy
from specsim.gpu.kernels.from_logits import row_filters
from specsim.gpu.launching import row_statistics
from specsim.gpu.launching.blocks import INTERPRETED, power_of_two
from specsim.gpu.launching.blocks import ON_GPU as BLOCKS_ON_GPU
from specsim.gpu.launching.mode import current_mode, launching
from specsim.gpu.switches import poisoned
from specsim.properties.operations.generated.margin_cases import difference_beyond_margins
from specsim.rejection import Reason

ON_GPU = pytest.mark.skipif(DEVICE.type != "cuda", reason="too large for the interpreter")
FILTERS = ("top_k", "top_p", "min_p")
GREEDY, SAMPLED = "verify_tree_greedy_from_logits", "verify_tree_sampled_from_logits"
TREE = ("candidates", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling", "logits", "num_steps")
REFERENCE, GPU = load("specsim.reference"), load("specsim.gpu")
PATTERN_OF = {np.float32: 0x5A, bfloat16: 0xA5}
"""Fresh memory of each type; the one pattern is positive as an integer, the other one negative."""
KINDS = ("normal", "ties", "equal", "peaked", "forbidden", "clustered", "few values")
TEMPERATURES, TOP_KS, TOP_PS, MIN_PS = (1, 0, 0.7, 0.05, 2**20), (50, 2**30, 1, 5, 200), (0.95, 1, 0.3, 1e-6), (0, 0.1)


def links(source, num_requests, num_nodes, reach):
    child = np.full((num_requests, num_nodes), -1)
    sibling = np.full((num_requests, num_nodes), -1)
    for request in range(num_requests):
        for node in range(num_nodes - 1, 0, -1):
            parent = source.integers(max(0, node - reach), node)
            sibling[request, node] = child[request, parent]
            child[request, parent] = node
    return child, sibling


def rows(source, kind, num_rows, vocab):
    drawn = source.normal(size=(num_rows, vocab)) * 3
    if kind == "ties":
        drawn = np.round(drawn)
    if kind == "equal":
        drawn[:] = -2.5
    if kind == "few values":
        drawn = source.integers(-1, 2, drawn.shape) * 0.5 * source.choice((-1.0, 1.0), drawn.shape)
    if kind == "clustered":
        drawn[:, : max(1, vocab // 20)] += 9
    favourite = source.integers(0, vocab, num_rows)
    if kind == "forbidden":
        drawn[source.random(drawn.shape) < 0.9] = -np.inf
    drawn[np.arange(num_rows), favourite] = 15 if kind == "peaked" else drawn[np.arange(num_rows), favourite]
    drawn[np.isneginf(drawn).all(axis=1), -1] = 0
    return drawn


def scene(kind, num_requests, num_nodes, vocab, num_steps, dtype=np.float32, reach=3, seed=0, strict=True):
    """Return a call whose drafts are mostly likely tokens and whose requests have parameters of their own."""
    source = np.random.default_rng(seed + vocab)
    child, sibling = links(source, num_requests, num_nodes, reach)
    logits = rows(source, kind, num_requests * num_nodes, vocab).astype(dtype)
    likely = np.argsort(-logits.astype(np.float32), axis=1)[:, :4]
    candidates = source.integers(0, vocab, (num_requests, num_nodes))
    for request, node in np.ndindex(num_requests, num_nodes):
        follower = child[request, node]
        while follower != -1:
            if source.random() < 0.7:
                candidates[request, follower] = source.choice(likely[request * num_nodes + node])
            follower = sibling[request, follower]
    shape = (num_requests, num_nodes)

    def each(values, of=np.float32):
        return source.choice(values, num_requests).astype(of)

    def coins(size):
        drawn = source.integers(0, 2**24, size) / 2**24
        return np.where(source.random(size) < 0.1, source.choice((0, 1 - 2**-24), size), drawn).astype(np.float32)

    return {
        "candidates": candidates,
        "retrieve_index": np.arange(num_requests * num_nodes).reshape(shape),
        "retrieve_next_token": child,
        "retrieve_next_sibling": sibling,
        "uniform_samples": coins(shape),
        "uniform_samples_for_final_sampling": coins(num_requests),
        "logits": logits,
        "temperature": each(TEMPERATURES),
        "top_k": each(TOP_KS, np.int32),
        "top_p": each(TOP_PS),
        "min_p": each(MIN_PS),
        "threshold_single": each((1, 1, 0.2)),
        "threshold_acc": each((1, 1, 0.5, 0)),
        "num_steps": num_steps,
        "strict": strict,
        "skip_duplicates": strict,
    }


def check(patterns=(0x5A, 0xA5), **arguments):
    """Compare both operations with the reference, under patterns of fresh memory; margins excuse requests."""
    compare(GREEDY, {name: arguments[name] for name in TREE}, patterns)
    compare(SAMPLED, arguments, patterns)


def compare(operation, given, patterns):
    """Compare one operation with the reference."""
    expected = Observation(outputs=REFERENCE.run(operation, given).outputs)
    for pattern in patterns:
        with poisoned(pattern):
            observed = Observation(outputs=GPU.run(operation, given).outputs)
        assert difference_beyond_margins(operation, given, expected, observed) is None


@pytest.fixture
def small_chunks(cut):
    """Cut rows into chunks of 256 logits, and try as many bounds at a time as on a GPU."""
    cut(block=lambda size, most, interpreted: min(power_of_two(size), most, 256))


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_acceptance(kind, dtype):
    check(patterns=(PATTERN_OF[dtype],), **scene(kind, 4, 7, 300, 4, dtype))
    check(patterns=(PATTERN_OF[dtype],), **scene(kind, 3, 5, 3, 2, dtype, strict=False))


@pytest.mark.parametrize("kind", KINDS)
def test_acceptance_across_chunks(small_chunks, monkeypatch, kind):
    """Every second pair of kinds is read level by level, the others all rows at once."""
    if KINDS.index(kind) // 2 % 2:
        monkeypatch.setattr(from_logits, "MOST_GREEDY_ROWS", 0)
        monkeypatch.setattr(from_logits, "MOST_SAMPLED_ROWS", 0)
    assert from_logits.reads_all(12, from_logits.MOST_SAMPLED_ROWS) == (KINDS.index(kind) // 2 % 2 == 0)
    check(patterns=(0xA5,), **scene(kind, 3, 4, 600, 2, bfloat16 if KINDS.index(kind) % 2 else np.float32))


@pytest.mark.parametrize("reads_all", [False, True])
@pytest.mark.parametrize("kind", ["ties", "forbidden"])
def test_without_filters(small_chunks, monkeypatch, kind, reads_all):
    """Such a walk has kernels of its own, which read all rows at once or one level after another."""
    monkeypatch.setattr(acceptance, "MOST_UNFILTERED_ROWS", 12 if reads_all else 0)
    monkeypatch.setattr(row_statistics, "INTERPRETED_ROWS", 12 if reads_all else 0)
    for seed, dtype in enumerate((np.float32, bfloat16)):
        drawn = scene(kind, 3, 4, 600, 2, dtype, seed=seed)
        compare(SAMPLED, {**drawn, **dict.fromkeys(FILTERS)}, (0xA5,))


@pytest.mark.parametrize("left_out", [("top_k",), ("top_p", "min_p")])
def test_one_filter_that_is_left_out_keeps_everything(left_out):
    compare(SAMPLED, {**scene("normal", 4, 3, 300, 2, seed=1), **dict.fromkeys(left_out)}, (0xA5,))


def test_without_filters_a_level_is_one_launch(monkeypatch):
    """Read at once, all rows are one launch; the last one draws either way."""
    arguments = {**scene("normal", 3, 4, 300, 2), **dict.fromkeys(FILTERS)}
    for most, num_reads in ((0, 3), (12, 1)):
        monkeypatch.setattr(acceptance, "MOST_UNFILTERED_ROWS", most)
        monkeypatch.setattr(row_statistics, "INTERPRETED_ROWS", most)
        launches = []
        with launching(observer=launches.append, blocks=current_mode().blocks):
            GPU.run(SAMPLED, arguments)
        names = [one.plan.name for one in launches]
        assert names == [*["_read_unfiltered_kernel"] * num_reads, "_end_unfiltered_kernel"]


@pytest.mark.parametrize("kind", ["normal", "few values", "clustered"])
def test_weights_in_float32(cut, kind):
    cut(block=lambda size, most, interpreted: min(power_of_two(size), most, 1024))
    vocab = from_logits.LARGEST_PRECISE + 100
    check(patterns=(0x5A,), **scene(kind, 3, 4, vocab, 2, bfloat16, seed=2))


def flat_scene(kind, dtype, seed=3):
    """Return a call whose rows are flat and filtered by top-p first of all, so that no list suffices."""
    arguments = scene(kind, 2, 3, 600, 2, dtype, seed=seed)
    filters = {"temperature": (3, 4), "top_p": (0.95, 0.9), "min_p": (0, 1e-3)}
    drawn = {name: np.array(values, np.float32) for name, values in filters.items()}
    return {**arguments, **drawn, "top_k": np.full(2, 2**30, np.int32)}


@pytest.fixture
def narrowing_over(monkeypatch, cut):
    """Return a function that narrows rows of 256 logits a block down, as otherwise those of larger vocabularies.

    It takes how many rows are read at once, and over how many programs each is split.
    """

    def narrow(most_rows, num_programs):
        monkeypatch.setattr(from_logits, "LARGEST_PRECISE", 0)
        monkeypatch.setattr(from_logits, "MOST_SAMPLED_ROWS", most_rows)
        cut(block=lambda size, most, interpreted: min(power_of_two(size), most, 256), chunks=lambda *_: num_programs)

    return narrow


@pytest.mark.parametrize("num_programs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize("kind", ["normal", "ties"])
def test_narrowing_finds_what_top_p_keeps_of_each_block(narrowing_over, kind, dtype, num_programs):
    narrowing_over(128, num_programs)
    arguments, launches = flat_scene(kind, dtype), []
    with launching(observer=launches.append, blocks=current_mode().blocks):
        GPU.run(SAMPLED, arguments)
    assert [one.plan.name for one in launches] == [
        "_row_statistics_kernel",
        "_walk_sampled_kernel",
    ]
    bounds, masses = (tensor.cpu().numpy() for tensor in launches[1].scratch["walk"][6:8])
    for row, logits in enumerate(arguments["logits"].astype(np.float64)):
        temperature, top_p = (arguments[name][row // 3] for name in ("temperature", "top_p"))
        weights = np.exp((logits - logits.max()) / temperature)
        falling = np.sort(weights)[::-1]
        least = falling[np.searchsorted(np.cumsum(falling), top_p * weights.sum())]
        low, high, source, _ = bounds[row, -1].tolist()
        if high - low > 1:
            # The walk takes the result of the last round.
            num_ways = masses.shape[-1]
            tried = [low + (high - low) * way // num_ways for way in range(num_ways)] + [high]
            reached = np.flatnonzero(masses[row, -1].sum(axis=0) >= top_p * weights.sum()).max(initial=0)
            low, high, source = tried[reached], tried[reached + 1], (masses.shape[1] - 1) * num_ways + reached
        assert (source >= 0, high - low) == (True, 1)
        # The highest of the numbers that weigh as much in float32.
        assert np.isclose(value_of_order(low, dtype), logits[weights >= least].min(), rtol=1e-5)
        kept = np.pad(np.where(weights >= least, weights, 0), (0, 168)).reshape(3, 256).sum(axis=1)
        assert np.allclose(masses[row, source // masses.shape[-1], :, source % masses.shape[-1]], kept, rtol=1e-5)


def value_of_order(order, dtype):
    """Return the number that an integer of the kernels' ``order_of`` stands for."""
    shift = 16 if dtype is bfloat16 else 0
    bits = order if order >= 0 else order ^ (0x7FFFFFFF >> shift)
    return np.int32(bits << shift).view(np.float32)


@pytest.mark.parametrize(("most_rows", "num_programs"), [(0, 1), (0, 3), (128, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_acceptance_on_flat_rows(narrowing_over, kind, most_rows, num_programs):
    narrowing_over(most_rows, num_programs)
    check(patterns=(0xA5,), **flat_scene(kind, np.float32 if KINDS.index(kind) % 2 else bfloat16))


@pytest.mark.parametrize("bonus", [20.72, 3.4])
def test_what_is_left_of_a_row_without_its_rejected_drafts(narrowing_over, bonus):
    """Both drafts of a root are one token, of all but 6e-7 of its row or of 5 % of it; 599 others are left alike."""
    narrowing_over(128, 1)
    final_coins = np.array([0.1, 0.4, 0.6, 0.9], np.float32)
    arguments = scene("equal", 4, 3, 600, 1)
    arguments["candidates"][:, 1:] = 5
    arguments["retrieve_next_token"][:] = [1, -1, -1]
    arguments["retrieve_next_sibling"][:] = [-1, 2, -1]
    arguments["uniform_samples"][:] = 1 - 2**-24
    arguments["uniform_samples_for_final_sampling"] = final_coins
    arguments["logits"][:, 5] += bonus
    for name, value in {"temperature": 1, "top_k": 600, "top_p": 1, "min_p": 0}.items():
        arguments[name][:] = value
    arguments["threshold_single"][:] = arguments["threshold_acc"][:] = 1
    with poisoned(0xA5):
        predict = GPU.run(SAMPLED, arguments).outputs["predict"]
    assert predict.reshape(4, 3)[:, 0].tolist() == (1 + np.floor(599 * final_coins)).tolist()


@pytest.mark.parametrize("vocab", [1, 2])
def test_a_list_that_was_not_written_is_not_read(vocab):
    """Fresh memory that happens to hold the largest logit of a greedy row names no token."""
    arguments = scene("equal", 2, 2, vocab, 1)
    pattern = 0xC0
    arguments["logits"][:] = np.full(4, pattern, dtype=np.uint8).view(np.float32)
    arguments["temperature"][:] = 0
    for name, value in {"top_k": 2**30, "top_p": 1, "min_p": 0}.items():
        arguments[name][:] = value
    check(patterns=(pattern,), **arguments)


@pytest.mark.skipif(not INTERPRETED, reason="a compiled kernel keeps the functions that it was compiled from")
@pytest.mark.parametrize("fault", ["a bound lower", "weights of the next bound"])
def test_what_narrowing_finds_decides(narrowing_over, monkeypatch, fault):
    """A planted fault in what it finds shows in what is accepted."""

    def spoilt(*given):
        threshold, block_mass, is_known = kept_of_narrowed(*given)
        if fault == "a bound lower":
            return threshold - 2, block_mass, is_known
        return threshold, block_mass * 0.5, is_known

    kept_of_narrowed = row_filters.kept_of_narrowed
    narrowing_over(128, 1)
    check(patterns=(0xA5,), **flat_scene("normal", bfloat16))
    monkeypatch.setattr(row_filters, "kept_of_narrowed", spoilt)
    with pytest.raises(AssertionError):
        for seed in range(4):
            check(patterns=(0xA5,), **flat_scene("normal", bfloat16, seed=seed))


@pytest.mark.parametrize("num_logits", [1, 128, 256, 4096])
def test_a_gpu_tries_eight_bounds_at_a_time(num_logits):
    with launching(blocks=BLOCKS_ON_GPU):
        assert row_statistics.ways_of(num_logits, row_statistics.WAYS) == 8
        assert row_statistics.ways_of(num_logits, row_statistics.ROW_WAYS) == 8


@pytest.mark.parametrize(
    ("num_requests", "num_nodes", "num_steps", "reach"),
    [
        (0, 4, 3, 1),
        (1, 1, 0, 1),
        (2, 1, 3, 1),
        (2, 6, 0, 2),
        (2, 6, 1, 2),
        (2, 5, 9, 1),
        (2, 40, 2, 40),
        (1, 130, 3, 5),
    ],
)
def test_shapes_of_trees(num_requests, num_nodes, num_steps, reach):
    check(**scene("peaked", num_requests, num_nodes, 50, num_steps, reach=reach))


@pytest.mark.parametrize("vocab", [1, 2, 127, 128, 129, 255, 257, 5000])
def test_sizes_of_vocabularies(vocab):
    check(**scene("normal", 2, 3, vocab, 2))


def test_a_path_by_hand():
    """Root 0 has children 1 (token 3, p = 1/4) and 2 (token 1, p = 1/2); a coin of 1/2 takes the second."""
    halves = np.log(np.array([[1, 4, 1, 2], [1, 1, 1, 1], [0.5, 0.5, 1, 6]], dtype=np.float32))
    one, zero = np.ones(1, dtype=np.float32), np.zeros(1, dtype=np.float32)
    arguments = {
        "candidates": np.array([[0, 3, 1]]),
        "retrieve_index": np.array([[0, 1, 2]]),
        "retrieve_next_token": np.array([[1, -1, -1]]),
        "retrieve_next_sibling": np.array([[-1, 2, -1]]),
        "uniform_samples": np.array([[0.5, 0, 0]], dtype=np.float32),
        "uniform_samples_for_final_sampling": np.array([0.9], dtype=np.float32),
        "logits": halves,
        "temperature": one,
        "top_k": np.array([4], dtype=np.int32),
        "top_p": one,
        "min_p": zero,
        "threshold_single": one,
        "threshold_acc": one,
        "num_steps": 2,
    }
    on_device = {name: from_numpy(value) if name != "num_steps" else value for name, value in arguments.items()}
    assert [output.tolist() for output in gpu.verify_tree_sampled_from_logits(**on_device)] == [
        [1, 0, 3],
        [[0, 2, -1]],
        [1],
    ]
    given = {name: on_device[name] for name in TREE}
    assert [output.tolist() for output in gpu.verify_tree_greedy_from_logits(**given)] == [[1, 0, 3], [[0, 2, -1]], [1]]


def test_rows_that_no_walk_visits_have_no_influence():
    arguments = scene("peaked", 3, 8, 40, 4)
    outcome = REFERENCE.run(SAMPLED, arguments)
    visited = outcome.outputs["accept_index"][outcome.outputs["accept_index"] >= 0]
    unseen = np.setdiff1d(np.arange(24), visited)
    assert len(unseen)
    arguments["logits"][unseen] = np.nan
    on_device = {
        name: from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()
    }
    for got, expected in zip(gpu.verify_tree_sampled_from_logits(**on_device), outcome.outputs.values(), strict=True):
        assert got.cpu().numpy().tolist() == expected.tolist()


def test_views_are_read_where_they_lie():
    arguments = scene("normal", 3, 5, 60, 3)
    strided = {
        name: np.repeat(value, 2, axis=-1)[..., ::2] if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    check(**strided)
    check(**{**arguments, "logits": np.asfortranarray(arguments["logits"])})


@pytest.mark.parametrize("operation", [GREEDY, SAMPLED])
def test_malformed_links_neither_hang_nor_leave_the_request(operation):
    arguments = scene("equal", 3, 6, 2, 4)
    arguments["threshold_single"][:] = 0
    if operation == GREEDY:
        arguments = {name: arguments[name] for name in TREE}

    def run():
        on_device = {
            name: from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
            for name, value in arguments.items()
        }
        return vars(gpu)[operation](**on_device)

    expected = run()
    for wrong in ([0] * 6, [1, 2, 3, 1, 2, 3], [99, -7, 6, -2, 2**40, 5]):
        arguments["retrieve_next_token"][1] = wrong
        arguments["retrieve_next_sibling"][1] = wrong
        arguments["candidates"][1] = [0, 1, 7, -5, 2**40, 0]
        got = run()
        for one, other in zip(got, expected, strict=True):
            assert one.reshape(3, -1)[::2].tolist() == other.reshape(3, -1)[::2].tolist()
        assert 0 <= got[2][1].item() <= 4
        assert all(node == -1 or 6 <= node < 12 for node in got[1][1].tolist())


def test_rejections(rejection):
    arguments = scene("normal", 2, 3, 5, 2)
    wrong = {
        "uniform_samples": (np.ones((2, 3), dtype=np.float32), Reason.COIN_OUT_OF_RANGE),
        "logits": (np.full((6, 5), -np.inf, dtype=np.float32), Reason.EMPTY_DISTRIBUTION),
        "temperature": (np.array([1, 1e-9], dtype=np.float32), Reason.TEMPERATURE_OUT_OF_RANGE),
        "retrieve_next_token": (np.zeros((2, 3), dtype=np.int64), Reason.CYCLIC_TREE),
    }
    for name, (value, reason) in wrong.items():
        assert rejection(SAMPLED, **{**arguments, name: value}) is reason


@ON_GPU
@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize("vocab", [32_000, 128_256, 152_064])
@pytest.mark.parametrize("kind", ["normal", "peaked", "clustered", "few values"])
def test_large_vocabularies(kind, vocab, dtype):
    arguments = scene(kind, 5, 4, vocab, 3, dtype)
    for top_k, top_p in ((50, 0.95), (1000, 0.9), (2**30, 0.95), (2**30, 1), (vocab - 1, 0.5)):
        check(**{**arguments, "top_k": np.full(5, top_k, np.int32), "top_p": np.full(5, top_p, np.float32)})


@ON_GPU
@pytest.mark.parametrize("operation", [GREEDY, SAMPLED])
def test_a_graph_gives_the_same_at_every_replay(operation):
    arguments = scene("peaked", 8, 16, 32_000, 5, bfloat16)
    names = TREE if operation == GREEDY else arguments
    on_device = {
        name: from_numpy(arguments[name]) if isinstance(arguments[name], np.ndarray) else arguments[name]
        for name in names
    }
    eager = [output.clone() for output in vars(gpu)[operation](**on_device)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = vars(gpu)[operation](**on_device)
    for _ in range(3):
        for output in outputs:
            output.fill_(77)
        graph.replay()
        assert all(torch.equal(one, other) for one, other in zip(outputs, eager, strict=True))
