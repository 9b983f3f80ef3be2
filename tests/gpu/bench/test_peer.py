from dataclasses import replace

import pytest
import torch

from specsim import gpu
from specsim.conformance.backend import load
from specsim.conformance.limits import NO_LIMITS
from specsim.gpu.bench import every
from specsim.gpu.bench.every import Machine, Unmeasured
from specsim.gpu.bench.iteration import EngineSizes
from specsim.gpu.bench.peer import declines, find_difference, taken
from specsim.gpu.bench.plain import PLAIN
from specsim.gpu.bench.row import inputs_of
from specsim.gpu.bench.rows import ROWS

OURS = load("specsim.gpu")
SMALL = {"vocab": 2500, "draft_vocab": 300, "hidden": 16, "num_layers": 2, "length": 70, "kv_entry": (2, 8)}


def sizes(batch=2):
    return EngineSizes(batch, **SMALL, state=(2, 8), state_layers=2)


def row_of(operation):
    return next(row for row in ROWS if row.operation == operation)


def drawn(operation):
    torch.manual_seed(2)
    return inputs_of(row_of(operation), sizes())


def peer(operation, function, **limits):
    """Return ours with another function of one operation, named ``theirs``."""
    changed = OURS.with_function(operation, function, "theirs")
    return replace(changed, limits=replace(NO_LIMITS, **limits))


def copies(arguments):
    return {name: one.clone() if isinstance(one, torch.Tensor) else one for name, one in arguments.items()}


@pytest.mark.parametrize("operation", ["fill_bonus_tokens", "move_kv_cache", "commit_output_tokens", "tree_attention"])
def test_ours_agree_with_ours_and_leave_arguments_as_they_are(operation):
    arguments = drawn(operation)
    before = {
        name: [one.clone() for one in value] if isinstance(value, list | tuple) else value
        for name, value in copies(arguments).items()
    }
    assert find_difference(OURS, operation, arguments) is None
    for name, value in before.items():
        ones, others = ([value], [arguments[name]]) if isinstance(value, torch.Tensor) else (value, arguments[name])
        if isinstance(value, list | torch.Tensor):
            assert all(map(torch.equal, ones, others)), name


def test_the_first_entry_that_differs_is_named():
    def other(**arguments):
        bonus = gpu.fill_bonus_tokens(**arguments)
        bonus[1] = 7
        return bonus

    arguments = drawn("fill_bonus_tokens")
    expected = int(gpu.fill_bonus_tokens(**arguments)[1])
    got = find_difference(peer("fill_bonus_tokens", other), "fill_bonus_tokens", arguments)
    assert got == f"bonus_tokens[1] = 7, but should be {expected}"


def test_entries_without_meaning_may_differ():
    def other(values, accept_index):
        compacted = gpu.compact_accepted_to_front(values, accept_index)
        compacted[-1] = 5  # Of sixteen entries a path of six fills no more than six.
        return compacted

    operation = "compact_accepted_to_front"
    assert find_difference(peer(operation, other), operation, drawn(operation)) is None


def test_probabilities_may_differ_by_rounding_and_by_no_more():
    def by(factor):
        return peer(operation, lambda **given: gpu.target_probabilities(**given) * factor)

    operation = "target_probabilities"
    arguments = drawn(operation)
    assert find_difference(by(1 + 2**-22), operation, arguments) is None
    assert "but should be" in find_difference(by(1.001), operation, arguments)


def test_what_is_written_is_compared():
    operation = "commit_output_tokens"
    nothing = peer(operation, lambda **arguments: None)
    assert find_difference(nothing, operation, drawn(operation)).startswith("token_counts[")


def test_scratch_memory_need_not_be_written():
    operation = "tree_speculative_sampling_target_only"

    def other(**arguments):
        scratch = arguments["draft_probs"].clone()
        outputs = gpu.tree_speculative_sampling_target_only(**arguments)
        arguments["draft_probs"].copy_(scratch)
        return outputs

    arguments = drawn(operation)
    assert find_difference(peer(operation, other, writes_scratch=False), operation, arguments) is None
    assert find_difference(peer(operation, other), operation, arguments).startswith("draft_probs[")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda **arguments: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda **arguments: (1, 2), "TypeError: 2 arrays were returned, but should be 1"),
        (lambda wrong: wrong, "TypeError: "),
        (
            lambda **arguments: gpu.fill_bonus_tokens(**arguments).short(),
            "bonus_tokens = int16 [2], but should be int32 [2]",
        ),
        (lambda **arguments: 3, "bonus_tokens = int, but should be int32 [2]"),
        (lambda **arguments: None, "bonus_tokens = nothing, but should be int32 [2]"),
    ],
)
def test_a_function_that_returns_something_else_is_named(function, words):
    got = find_difference(peer("fill_bonus_tokens", function), "fill_bonus_tokens", drawn("fill_bonus_tokens"))
    assert got.startswith(words)


def test_arguments_are_plain_blocks_where_a_peer_needs_them():
    arguments = drawn("verify_tree_greedy") | {"candidates": torch.zeros((4, 6)).long()[:, ::2]}
    assert taken(OURS, arguments)["candidates"] is arguments["candidates"]
    blocks = taken(peer("verify_tree_greedy", None, is_contiguous=True), arguments)
    assert blocks["candidates"].is_contiguous()
    assert blocks["num_steps"] == arguments["num_steps"]


def test_what_a_peer_declares_not_to_take_is_declined():
    arguments = drawn("verify_tree_greedy")
    few = peer("verify_tree_greedy", None, values={"verify_tree_greedy": {"request": range(1, 2)}})
    assert declines(few, "verify_tree_greedy", arguments)
    assert not declines(OURS, "verify_tree_greedy", arguments)


@pytest.fixture
def no_clock(monkeypatch):
    """Let every call take as many microseconds as its function says, 1 where it says none; return the calls."""
    calls = []

    def replayed(function, inputs, calls_of_graph, replays, before=None):
        calls.append((function, inputs))
        return [getattr(function, "us", 1.0)] * replays

    monkeypatch.setattr(every, "replayed", replayed)
    monkeypatch.setattr(every, "time_of", lambda launch: 10.0)
    monkeypatch.setattr(every, "repeated", lambda launch, repeats, before=None: [9.0] * repeats)
    return calls


def measured(operation, beside, batches=(1, 2)):
    works = [every.work_of(row_of(operation), sizes(batch)) for batch in batches]
    return list(every.measure_every(Machine(), works, peer=beside))


def test_a_peer_is_timed_on_the_inputs_of_ours(no_clock):
    def other(**arguments):
        return gpu.fill_bonus_tokens(**arguments)

    other.us = 3.0
    first, second = measured("fill_bonus_tokens", peer("fill_bonus_tokens", other))
    assert (first.median_us, first.peer_us, second.peer_times_ours) == (1.0, 3.0, 3.0)
    (ours, given), (line, _), (theirs, taken_there), *_ = no_clock
    assert line is PLAIN["fill_bonus_tokens", ""]
    assert (ours, theirs) == (gpu.fill_bonus_tokens, other)
    assert all(one[name] is there[name] for one, there in zip(given, taken_there, strict=True) for name in one)


def test_an_operation_that_differs_at_one_batch_is_timed_at_none(no_clock):
    def other(**arguments):
        bonus = gpu.fill_bonus_tokens(**arguments)
        return bonus + (len(bonus) - 1)

    (lost,) = measured("fill_bonus_tokens", peer("fill_bonus_tokens", other))
    assert isinstance(lost, Unmeasured)
    assert (lost.operation, lost.shape) == ("fill_bonus_tokens", "2 requests, V 2,500, length 70")
    assert lost.error.startswith("theirs: bonus_tokens[0] = ")
    assert no_clock == []


def test_rows_that_a_peer_declines_or_lacks_are_timed_without_it(no_clock):
    few = peer("verify_tree_greedy", gpu.verify_tree_greedy, values={"verify_tree_greedy": {"request": range(1, 2)}})
    assert [one.peer_us for one in measured("verify_tree_greedy", few)] == [1.0, None]
    lacking = replace(OURS, functions={"fill_bonus_tokens": gpu.fill_bonus_tokens})
    assert [one.peer_us for one in measured("verify_tree_greedy", lacking, (1,))] == [None]


@pytest.mark.parametrize("num_inputs", [1, 2])
def test_a_single_launch_begins_on_an_idle_device(no_clock, monkeypatch, num_inputs):
    events = []

    def repeated(launch, repeats, before):
        before()
        events.append("launch")
        return [9.0]

    (work,) = (every.work_of(row, sizes()) for row in every.rows_of(["fill_bonus_tokens"]))
    num_bytes, _ = every.call_once(work.operation, work.first_inputs(), work.needed)
    monkeypatch.setattr(every, "CACHED_BYTES", 0)
    monkeypatch.setattr(every, "CACHE_BYTES", num_inputs * num_bytes)
    monkeypatch.setattr(every, "repeated", repeated)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("idle"))
    monkeypatch.setattr(torch.Tensor, "zero_", lambda tensor: events.append("flush"))
    timed = every.measure(work, Machine())
    assert timed.num_inputs == num_inputs
    assert events == ["flush"] * (num_inputs - 1) + ["idle", "launch"]


@pytest.mark.parametrize(("operation", "kind"), PLAIN)
def test_one_line_of_torch_computes_what_the_operation_does(operation, kind):
    (row,) = (row for row in ROWS if (row.operation, row.kind) == (operation, kind))
    torch.manual_seed(3)
    assert find_difference(peer(operation, PLAIN[operation, kind]), operation, inputs_of(row, sizes(3))) is None


def test_a_row_has_its_single_launches_and_its_line_of_torch(no_clock):
    works = [every.work_of(row, sizes()) for row in every.rows_of(["target_probabilities"])]
    alone, filtered = every.measure_every(Machine(), works)
    assert (alone.median_us, alone.eager_us, alone.torch_us) == (1.0, 9.0, 1.0)
    assert (filtered.eager_us, filtered.torch_us, filtered.peer_us) == (9.0, None, None)
    assert alone.share_of_copy == pytest.approx(alone.num_bytes / 3.0e12 * 1e6)
