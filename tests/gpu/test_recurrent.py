import numpy as np
import pytest
import torch

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.mode import launching
from specsim.rejection import Reason

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU captures graphs")
FORMS = (("float32", (2, 8)), ("float64", (4,)), ("int8", (3,)), ("float16", ()), ("bool", (5,)))


def slots(*numbers):
    return np.array(numbers, dtype=np.int64)


def components(num_states, num_places, num_nodes, *forms):
    """Return state and step buffers, one a (dtype, trailing shape)."""
    source = np.random.default_rng(num_states)

    def buffers(*leading):
        return [source.integers(0, 120, (*leading, *trailing)).astype(dtype) for dtype, trailing in forms]

    return {"state_buffers": buffers(num_states), "step_buffers": buffers(num_places, num_nodes)}


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("interval", [0, 6, 8, 64])
def test_steps_of_chains_and_trees(agrees, dtype, interval):
    paths = [[0, 2, 4, -1], [6, 7, 9, 11], [12, -1, -1, -1], [18, -1, -1, -1], [24, 29, -1, -1]]
    agrees(
        "get_recurrent_steps",
        accept_index=np.array(paths, np.int32),
        num_accepted_tokens=np.array([3, 4, 1, 1, 2], np.int32),
        seq_lens=np.array([14, 15, 15, 9, 2**31 - 3], dtype),
        num_draft_tokens=6,
        interval=interval,
    )


@pytest.mark.parametrize("num_requests", [1, 127, 129])
def test_steps_of_many_requests(agrees, num_requests):
    counts = np.arange(num_requests) % 3 + 1
    place = np.arange(3)
    paths = np.where(place < counts[:, None], place + 3 * np.arange(num_requests)[:, None], -1)
    agrees(
        "get_recurrent_steps",
        accept_index=paths.astype(np.int32),
        num_accepted_tokens=counts.astype(np.int32),
        seq_lens=np.arange(num_requests),
        num_draft_tokens=3,
        interval=4,
    )


@pytest.mark.parametrize("forms", [FORMS, FORMS[:1], (("int8", (0,)), ("float32", (1,))), ()])
def test_states_and_snapshots_are_copied(agrees, forms):
    agrees(
        "commit_recurrent_states",
        **components(9, 4, 5, *forms),
        state_slots=slots(7, -1, 0),
        commit_step=slots(4, 2, 1),
        snapshot_slots=slots(3, 8, 5),
        snapshot_step=slots(0, 3, -1),
    )


@pytest.mark.parametrize(("num_requests", "width"), [(70, 3), (2, 5000)])
def test_many_requests_and_large_states(agrees, num_requests, width):
    order = np.random.default_rng(width).permutation(2 * num_requests) + 1
    agrees(
        "commit_recurrent_states",
        **components(2 * num_requests + 1, num_requests, 2, ("float32", (width,)), ("int8", (3,))),
        state_slots=order[:num_requests],
        commit_step=np.arange(num_requests) % 2,
        snapshot_slots=order[num_requests:],
        snapshot_step=np.arange(num_requests) % 3 - 1,
    )


def on_device(arguments):
    return {
        name: [torch.from_numpy(one).to(DEVICE) for one in value]
        if isinstance(value, list)
        else torch.from_numpy(value).to(DEVICE)
        for name, value in arguments.items()
    }


CASE = {
    "state_slots": slots(7, 1, 2),
    "commit_step": slots(4, 2, 1),
    "snapshot_slots": slots(3, 8, 5),
    "snapshot_step": slots(0, 3, -1),
}


def kept_in_one_launch(arguments):
    """Commit with tables that are there beforehand; return how many kernels that takes."""
    kept = {
        **arguments,
        "state_buffers": gpu.KVBuffers(arguments["state_buffers"]),
        "step_buffers": gpu.KVBuffers.of_steps(arguments["step_buffers"]),
    }
    seen = []
    with launching(seen.append):
        gpu.commit_recurrent_states(**kept)
    return len(seen)


@pytest.mark.parametrize("forms", [FORMS, FORMS[1:2]], ids=["bytes", "aligned"])
def test_kept_tables_give_what_lists_give(forms):
    arguments = {**components(9, 4, 5, *forms), **CASE}
    expected, given = on_device(arguments), on_device(arguments)
    gpu.commit_recurrent_states(**expected)
    assert kept_in_one_launch(given) == 1
    for one, other in zip(given["state_buffers"], expected["state_buffers"], strict=True):
        assert torch.equal(one, other)


def test_words_of_states_may_be_wider_than_those_of_steps():
    arguments = on_device({**components(9, 4, 5, ("float32", (4,))), **CASE})
    odd = torch.zeros(4 * 5 * 4 + 1, device=DEVICE)[1:].view(4, 5, 4)
    odd.copy_(arguments["step_buffers"][0])
    given = {**arguments, "state_buffers": [arguments["state_buffers"][0].clone()], "step_buffers": [odd]}
    gpu.commit_recurrent_states(**arguments)
    assert kept_in_one_launch(given) == 1
    assert torch.equal(given["state_buffers"][0], arguments["state_buffers"][0])


def test_views_of_states_are_written_where_they_lie():
    base = torch.arange(9 * 4 * 6, device=DEVICE).view(9, 4, 6)
    steps = torch.arange(3 * 5 * 3 * 2, device=DEVICE).view(3, 5, 3, 2) + 1000
    expected, given = base.clone(), base.clone()
    for request in range(3):
        for slot, step in (("state_slots", "commit_step"), ("snapshot_slots", "snapshot_step")):
            if CASE[step][request] >= 0:
                view = expected[:, 1:4, ::3]
                view[CASE[slot][request]] = steps[request, CASE[step][request]]
    numbers = on_device(CASE)
    gpu.commit_recurrent_states([given[:, 1:4, ::3]], [steps], **numbers)
    assert torch.equal(given, expected)
    gpu.commit_recurrent_states(gpu.KVBuffers([given[:, 1:4, ::3]]), gpu.KVBuffers.of_steps([steps + 1]), **numbers)
    assert torch.equal(
        given[CASE["state_slots"].tolist(), 1:4, ::3], expected[CASE["state_slots"].tolist(), 1:4, ::3] + 1
    )


def test_two_owners_of_a_state_are_rejected(rejection):
    arguments = {**components(9, 4, 5, *FORMS), **CASE, "snapshot_slots": slots(7, 8, 5)}
    assert rejection("commit_recurrent_states", **arguments) is Reason.DUPLICATE_SLOT


def test_a_snapshot_closer_than_a_verify_reaches_is_rejected(rejection):
    got = rejection(
        "get_recurrent_steps",
        accept_index=np.array([[0]], np.int32),
        num_accepted_tokens=np.array([1], np.int32),
        seq_lens=slots(3),
        num_draft_tokens=6,
        interval=5,
    )
    assert got is Reason.SCALAR_OUT_OF_RANGE


@NEEDS_GPU
def test_a_captured_commit_replays():
    arguments = on_device({**components(9, 4, 5, *FORMS), **CASE})
    expected = [buffer.clone() for buffer in arguments["state_buffers"]]
    kept = {
        **arguments,
        "state_buffers": gpu.KVBuffers(arguments["state_buffers"]),
        "step_buffers": gpu.KVBuffers.of_steps(arguments["step_buffers"]),
    }
    gpu.commit_recurrent_states(**kept)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gpu.commit_recurrent_states(**kept)
    gpu.commit_recurrent_states(**{**arguments, "state_buffers": expected})
    kept["commit_step"].copy_(torch.tensor([1, 0, 3]))
    graph.replay()
    gpu.commit_recurrent_states(**{**arguments, "state_buffers": expected})
    assert all(torch.equal(one, other) for one, other in zip(arguments["state_buffers"], expected, strict=True))
