from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from specsim import reference
from specsim.conformance.backend import Backend, load
from specsim.conformance.catalogue import Kind, names_of
from specsim.conformance.limits import limits_of
from specsim.operations import RECORDS
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import GENERATED, all_properties, group_of, property_named
from specsim.properties.suite.conformance import runner
from specsim.properties.suite.conformance.report import OperationReport, PropertyReport
from specsim.properties.suite.conformance.runner import check
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.conformance.selection import examples_of

ORACLE = load("specsim.reference")


def faulty(operation: str, function: Callable[..., Any]) -> Backend:
    return ORACLE.with_function(operation, function, "faulty")


def verdict_of(name: str, backend: Backend, examples: int = 200) -> tuple[bool, str]:
    one = property_named(name)
    report, failure = run_property(one, backend, 0, examples, is_shrunk=False)
    return report.failed, "" if failure is None else failure.message


def first_token(accept_tokens: np.ndarray, num_accepted_tokens: np.ndarray) -> np.ndarray:
    return accept_tokens[:, 0].copy()


def test_the_reference_conforms_to_itself_but_for_what_only_whole_runs_call() -> None:
    report = check(ORACLE, seed=0, max_examples=3, slow_examples=0)
    assert report.inconclusive_because == ("no example called PaddedModel, Meeting, OneVoiceModel",)
    assert report.failures == ()
    assert all(one.examples and not one.missing for one in report.operations.values())
    assert list(report.operations) == [*RECORDS, *names_of(Kind.HOST_FUNCTION, Kind.PART)]


def test_every_operation_has_the_generated_properties() -> None:
    names = {one.name for one in all_properties()}
    wanted = {f"{group}.{operation}" for group in GENERATED for operation in RECORDS}
    silent = [name for name, operation in RECORDS.items() if not operation.contract.outputs]
    without_outputs = {f"{group}.{name}" for group in ("apart", "given") for name in silent}
    assert wanted - names == without_outputs


def test_agreement_gets_most_examples_of_all_groups() -> None:
    counts: Counter[str] = Counter()
    for one in all_properties():
        counts[group_of(one)] += examples_of(one, 1000)
    assert counts.most_common(1)[0][0] == "agreement"


def test_a_law_of_draft_slots_is_tried_where_no_copies_are_taken() -> None:
    limits = limits_of({"LIMITS": {"assign_draft_cache_locs": {"page_size": (1,), "num_copies": (0,)}}}, "mine")
    law = property_named("draft_cache.beams_read_what_they_wrote")
    report, failure = run_property(law, replace(ORACLE, limits=limits), 0, 8)
    assert (report.examples, report.left_out, failure) == (8, {}, None)


def test_a_fault_is_reported_with_a_small_case() -> None:
    backend = faulty("fill_bonus_tokens", first_token)
    report = check(backend, seed=0, max_examples=100, operations=["fill_bonus_tokens"], slow_examples=0)
    assert report.verdict == "fails"
    assert report.operations["fill_bonus_tokens"].failures == len(report.failures)
    failure = report.failures[0]
    assert (failure.operation, failure.property) == ("fill_bonus_tokens", "agreement.fill_bonus_tokens")
    assert failure.message.startswith("fill_bonus_tokens: bonus_tokens[0] = ")
    assert failure.case is not None
    assert failure.case["accept_tokens"].shape == (1, 2)
    assert failure.case["num_accepted_tokens"].tolist() == [2]
    assert "AssertionError" in failure.error


def test_equal_seeds_find_equal_cases() -> None:
    backend = faulty("fill_bonus_tokens", first_token)
    first, second = (
        check(backend, seed=7, max_examples=50, operations=["fill_bonus_tokens"], slow_examples=0) for _ in range(2)
    )
    assert [failure.message for failure in first.failures] == [failure.message for failure in second.failures]
    assert first.properties == second.properties


def test_a_crash_is_a_failure_and_stops_nothing() -> None:
    def crash(values: np.ndarray, k: int) -> None:
        raise RuntimeError("no such device")

    report = check(
        faulty("fast_topk", crash), seed=0, max_examples=2, operations=["fast_topk", "map_hot_tokens"], slow_examples=0
    )
    assert report.verdict == "fails"
    assert report.operations["map_hot_tokens"].failures == 0
    assert report.operations["map_hot_tokens"].examples > 0
    assert {failure.operation for failure in report.failures} == {"fast_topk"}
    assert report.failures[0].message == "no such device"


def test_a_rejection_of_a_valid_call_is_a_failure() -> None:
    def refuse(values: np.ndarray, k: int) -> None:
        reference.fast_topk(values, 0)

    failed, message = verdict_of("agreement.fast_topk", faulty("fast_topk", refuse))
    assert failed
    assert message.startswith("SCALAR_OUT_OF_RANGE: k is 0")


def test_a_missing_operation_is_missing_and_not_failed() -> None:
    partial = replace(ORACLE, functions={"fast_topk": reference.fast_topk})
    report = check(partial, seed=0, max_examples=2, slow_examples=0)
    assert report.verdict == "conforms"
    assert report.operations["build_tree"] == OperationReport(examples=0, failures=0, missing=True)
    assert not report.operations["fast_topk"].missing
    assert report.properties["agreement.build_tree"] == PropertyReport(0, failed=False, missing=True)


def test_not_implemented_is_a_failure() -> None:
    def later(values: np.ndarray, k: int) -> None:
        raise NotImplementedError("later")

    report = check(faulty("fast_topk", later), seed=0, max_examples=2, operations=["fast_topk"], slow_examples=0)
    assert report.properties["agreement.fast_topk"].failed
    assert report.verdict == "fails"


def test_an_operation_that_covers_part_of_its_domain_fails() -> None:
    def small_only(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        if k > 2:
            raise NotImplementedError("only k up to 2")
        return reference.fast_topk(values, k)

    failed, message = verdict_of("agreement.fast_topk", faulty("fast_topk", small_only))
    assert failed
    assert message == "only k up to 2"


def test_nothing_selected() -> None:
    assert check(ORACLE, seed=0, max_examples=2, operations=[]).verdict == "nothing selected"


def test_an_operation_without_examples_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    only = Property("one.law", "", ("fast_topk",), st.none, lambda backend, case: backend.host("fast_topk"))
    never = Property("one.other", "", ("build_tree",), st.nothing, lambda backend, case: None)
    monkeypatch.setattr(runner, "all_properties", lambda: (only, never))
    chosen = ["fast_topk", "build_tree"]
    assert check(ORACLE, seed=0, max_examples=2, operations=chosen).verdict == "inconclusive"
    assert check(ORACLE, seed=0, max_examples=2, operations=["fast_topk"]).verdict == "conforms"


def test_progress_names_each_property_once() -> None:
    seen: list[tuple[str, int, int]] = []
    check(
        ORACLE,
        seed=0,
        max_examples=1,
        operations=["fast_topk"],
        slow_examples=0,
        on_progress=lambda name, done, total: seen.append((name, done, total)),
    )
    assert [done for _, done, _ in seen] == list(range(1, len(seen) + 1))
    assert {total for _, _, total in seen} == {len(seen)}


def test_hypothesis_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    backend = faulty("fill_bonus_tokens", first_token)
    check(backend, seed=0, max_examples=30, operations=["fill_bonus_tokens"], slow_examples=0)
    assert capfd.readouterr() == ("", "")


def test_rejections_are_asked_only_of_those_who_promise_them() -> None:
    foreign = replace(ORACLE, rejects=False)
    names = check(foreign, seed=0, max_examples=1, operations=["fast_topk"], slow_examples=0).properties
    assert "agreement.fast_topk" in names
    assert "rejection.fast_topk" not in names


def test_agreement_catches_a_wrong_value() -> None:
    failed, message = verdict_of("agreement.fill_bonus_tokens", faulty("fill_bonus_tokens", first_token))
    assert failed
    assert ", but should be " in message


def test_agreement_catches_a_wrong_dtype() -> None:
    def wide(accept_tokens: np.ndarray, num_accepted_tokens: np.ndarray) -> np.ndarray:
        return reference.fill_bonus_tokens(accept_tokens, num_accepted_tokens).astype(np.int64)

    failed, message = verdict_of("agreement.fill_bonus_tokens", faulty("fill_bonus_tokens", wide))
    assert failed
    assert "int64" in message


def test_agreement_ignores_entries_without_meaning() -> None:
    def dirty(values: np.ndarray, accept_index: np.ndarray) -> np.ndarray:
        compacted = reference.compact_accepted_to_front(values, accept_index)
        width = len(values) // max(len(accept_index), 1)
        for request, row in enumerate(accept_index):
            compacted[request * width + (row >= 0).sum() : (request + 1) * width] = 1
        return compacted

    assert not verdict_of("agreement.compact_accepted_to_front", faulty("compact_accepted_to_front", dirty))[0]


def test_mutation_catches_a_write_into_an_argument() -> None:
    def sorts_in_place(values: np.ndarray, k: int) -> Any:
        outputs = reference.fast_topk(values, k)
        values.sort(axis=1)
        return outputs

    backend = faulty("fast_topk", sorts_in_place)
    assert not verdict_of("agreement.fast_topk", backend)[0]
    failed, message = verdict_of("mutation.fast_topk", backend)
    assert failed
    assert message.startswith("fast_topk: argument values[0, ")


def test_strided_catches_a_kernel_that_walks_memory() -> None:
    def in_memory_order(logits: np.ndarray) -> np.ndarray:
        return reference.argmax_target_predict(logits.ravel(order="K").reshape(logits.shape))

    backend = faulty("argmax_target_predict", in_memory_order)
    assert not verdict_of("agreement.argmax_target_predict", backend)[0]
    assert verdict_of("strided.argmax_target_predict", backend)[0]


def test_empty_catches_a_batch_that_is_never_empty() -> None:
    def at_least_one(accept_tokens: np.ndarray, num_accepted_tokens: np.ndarray) -> np.ndarray:
        bonus_tokens = reference.fill_bonus_tokens(accept_tokens, num_accepted_tokens)
        return bonus_tokens if len(bonus_tokens) else np.zeros(1, dtype=np.int32)

    assert verdict_of("empty.fill_bonus_tokens", faulty("fill_bonus_tokens", at_least_one))[0]


def test_poison_catches_a_read_past_the_count() -> None:
    def largest(accept_tokens: np.ndarray, num_accepted_tokens: np.ndarray) -> np.ndarray:
        return accept_tokens.max(axis=1)

    assert verdict_of("poison.fill_bonus_tokens", faulty("fill_bonus_tokens", largest))[0]


def test_poison_leaves_defined_entries_alone() -> None:
    assert not verdict_of("poison.draft_decode_forward", ORACLE)[0]


def test_rejection_catches_silence() -> None:
    def lenient(topk_index: np.ndarray, hot_token_id: np.ndarray) -> np.ndarray:
        return hot_token_id[np.clip(topk_index, 0, len(hot_token_id) - 1)]

    failed, message = verdict_of("rejection.map_hot_tokens", faulty("map_hot_tokens", lenient))
    assert failed
    assert ", but should be a rejection, " in message


def test_rejection_catches_a_write_before_the_check() -> None:
    def writes_first(**arguments: Any) -> None:
        arguments["req_to_token"][...] = 7
        reference.assign_req_to_token_pool(**arguments)

    failed, message = verdict_of("rejection.assign_req_to_token_pool", faulty("assign_req_to_token_pool", writes_first))
    assert failed
    assert "7 after the call" in message
