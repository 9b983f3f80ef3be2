"""Calls by attribute and by name: what a loaded backend takes, returns and refuses."""

import copy
import subprocess
import sys

import numpy as np
import pytest

import specsim
from specsim import reference
from specsim.conformance.backend import Backend, load
from specsim.conformance.catalogue import CATALOGUE, Kind, find_entry, names_of, record_of
from specsim.conformance.completed import Completed
from specsim.conformance.host_protocol import HostFunctions
from specsim.conformance.stub import STUB, host_stub
from specsim.operations import MODEL_TABLE, TABLE
from specsim.operations.outputs import FastTopkOutputs, VerifyTreeGreedyOutputs
from specsim.operations.without_coins import WITHOUT_COINS
from specsim.rejection import Reason, SpecRejection

ORACLE = load("specsim.reference")
BACKENDS = [ORACLE, load("specsim.gpu"), Completed(load("specsim.gpu"), ORACLE)]
NAMES = ["reference", "gpu", "completed"]


def tree():
    return {
        "candidates": np.array([[7, 3, 4]]),
        "retrieve_index": np.array([[0, 1, 2]]),
        "retrieve_next_token": np.array([[1, -1, -1]]),
        "retrieve_next_sibling": np.array([[-1, 2, -1]]),
        "target_predict": np.array([[4, 9, 5]]),
        "num_steps": 1,
    }


def sampled_tree():
    """Return a call in which the coin equals the mass, so that strictness decides."""
    return {
        "candidates": np.array([[0, 1]]),
        "retrieve_index": np.array([[0, 1]]),
        "retrieve_next_token": np.array([[1, -1]]),
        "retrieve_next_sibling": np.array([[-1, -1]]),
        "uniform_samples": np.array([[0.5, 0.5]], dtype=np.float32),
        "uniform_samples_for_final_sampling": np.array([0.25], dtype=np.float32),
        "target_probs": np.array([[[0.5, 0.5], [0.5, 0.5]]], dtype=np.float32),
        "draft_probs": np.zeros((1, 2, 2), dtype=np.float32),
        "threshold_single": np.ones(1, dtype=np.float32),
        "threshold_acc": np.ones(1, dtype=np.float32),
        "num_steps": 1,
    }


def reason_of(call, *positional, **named):
    with pytest.raises(SpecRejection) as caught:
        call(*positional, **named)
    return caught.value.reason, caught.value.what, caught.value.expected


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
def test_an_operation_is_called_by_position_or_by_name_and_returns_a_named_tuple(backend):
    arguments = tree()
    by_name = backend.verify_tree_greedy(**arguments)
    by_position = backend.verify_tree_greedy(*arguments.values())
    mixed = backend.verify_tree_greedy(*list(arguments.values())[:3], **dict(list(arguments.items())[3:]))
    for verified in (by_name, by_position, mixed, backend.call("verify_tree_greedy", **arguments)):
        assert type(verified) is VerifyTreeGreedyOutputs
        assert verified.accept_index.tolist() == [[0, 2]]
        predict, _, num_accepted_drafts = verified
        assert (predict[[0, 2]].tolist(), num_accepted_drafts.tolist()) == ([4, 5], [1])
        assert verified._replace(predict=None).predict is None


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
def test_one_output_is_the_bare_array_and_none_is_none(backend):
    assert backend.argmax_target_predict(np.array([[1.0, 3.0]], dtype=np.float32)).tolist() == [1]
    pool = np.arange(4, dtype=np.int64)
    assert backend.move_kv_cache([pool], np.array([1]), np.array([2])) is None
    assert pool.tolist() == [0, 2, 2, 3]


def test_the_reference_returns_what_a_backend_returns():
    assert type(reference.verify_tree_greedy(**tree())) is VerifyTreeGreedyOutputs
    assert type(reference.fast_topk(np.ones((1, 2), dtype=np.float32), 1)) is FastTopkOutputs


def test_a_plain_tuple_is_named():
    def plain(values, k):
        return tuple(reference.fast_topk(values, k))

    backend = ORACLE.with_function("fast_topk", plain, "plain")
    assert type(backend.fast_topk(np.ones((1, 2), dtype=np.float32), 1)) is FastTopkOutputs


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
def test_defaults_are_those_of_the_table(backend):
    assert backend.tree_speculative_sampling_target_only(**sampled_tree()).num_accepted_drafts.tolist() == [0]
    lenient = backend.tree_speculative_sampling_target_only(**sampled_tree(), strict=False)
    assert lenient.num_accepted_drafts.tolist() == [1]


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
def test_a_name_that_is_no_parameter_is_refused(backend):
    call = backend.tree_speculative_sampling_target_only
    assert reason_of(call, **sampled_tree(), is_strict=False) == (Reason.UNKNOWN_ARGUMENT, "is_strict", "strict")


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
def test_calls_that_fit_no_signature_are_refused(backend):
    arguments = tree()
    missing = {name: value for name, value in arguments.items() if name != "target_predict"}
    surplus = (Reason.UNKNOWN_ARGUMENT, "call of verify_tree_greedy", "at most 6")
    assert reason_of(backend.verify_tree_greedy, *arguments.values(), 1) == surplus
    twice = (Reason.UNKNOWN_ARGUMENT, "num_steps", "once")
    assert reason_of(backend.verify_tree_greedy, *arguments.values(), num_steps=1) == twice
    absent = (Reason.MISSING_ARGUMENT, "target_predict", "an array")
    assert reason_of(backend.verify_tree_greedy, **missing) == absent
    assert reason_of(backend.fast_topk, np.ones((1, 2))) == (Reason.MISSING_ARGUMENT, "k", "a number")


def test_an_optional_array_may_be_left_out_by_name_wherever_it_stands():
    arguments = {
        "draft_tokens": np.array([1]),
        "cu_num_drafts": np.array([0, 1], dtype=np.int32),
        "uniform_samples": np.array([0.1], dtype=np.float32),
        "uniform_samples_for_final_sampling": np.array([0.1], dtype=np.float32),
        "target_probs": np.array([[0.5, 0.5], [0.5, 0.5]], dtype=np.float32),
        "max_num_drafts": 1,
    }
    left_out = ORACLE.call("chain_speculative_sampling", **arguments)
    given = ORACLE.call("chain_speculative_sampling", **arguments, draft_probs=None)
    assert left_out.output_tokens.tolist() == given.output_tokens.tolist()


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
def test_scalars_of_numpy_are_scalars(backend):
    values = np.array([[1.0, 3.0]], dtype=np.float32)
    assert backend.call("fast_topk", values=values, k=np.int64(1)).topk_index.tolist() == [[1]]
    assert backend.fast_topk(values, np.uint8(1)).topk_index.tolist() == [[1]]
    for strict, accepted in ((np.True_, 0), (np.False_, 1), (np.int32(0), 1), (True, 0), (0, 1)):
        verified = backend.tree_speculative_sampling_target_only(**sampled_tree(), strict=strict)
        assert verified.num_accepted_drafts.tolist() == [accepted], strict


def test_an_implementation_gets_scalars_of_python():
    seen = []

    def record(values, k):
        seen.append(k)
        return reference.fast_topk(values, int(k))

    backend = ORACLE.with_function("fast_topk", record, "recording")
    for k in (np.int64(1), np.uint8(1), np.True_, 1):
        backend.fast_topk(np.ones((1, 2), dtype=np.float32), k)
    assert [type(k) for k in seen] == [int, int, bool, int]


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
def test_what_could_not_all_be_written_is_refused_before_anything_is(backend):
    first, second = np.arange(4), np.arange(4)
    second.flags.writeable = False
    refused = reason_of(backend.move_kv_cache, [first, second], np.array([1]), np.array([2]))
    assert refused == (Reason.READ_ONLY, "kv_buffers[1]", "writable")
    shared = reason_of(backend.move_kv_cache, [first, first[1:]], np.array([1]), np.array([2]))
    assert shared == (Reason.SHARED_MEMORY, "kv_buffers[1]", "in memory of its own")
    assert first.tolist() == second.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
def test_an_unknown_name_says_what_is_near_it(backend):
    guesses = "verify_tree_greedy or verify_tree_greedy_from_logits or verify_chain_greedy"
    near = (Reason.UNKNOWN_NAME, "name of the callable", guesses)
    assert reason_of(backend.call, "verify_tree_gredy", **tree()) == near
    with pytest.raises(AttributeError, match="has no attribute verify_tree_gredy; did you mean verify_tree_greedy or "):
        _ = backend.verify_tree_gredy
    with pytest.raises(AttributeError, match=r"has no attribute zzz$"):
        _ = backend.zzz


def test_a_host_function_is_no_operation():
    reason = (Reason.UNKNOWN_NAME, "name of the operation", "an operation")
    assert reason_of(ORACLE.run, "count_verify", {}) == reason


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
def test_host_functions_go_through_the_same_door(backend):
    assert backend.drafts_per_round(4, 3) == backend.call("drafts_per_round", 4, 3) == 3
    assert backend.host("drafts_per_round")(4, 3) == 3


def test_what_a_backend_lacks_is_not_implemented():
    nothing = Backend("nothing", {}, ORACLE.arrays)
    for name in ("build_tree", "find_stop", *WITHOUT_COINS):
        with pytest.raises(NotImplementedError, match=f"nothing does not define {name}"):
            getattr(nothing, name)()


def test_the_second_supplies_what_the_first_lacks():
    def constant(values, k):
        return reference.fast_topk(values, k)._replace(topk_index=np.full((len(values), k), 9, dtype=np.int64))

    completed = Completed(Backend("one", {"fast_topk": constant}, ORACLE.arrays), ORACLE)
    assert completed.fast_topk(np.ones((1, 2), dtype=np.float32), 1).topk_index.tolist() == [[9]]
    assert completed.verify_tree_greedy(**tree()).num_accepted_drafts.tolist() == [1]
    assert completed.has("build_tree") and not completed.has(next(iter(WITHOUT_COINS)))


def test_a_backend_is_a_value():
    assert copy.copy(ORACLE) == ORACLE
    assert not hasattr(ORACLE, "__array_interface__")
    assert {"verify_tree_greedy", "find_stop", "functions"} <= set(dir(ORACLE))


def test_names_of_callables_and_of_a_backends_own_members_do_not_clash():
    own = {name for one in (Backend, Completed) for name in (*vars(one), *one.__dataclass_fields__)}
    assert not own & CATALOGUE.keys()


def test_the_catalogue_has_every_callable_once_with_its_kind():
    assert names_of(Kind.OPERATION) == tuple(TABLE)
    assert names_of(Kind.MODEL_OPERATION) == tuple(MODEL_TABLE)
    assert names_of(Kind.SAMPLER_WITHOUT_COINS) == tuple(WITHOUT_COINS)
    assert len(CATALOGUE) == sum(len(names_of(kind)) for kind in Kind)
    for name, entry in CATALOGUE.items():
        is_host = entry.kind is Kind.HOST_FUNCTION
        is_part = entry.kind is Kind.PART
        assert (entry.name, entry.function is not None, entry.record is None) == (name, is_host, is_host or is_part)
        assert (entry.home is not None, entry.on_host is not None) == (is_part, is_host or is_part)
        assert entry.source.startswith("semantics") and entry.group, name
        assert find_entry(name) is entry
    assert record_of("build_tree") is TABLE["build_tree"]


def test_the_stub_of_host_functions_is_that_of_the_catalogue():
    assert STUB.read_text(encoding="utf-8") == host_stub(), "out of date: python -m specsim.conformance.stub"
    assert vars(HostFunctions).keys().isdisjoint(CATALOGUE), "methods of the class would hide an implementation's own"


def test_load_is_a_name_of_the_package_and_costs_nothing_until_it_is_used():
    assert specsim.load is load
    with pytest.raises(AttributeError, match="module 'specsim' has no attribute 'lode'"):
        _ = specsim.lode
    program = (
        "import sys, specsim\n"
        "assert not {'numpy', 'click', 'specsim.operations'} & set(sys.modules)\n"
        "from specsim import load\n"
        "assert load('specsim.reference').fill_bonus_tokens.func"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
