from dataclasses import replace

import pytest
import torch

from specsim.conformance.backend import load
from specsim.conformance.outcomes import first_difference, observe
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench import every
from specsim.gpu.bench.every import COPY_BANDWIDTH, LAUNCH_US, Machine, Timed, call_once, rows_of, shape_of
from specsim.gpu.bench.iteration import EngineSizes
from specsim.gpu.bench.needed import necessary_bytes
from specsim.gpu.bench.peer import on_host
from specsim.gpu.bench.row import inputs_of
from specsim.gpu.bench.rows import ROWS
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.launching.mode import launching
from specsim.operations import RECORDS

REFERENCE, GPU = load("specsim.reference"), load("specsim.gpu")
SMALL = EngineSizes(
    batch=2,
    vocab=2500,
    draft_vocab=300,
    hidden=16,
    num_layers=2,
    length=70,
    kv_entry=(2, 8),
    state=(2, 8),
    state_layers=2,
)
NAMES = [f"{row.operation} {row.kind}".strip() for row in ROWS]
TIMED = Timed("build_tree", "1 request", 3.4, 3.0, 4.0, 1.7, 100, 1, 1)
each_row = pytest.mark.parametrize("name", NAMES)


def row_named(name):
    return ROWS[NAMES.index(name)]


def drawn(name, sizes):
    torch.manual_seed(1)
    return inputs_of(row_named(name), sizes)


def num_bytes(value):
    tensors = value if isinstance(value, list | tuple) else [value]
    return sum(one.nbytes for one in tensors if isinstance(one, torch.Tensor))


def test_every_operation_has_a_row():
    assert {row.operation for row in ROWS} == set(RECORDS)
    assert len(set(NAMES)) == len(NAMES)


@each_row
def test_inputs_are_in_the_domain_and_both_layers_agree_on_them(name):
    operation = row_named(name).operation
    arguments = on_host(drawn(name, SMALL))
    expected = observe(REFERENCE, operation, arguments)
    assert (expected.rejection, expected.error) == ("", "")
    assert first_difference(operation, arguments, expected, observe(GPU, operation, arguments)) is None


OF_TREES = (
    *("select_top_k_tokens", "per_step_draft_out_cache_loc", "assign_draft_cache_locs", "build_tree"),
    *("verify_tree_greedy", "generate_simulated_accept_index", "commit_output_tokens", "fill_accept_out_cache_loc"),
)
"""Operations whose inputs grow with nodes or beams."""


@pytest.mark.parametrize(("nodes", "topk"), [(6, 1), (16, 2), (16, 16), (64, 4), (256, 8)])
@pytest.mark.parametrize("name", OF_TREES)
def test_inputs_of_other_trees_are_in_the_domain(name, nodes, topk):
    sizes = replace(SMALL, nodes=nodes, topk=topk, vocab=17_000)
    arguments = on_host(drawn(name, sizes))
    expected = observe(REFERENCE, name, arguments)
    assert (expected.rejection, expected.error) == ("", "")
    if name == "verify_tree_greedy":
        assert arguments["candidates"].shape == (sizes.batch, nodes)
        assert all(len(set(tokens)) == nodes for tokens in arguments["candidates"].tolist())
    if name == "select_top_k_tokens":
        assert arguments["topk_p"].shape == (sizes.batch * topk, topk)


@each_row
def test_inputs_of_one_request_at_production_sizes_have_their_form(name):
    with launching(runs=False):
        prepare(row_named(name).operation, drawn(name, EngineSizes(1)))


@each_row
def test_what_is_needed_is_at_most_all_of_it(name):
    row, arguments = row_named(name), drawn(name, SMALL)
    contract = RECORDS[row.operation].contract
    assert set(contract.writes) <= set(row.needed) <= contract.by_name.keys()
    everything = {key: num_bytes(value) for key, value in arguments.items()}
    with launching(runs=False):
        call = prepare(row.operation, arguments)
    outputs = call.outputs if len(contract.outputs) > 1 else [call.outputs]
    most = sum(everything.values()) + sum(everything[key] for key in contract.writes) + sum(map(num_bytes, outputs))
    num_needed, launches = call_once(row.operation, arguments, row.needed)
    assert 0 < num_needed <= most
    assert launches >= 1


def int32(*entries):
    return torch.tensor(entries, dtype=torch.int32)


def int64(*entries):
    return torch.tensor(entries, dtype=torch.int64)


def needed(operation, **call):
    """Return the bytes that a call needs, of whose arrays only those are there that matter."""
    (row,) = {row.operation: row for row in ROWS if row.operation == operation}.values()
    contract = RECORDS[operation].contract
    absent = {spec.name: None for spec in (*contract.arrays, *contract.outputs)}
    return necessary_bytes(operation, {**absent, **call}, row.needed)


def test_a_walk_needs_a_row_of_logits_for_each_token_that_it_outputs():
    logits = torch.zeros((8, 10), dtype=torch.bfloat16)
    accept_index = int32([0, 2, 3], [4, -1, -1])
    call = {"num_accepted_drafts": int32(2, 0), "accept_index": accept_index, "predict": torch.zeros(8).int()}
    rows, counts, path, tokens = 4 * 10 * 2, 2 * 4, 6 * 4, 4 * 4
    for operation in ("verify_tree_greedy_from_logits", "verify_tree_sampled_from_logits"):
        assert needed(operation, logits=logits, **call) == rows + counts + path + tokens


def test_only_rows_of_accepted_nodes_have_log_probabilities():
    logits, accept_index = torch.zeros((8, 10)), int32([0, 2, 3], [4, -1, -1])
    assert needed("gather_output_logprobs", logits=logits, accept_index=accept_index) == 4 * 10 * 4 + 6 * 4


def test_the_last_row_of_a_tree_is_drawn_from_and_no_other_is_read_whole():
    call = {"candidates": torch.zeros((3, 4)).long(), "target_probs": torch.zeros((3, 4, 10))}
    assert needed("tree_speculative_sampling_target_only", **call, draft_probs=torch.zeros((3, 4, 10))) == (
        3 * 10 * 4 + 12 * 8
    )


def test_a_chain_reads_a_row_of_the_draft_where_a_token_was_rejected():
    call = {"target_probs": torch.zeros((18, 10)), "draft_probs": torch.zeros((15, 10))}
    assert needed("chain_speculative_sampling", **call, num_accepted_drafts=int32(5, 2, 0)) == (3 + 2) * 10 * 4 + 3 * 4


def test_a_block_reads_the_rows_of_inner_fronts_and_the_one_that_it_draws_from():
    laws = {"target_probs": torch.zeros((18, 10)), "draft_probs": torch.zeros((15, 10))}
    outputs = {"num_accepted_drafts": int32(5, 2, 0), "output_tokens": torch.zeros((3, 6)).int()}
    rows = (3 * 4 + 2) + (3 * 4 + 1)
    assert needed("chain_block_verification", **laws, **outputs) == rows * 10 * 4 + 3 * 4 + 18 * 4


def test_a_block_from_logits_reads_the_rows_of_all_drafts():
    logits = {"target_logits": torch.zeros((18, 10)), "draft_logits": torch.zeros((15, 12))}
    outputs = {"num_accepted_drafts": int32(5, 2, 0), "output_tokens": torch.zeros((3, 6)).int()}
    needed_bytes = (16 * 10 + 15 * 12) * 4 + 3 * 4 + 18 * 4
    assert needed("chain_block_verification_from_logits", **logits, **outputs) == needed_bytes


def test_a_node_in_its_place_and_the_dump_do_not_move():
    buffers = [torch.zeros((4, 2, 3), dtype=torch.bfloat16)] * 2
    pairs = {"target_slots": int64(1, 2, 0), "source_slots": int64(3, 2, 0)}
    assert needed("move_kv_cache", kv_buffers=buffers, **pairs) == 2 * 2 * (6 * 2) + 6 * 8
    pages = [torch.zeros((1, 64 * 132), dtype=torch.uint8)] * 3
    assert needed("move_indexer_cache", indexer_buffers=pages, **pairs) == 2 * 3 * 132 + 6 * 8


def test_a_prefix_is_read_once_for_all_beams_and_steps():
    call = {
        "seq_lens": int64(3, 5),
        "positions": int64(3, 3, 5, 5),
        "num_steps": 5,
        "req_to_token": torch.zeros((3, 99), dtype=torch.int32),
        "kv_indptr": int32([0, 4, 8, 14, 20], [0, 5, 10, 17, 24]),
        "kv_indices": torch.zeros((2, 2 * 2 * 99), dtype=torch.int32),
    }
    lengths, offsets = 6 * 8, 10 * 4
    assert needed("generate_draft_decode_kv_indices", **call) == (8 + 4 * 5) * 4 + (20 + 24) * 4 + lengths + offsets


def test_hidden_states_of_beams_that_are_not_gone_on_from_are_not_read():
    hidden = torch.zeros((4, 10), dtype=torch.bfloat16)
    # With two beams candidates of the second step are 2 and 3 of the first beam, 4 and 5 of the second.
    call = {"topk": 2, "hidden_states": hidden, "parent_block": int64([2, 3], [3, 4])}
    assert needed("select_top_k_tokens", **call) == (1 + 2) * 10 * 2 + 4 * 8


def test_a_walk_of_a_grammar_reads_the_states_that_it_reaches_once():
    transitions = torch.full((5, 10), -1, dtype=torch.int32)
    transitions[0, 3], transitions[1, 4], transitions[1, 5] = 1, 2, 3
    call = {
        "transitions": transitions,
        "is_terminated": torch.tensor([False, False, False, True, False]),
        # The root has a child of token 3, whose children are 4, 5 with a final state, and 6, which is forbidden.
        "candidates": int64([0, 3, 4, 5, 6], [0, 3, 4, 5, 6], [0, 3, 4, 5, 6]),
        "retrieve_next_token": int64([1, 2, -1, -1, -1], [1, 2, -1, -1, -1], [-1, -1, -1, -1, -1]),
        "retrieve_next_sibling": int64([-1, -1, 3, 4, -1], [-1, -1, 3, 4, -1], [-1, -1, -1, -1, -1]),
        "grammar_state": int32(0, -1, 0),
    }
    links = 3 * 5 * 8
    assert needed("generate_token_bitmask", **call) == 3 * 10 * 4 + 5 + 3 * links + 3 * 4


def test_a_pool_of_three_keeps_what_few_commits_leave():
    call = {
        "hidden_states": torch.zeros((9, 10), dtype=torch.bfloat16),
        "hidden_states_pool": torch.zeros((4, 3, 10), dtype=torch.bfloat16),
        "num_committed": int32(1, 5),
    }
    read, stay, written = 1 + 3, 2, 6
    assert needed("assign_hidden_states_pool", **call) == (read + stay + written) * 10 * 2 + 2 * 4


def test_states_of_requests_that_commit_none_stay():
    call = {
        "state_buffers": [torch.zeros((4, 2, 3))] * 2,
        "step_buffers": [torch.zeros((3, 5, 2, 3))] * 2,
        "commit_step": int64(1, -1, 0),
    }
    assert needed("commit_recurrent_states", **call) == 2 * (2 * 2 * 6 * 4) + 3 * 8


def test_contexts_that_fall_into_one_bucket_read_it_once():
    counts = torch.zeros((2, 16, 10), dtype=torch.uint8)
    hidden_states = int64([5, 0x0101], [6, 0x0201], [7, 0x0101])
    assert needed("text_target_logits", ngram_counts=counts, hidden_states=hidden_states) == 2 * 10 + 6 * 8


def test_a_floor_is_a_launch_or_the_copy_of_its_bytes():
    machine = Machine(launch_us=2.0, copy_bandwidth=3e12)
    assert machine.floor_us(3_000_000) == 2.0
    assert machine.floor_us(30_000_000) == 10.0
    assert Machine() == Machine(LAUNCH_US, COPY_BANDWIDTH)


def test_a_row_says_its_shape_and_how_many_floors_it_takes():
    assert shape_of(EngineSizes(1), "") == "1 request"
    assert shape_of(EngineSizes(64), "k 50") == "64 requests, k 50"
    assert TIMED.times_floor == 2.0


def test_rows_are_chosen_by_their_operation():
    assert [row.kind for row in rows_of(["target_probabilities"])] == [
        "bf16, temperature alone",
        "bf16, top-k 50, top-p 0.95",
    ]
    assert rows_of() == ROWS


def test_a_row_that_does_not_fit_costs_no_other(monkeypatch):
    def measure(work, machine, peer):
        if work.seed == 16:
            raise RuntimeError("out of memory. Tried\nand more")
        return TIMED

    monkeypatch.setattr(every, "measure", measure)
    seen = []
    works = every.works_of(["build_tree"], (1, 16))
    first, second = every.measure_every(Machine(), works, lambda *words: seen.append(words))
    assert first is TIMED
    assert second == every.Unmeasured("build_tree", "16 requests", "RuntimeError: out of memory")
    assert seen == [("build_tree, 1 request", 0, 2), ("build_tree, 16 requests", 1, 2)]


def allocated(arguments):
    return 1 + sum(map(num_bytes, arguments.values()))


@each_row
def test_bytes_of_a_large_batch_follow_from_those_of_two_small_ones(name):
    sizes = replace(SMALL, batch=40)
    with launching(runs=False):
        expected = allocated(drawn(name, sizes))
    needed = every.memory_of(row_named(name), sizes)
    # How many tokens are accepted is drawn, and some arrays have an entry for each of them.
    assert needed > 0.95 * expected - 50 * sizes.batch
    # On a device what a call allocates besides, and what drawing its inputs does, is counted too.
    assert needed < 1.05 * expected + 50 * sizes.batch or DEVICE.type == "cuda"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_rows_are_timed_on_a_gpu():
    machine = every.measure_machine()
    assert 0.5 < machine.launch_us < 10
    assert 1e11 < machine.copy_bandwidth < 2e13
    for name, num_inputs in (("build_tree", 1), ("verify_tree_greedy_from_logits bf16", every.CALLS_PER_GRAPH)):
        timed = every.measure(every.work_of(row_named(name), EngineSizes(1)), machine)
        assert timed.low_us <= timed.median_us <= timed.high_us
        assert timed.num_inputs == num_inputs
        assert timed.times_floor > 0.5
