"""Calls that equal an earlier one: the same outputs and the same refusals, by what was recorded."""

from dataclasses import replace

import pytest
import torch

from specsim import Reason, SpecRejection, gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching import calls
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.launching.calls import known_of, launch_into
from specsim.gpu.launching.examples import SMALL, example
from specsim.gpu.launching.mode import HERE, launching
from specsim.gpu.switches import debugging, poisoned
from specsim.operations import RECORDS


@pytest.fixture(autouse=True)
def nothing_is_known():
    known_of.cache_clear()


def num_replays(name):
    return len(known_of(name).replays)


def entries_of(value):
    if isinstance(value, tuple | list):
        return [entries_of(one) for one in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def arguments_of(name):
    """Return an example in which every token is one of a request: of others forwards say nothing."""
    arguments = example(name, SMALL, DEVICE)
    if "cu_seqlens_q" in arguments:
        arguments["cu_seqlens_q"][-1] = arguments["input_ids"].numel()
    return arguments


def tensor(*rows, dtype=torch.int64):
    return torch.tensor(rows, dtype=dtype, device=DEVICE)


@pytest.mark.parametrize("name", RECORDS)
def test_a_call_is_recorded_when_it_is_met_again_and_ends_as_before(name):
    function = vars(gpu)[name]
    seen = []
    for _ in range(4):
        arguments = arguments_of(name)
        with poisoned(0x5A):
            returned = function(**arguments)
        seen.append((entries_of(returned), entries_of([arguments[one] for one in RECORDS[name].contract.writes])))
    assert num_replays(name) == 1
    assert seen[1:] == seen[:1] * 3


def test_what_two_calls_return_shares_no_memory():
    arguments = example("verify_tree_greedy", SMALL, DEVICE)
    outputs = [output for _ in range(4) for output in gpu.verify_tree_greedy(**arguments)]
    assert len({output.untyped_storage().data_ptr() for output in outputs}) == len(outputs)


def test_entries_that_differ_make_no_other_call():
    table = tensor(10, 11, 12, 13)
    for index in ([[0, 1]], [[2, 3]], [[3, 0]], [[1, 9]]):
        expected = [[index[0][0] + 10, index[0][1] + 10 if index[0][1] < 4 else 0]]
        with debugging(False):
            assert gpu.map_hot_tokens(tensor(*index), table).tolist() == expected
    assert num_replays("map_hot_tokens") == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda index, table: (index[:, :1], table),
        lambda index, table: (index.T.contiguous().T, table),
        lambda index, table: (index, torch.cat([table, table])[:4:2]),
        lambda index, table: (index, torch.cat([table[:1], table])[1:]),
        lambda index, table: (torch.cat([index, index])[1:], table),
    ],
    ids=["another size", "other strides", "not contiguous", "another alignment", "more rows"],
)
def test_sizes_strides_and_alignment_make_another_call(other):
    table = tensor(10, 11, 12, 13)
    index = tensor([0, 1], [1, 0])
    for _ in range(3):
        assert gpu.map_hot_tokens(index, table).tolist() == [[10, 11], [11, 10]]
    for _ in range(4):
        given, ids = other(index, table)
        assert gpu.map_hot_tokens(given, ids).tolist() == ids[given].tolist()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"num_steps": -1}, Reason.SCALAR_OUT_OF_RANGE),
        ({"num_steps": True}, Reason.MISSING_ARGUMENT),
        ({"num_steps": None}, Reason.MISSING_ARGUMENT),
        ({"candidates": None}, Reason.MISSING_ARGUMENT),
        ({"candidates": [[0]]}, Reason.MISSING_ARGUMENT),
        ({"target_predict": torch.zeros(1, 8, dtype=torch.int16, device=DEVICE)}, Reason.WRONG_DTYPE),
        ({"target_predict": torch.zeros(1, 7, dtype=torch.int64, device=DEVICE)}, Reason.WRONG_SHAPE),
        ({"target_predict": torch.zeros(1, 8, dtype=torch.int64, device="meta")}, Reason.WRONG_DEVICE),
    ],
)
def test_what_is_refused_at_first_is_refused_beside_a_recorded_call(changed, reason):
    arguments = {**example("verify_tree_greedy", SMALL, DEVICE), "num_steps": 1}
    for _ in range(3):
        gpu.verify_tree_greedy(**arguments)
    for _ in range(3):
        with pytest.raises(SpecRejection) as caught:
            gpu.verify_tree_greedy(**{**arguments, **changed})
        assert caught.value.reason is reason


def test_a_written_argument_that_shares_memory_is_refused_at_any_time():
    rows = torch.zeros((2, 8), dtype=torch.int32, device=DEVICE)
    ranges = [tensor(0, 1), tensor(0, 0), tensor(2, 2)]
    for _ in range(3):
        gpu.assign_req_to_token_pool(ranges[0], rows, *ranges[1:], tensor(5, 6, 7, 8))
    assert rows.tolist() == [[5, 6, *[0] * 6], [7, 8, *[0] * 6]]
    assert num_replays("assign_req_to_token_pool") == 1
    inside = rows.view(torch.int64).view(-1)[:4]
    before = rows.tolist()
    with pytest.raises(SpecRejection) as caught:
        gpu.assign_req_to_token_pool(ranges[0], rows, *ranges[1:], inside)
    assert caught.value.reason is Reason.SHARED_MEMORY
    assert rows.tolist() == before


def test_columns_of_one_table_are_no_shared_memory():
    table = torch.zeros((2, 16), dtype=torch.int32, device=DEVICE)
    rows, slots = table[:, :8], tensor(5, 6, 7, 8)
    for _ in range(4):
        gpu.assign_req_to_token_pool(tensor(0, 1), rows, tensor(0, 0), tensor(2, 2), slots)
    assert table.tolist() == [[5, 6, *[0] * 14], [7, 8, *[0] * 14]]


@pytest.mark.parametrize("kind", [list, tuple, gpu.KVBuffers])
def test_lists_of_buffers_are_written(kind):
    arguments = arguments_of("target_forward")
    expected = None
    for _ in range(4):
        buffers = [torch.zeros_like(one) for one in arguments["kv_buffers"]]
        returned = gpu.target_forward(**{**arguments, "kv_buffers": kind(buffers)})
        ended = entries_of(returned), entries_of(buffers)
        assert expected in (None, ended)
        expected = ended
    assert num_replays("target_forward") == 1


@pytest.mark.parametrize("kind", [list, gpu.KVBuffers])
def test_a_buffer_that_is_written_and_read_is_refused(kind):
    arguments = example("target_forward", SMALL, DEVICE)
    buffers = [torch.zeros_like(one) for one in arguments["kv_buffers"]]
    for _ in range(3):
        gpu.target_forward(**{**arguments, "kv_buffers": kind(buffers)})
    shared = buffers[-1].view(-1)[: arguments["input_ids"].numel()]
    with pytest.raises(SpecRejection) as caught:
        gpu.target_forward(**{**arguments, "kv_buffers": kind(buffers), "input_ids": shared})
    assert caught.value.reason is Reason.SHARED_MEMORY
    with pytest.raises(SpecRejection) as caught:
        gpu.target_forward(**{**arguments, "kv_buffers": kind([*buffers[:-1], buffers[0]])})
    assert caught.value.reason is Reason.SHARED_MEMORY


def test_entries_of_a_recorded_call_are_checked_while_debugging():
    table = tensor(10, 11, 12, 13)
    with debugging(False):
        for _ in range(3):
            gpu.map_hot_tokens(tensor([0, 7]), table)
    assert num_replays("map_hot_tokens") == 1
    with debugging(), pytest.raises(SpecRejection) as caught:
        gpu.map_hot_tokens(tensor([0, 7]), table)
    assert caught.value.reason is Reason.TOKEN_OUT_OF_RANGE


def test_an_observer_sees_the_launches_of_a_recorded_call():
    arguments = example("verify_tree_greedy", SMALL, DEVICE)
    for _ in range(3):
        gpu.verify_tree_greedy(**arguments)
    seen = []
    with launching(seen.append):
        gpu.verify_tree_greedy(**arguments)
    (observed,) = seen
    assert observed.inputs["candidates"] is arguments["candidates"]


def test_a_call_whose_work_is_cut_in_another_way_is_described_anew():
    arguments = example("fast_topk", {**SMALL, "k": 32, "column": 64}, DEVICE)
    for _ in range(3):
        gpu.fast_topk(**arguments)
    assert num_replays("fast_topk") == 1
    for sorts in (True, False):
        seen = []
        with launching(seen.append, blocks=replace(HERE, sorts=sorts)):
            gpu.fast_topk(**arguments)
        assert [one.plan.tunables["ONE_BY_ONE"] for one in seen] == [not sorts]
    assert num_replays("fast_topk") == 1


def test_inference_mode_makes_no_difference():
    arguments = example("verify_tree_greedy_from_logits", SMALL, DEVICE)
    expected = entries_of(gpu.verify_tree_greedy_from_logits(**arguments))
    known_of.cache_clear()
    with torch.inference_mode():
        for _ in range(4):
            assert entries_of(gpu.verify_tree_greedy_from_logits(**arguments)) == expected
    assert num_replays("verify_tree_greedy_from_logits") == 1


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(calls, "MOST_MET", 4)
    monkeypatch.setattr(calls, "MOST_REPLAYS", 2)
    for size in range(1, 10):
        for _ in range(3):
            gpu.map_hot_tokens(tensor([0] * size), tensor(3))
    assert 0 < num_replays("map_hot_tokens") <= 2


def test_outputs_that_are_given_are_launched_into():
    arguments = example("map_hot_tokens", SMALL, DEVICE)
    call = prepare("map_hot_tokens", arguments)
    given = call._replace(outputs=torch.full_like(call.outputs, -5))
    assert launch_into(given) is given.outputs
    assert (given.outputs >= 0).all()


def test_an_axis_of_one_entry_may_have_any_stride():
    table, index = tensor(10, 11, 12, 13), tensor([1, 3])
    for given in (index, index, index, index.as_strided((1, 2), (1, 1)), index.as_strided((1, 2), (100, 1))):
        assert gpu.map_hot_tokens(given, table).tolist() == [[11, 13]]
    assert num_replays("map_hot_tokens") == 1


@pytest.mark.parametrize("allocators", [{}, {"cpu": "_empty_strided_cpu", "cuda": "_empty_strided_cuda"}])
def test_outputs_are_allocated_with_or_without_the_short_way(allocators, monkeypatch):
    monkeypatch.setattr("specsim.gpu.launching.allocation._ALLOCATORS", allocators)
    arguments = example("build_tree", SMALL, DEVICE)
    first = gpu.build_tree(**arguments)
    for _ in range(3):
        again = gpu.build_tree(**arguments)
        forms = [(one.shape, one.stride(), one.dtype, one.device) for one in again]
        assert forms == [(one.shape, one.stride(), one.dtype, one.device) for one in first]


def test_buffers_are_moved_by_a_table_that_is_built_in_the_call_or_before():
    slots = tensor(3), tensor(1)
    for kind in (list, gpu.KVBuffers):
        for entry in range(4):
            buffers = [torch.arange(8, device=DEVICE).view(4, 2) + entry for _ in range(2)]
            gpu.move_kv_cache(kind(buffers), *slots)
            assert [one[3].tolist() for one in buffers] == [[2 + entry, 3 + entry]] * 2
    assert num_replays("move_kv_cache") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda tensors: [],
        lambda tensors: tensors[0],
        lambda tensors: [*tensors[:-1], None],
        lambda tensors: [*tensors[:-1], tensors[-1].to("meta")],
        lambda tensors: [*tensors[:-1], tensors[-1].int()],
    ],
    ids=["empty", "no list", "not there", "elsewhere", "another type"],
)
def test_a_list_that_is_refused_at_first_is_refused_beside_a_recorded_call(wrong):
    tensors = [tensor([3, 4]).T for _ in range(3)]
    for _ in range(4):
        assert gpu.organize_chain_draft_results(tensors).draft_tokens.tolist() == [[3, 3, 3], [4, 4, 4]]
    with pytest.raises(SpecRejection):
        gpu.organize_chain_draft_results(wrong(tensors))
    assert num_replays("organize_chain_draft_results") == 1


def test_lists_of_other_strides_and_lengths_are_other_calls():
    wide = tensor([3, 7, 5], [4, 8, 6])
    for count in (1, 2, 3, 1, 2, 3, 1, 2, 3):
        for column in (0, 2):
            tokens = [wide[:, column : column + 1]] * count
            expected = wide[:, column : column + 1].expand(-1, count).tolist()
            assert gpu.organize_chain_draft_results(tokens).draft_tokens.tolist() == expected
            copied = [one.contiguous() for one in tokens]
            assert gpu.organize_chain_draft_results(copied).draft_tokens.tolist() == expected
