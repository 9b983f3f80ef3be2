from functools import partial

import numpy as np
import pytest
import torch
from ml_dtypes import bfloat16

from specsim import gpu
from specsim.contracts.chains import block_draft_logits_read, block_target_logits_read
from specsim.gpu import from_logits
from specsim.gpu.arrays import from_numpy
from specsim.gpu.launching.blocks import power_of_two
from specsim.gpu.launching.mode import current_mode, launching
from specsim.reference.margins import MARGINS
from specsim.rejection import Reason
from tests.gpu import test_chains_from_logits as chains
from tests.gpu.test_chains_from_logits import FILTERS, KINDS, ON_GPU, scene

BLOCK = "chain_block_verification_from_logits"
check, on_device = partial(chains.check, operation=BLOCK), partial(chains.on_device, operation=BLOCK)


def mixed(counts, vocab, seed=0, *, drawn=True, dtype=np.float32):
    """Return chains whose draft's rows have half of the target's, so that fronts have shares between 0 and 1."""
    source, arguments = np.random.default_rng(seed), scene("normal", counts, vocab, seed=seed, drawn=drawn, dtype=dtype)
    drafted = len(arguments["draft_tokens"])
    target = arguments["target_logits"].astype(np.float64)
    rows = target[np.arange(drafted) + np.repeat(np.arange(len(counts)), counts)]
    own = source.normal(size=rows.shape) * 3
    draft = np.logaddexp(rows, own)
    arguments["draft_tokens"] = (draft - np.log(-np.log(source.random(draft.shape)))).argmax(axis=1)
    arguments["draft_logits"] = draft.astype(dtype) if drawn else None
    arguments["temperature"][:] = arguments["draft_temperature"][:] = 1
    coins = source.random(drafted, dtype=np.float32)
    return {
        **arguments,
        "uniform_samples": np.where(source.random(drafted) < 0.5, coins, coins / 8),
        "uniform_samples_for_final_sampling": source.random(len(counts), dtype=np.float32),
    }


@pytest.fixture
def split(cut):
    """Cut rows into blocks of 64 logits, each of them read by a program of its own."""
    cut(
        block=lambda size, most, interpreted: min(power_of_two(size), most, 64),
        chunks=lambda items, chunks, programs: max(1, chunks),
    )


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("filters", [False, True])
def test_blocks(kind, dtype, filters):
    check(**scene(kind, (3, 0, 5, 1), 60, dtype=dtype, filters=filters))


@pytest.mark.parametrize("drawn", [True, False])
def test_fronts_of_every_share(drawn):
    """Inner fronts are kept with a share below 1, and most of these decisions are clear."""
    num_inner = num_clear = num_requests = 0
    for seed in range(4):
        arguments = mixed((3, 6, 4, 2, 5), 50, seed, drawn=drawn)
        check(patterns=(0x5A,), **arguments)
        counts, lengths = np.array(on_device(arguments)[1]), np.diff(arguments["cu_num_drafts"])
        num_inner += int(((counts > 0) & (counts < lengths)).sum())
        num_clear += int((MARGINS[BLOCK](arguments) >= 1).sum())
        num_requests += len(counts)
    assert num_inner > 1
    assert num_clear > 0.9 * num_requests


@pytest.mark.parametrize("filters", [False, True])
def test_blocks_across_programs(split, filters):
    check(patterns=(0xA5,), **scene("peaked", (2, 3), 200, dtype=bfloat16, filters=filters))
    check(patterns=(0x5A,), **mixed((4, 3), 130, seed=1))


def test_weights_in_float32(cut):
    cut(block=lambda size, most, interpreted: min(power_of_two(size), most, 1024))
    for seed in range(2):
        check(patterns=(0x5A,), **mixed((3, 2), from_logits.LARGEST_PRECISE + 100, seed, dtype=bfloat16))


@pytest.mark.parametrize("counts", [(), (0,), (0, 0), (1,), (40, 2)], ids=str)
@pytest.mark.parametrize("filters", [False, True])
def test_shapes_of_blocks(counts, filters):
    check(**scene("peaked", counts, 30, filters=filters, spare=2))


@pytest.mark.parametrize("vocab", [1, 2, 7, 9, 129, 257])
def test_sizes_of_vocabularies(vocab):
    check(patterns=(0x5A,), **scene("normal", (2, 3), vocab))


@pytest.mark.parametrize("draft_vocab", [1, 39, 41, 300])
def test_drafts_of_another_vocabulary(split, draft_vocab):
    for filters in (False, True):
        check(patterns=(0x5A,), **scene("normal", (3, 2), 40, draft_vocab=draft_vocab, filters=filters))


@pytest.mark.parametrize("drawn", [True, False])
@pytest.mark.parametrize("filters", [False, True])
def test_rows_without_filters_are_read_in_one_launch(filters, drawn):
    launches = []
    with launching(observer=launches.append, blocks=current_mode().blocks):
        on_device(scene("normal", (3, 2), 50, drawn=drawn, filters=filters))
    read = ["_read_chain_rows_kernel"] if drawn or not filters else []
    kept = ["_spread_filters_kernel", "_row_statistics_kernel", "_filter_chain_rows_kernel"]
    last = ["_weigh_chain_fronts_kernel", "_judge_chain_fronts_kernel", "_walk_chains_kernel"]
    expected = [*read, *(kept if filters else ["_join_chain_rows_kernel"]), *last]
    assert [launch.plan.name for launch in launches] == expected


@pytest.mark.parametrize("name", FILTERS)
def test_filters_are_left_out_one_by_one(name):
    arguments = scene("normal", (3, 2, 1), 50, filters=True)
    check(**{**arguments, name: None})
    check(**{**arguments, **dict.fromkeys(FILTERS), name: arguments[name]})


def test_rows_of_two_types_and_views():
    arguments = scene("normal", (3, 2), 50)
    check(**{**arguments, "draft_logits": arguments["draft_logits"].astype(bfloat16)})
    strided = {
        name: np.repeat(value, 2, axis=-1)[..., ::2] if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    check(**strided)
    turned = {name: np.asfortranarray(arguments[name]) for name in ("target_logits", "draft_logits")}
    check(**{**arguments, **turned})


@pytest.mark.parametrize("filters", [False, True])
def test_rows_that_no_block_reads_have_no_influence(filters):
    arguments = scene("normal", (4, 3, 5), 40, filters=filters)
    arguments["draft_tokens"][5] = -1
    expected = on_device(arguments)
    reads = {"target_logits": block_target_logits_read, "draft_logits": block_draft_logits_read}
    for name, rows_read in reads.items():
        unread = ~rows_read(arguments)
        assert unread.any()
        arguments[name][unread] = np.nan
    assert on_device(arguments) == expected


@pytest.mark.parametrize("filters", [False, True])
def test_malformed_offsets_and_tokens_neither_hang_nor_leave_the_request(filters):
    arguments = scene("normal", (2, 2, 2), 30, filters=filters)
    expected = on_device(arguments)
    arguments["draft_tokens"][2:4] = 2**40, -7
    tokens, counts = on_device(arguments)
    assert tokens[0] == expected[0][0]
    assert tokens[2] == expected[0][2]
    # NOTE: where a greedy request shares rows with another one, which of them says last what the rows hold is open.
    for wrong in ([0, 2, 4, 99], [-5, 2, 1, 6], [2, 4, 0, 2], [6, 6, 0, 0], [2**31 - 1, -(2**31), 3, 3]):
        arguments["cu_num_drafts"][:] = wrong
        arguments["temperature"][:] = 0, 1, 1
        tokens, counts = on_device(arguments)
        assert all(0 <= count <= 2 for count in counts)
        assert all(-1 <= token < 30 for row in tokens for token in row)


def test_rejections(rejection):
    arguments = scene("normal", (2, 1), 5, filters=True)
    arguments["temperature"][:] = arguments["draft_temperature"][:] = 1
    arguments["draft_tokens"][:] = 0
    wrong = {
        "target_logits": (np.full((5, 5), np.nan, dtype=np.float32), Reason.NAN_SCORE),
        "draft_logits": (np.full((3, 5), -np.inf, dtype=np.float32), Reason.EMPTY_DISTRIBUTION),
        "draft_temperature": (np.array([1, 2**21], dtype=np.float32), Reason.TEMPERATURE_OUT_OF_RANGE),
        "cu_num_drafts": (np.array([0, 2, 2], dtype=np.int32), Reason.INCONSISTENT_LENGTHS),
    }
    for name, (value, reason) in wrong.items():
        assert rejection(BLOCK, **{**arguments, name: value}) is reason
    assert rejection(BLOCK, **{**arguments, "max_num_drafts": 1}) is Reason.COUNT_OUT_OF_RANGE


@ON_GPU
@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize("vocab", [32_000, 152_064])
def test_large_vocabularies(vocab, dtype):
    check(patterns=(0x5A,), **mixed((5, 0, 3, 5, 5), vocab, dtype=dtype))
    for filters in (False, True):
        check(patterns=(0x5A,), **scene("peaked", (5, 0, 3, 5, 5), vocab, dtype=dtype, filters=filters))


@ON_GPU
@pytest.mark.parametrize("num_requests", [1, 16, 200])
def test_a_graph_gives_the_same_at_every_replay(num_requests):
    arguments = mixed((5,) * num_requests, 32_000, dtype=bfloat16)
    given = {name: from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    eager = [output.clone() for output in gpu.chain_block_verification_from_logits(**given)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = gpu.chain_block_verification_from_logits(**given)
    for _ in range(3):
        for output in outputs:
            output.fill_(77)
        graph.replay()
        assert all(torch.equal(one, other) for one, other in zip(outputs, eager, strict=True))
