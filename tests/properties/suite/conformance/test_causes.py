"""Failures are grouped by the operation that shows the fault by itself."""

from dataclasses import replace

import numpy as np

from specsim.properties.suite.conformance.causes import causes_of
from specsim.properties.suite.conformance.evidence import Evidence
from specsim.properties.suite.conformance.report import Failure

TREE = "verify_tree_greedy"


def failure(name, operation=TREE, raised="AssertionError", size=1, **fields):
    error = (
        f'Traceback (most recent call last):\n  File "kernels.py", line 1, in f\n    f()\n{raised}: words\nmore words\n'
    )
    case = {"candidates": np.zeros(size)} if operation else None
    return Failure(operation, name, "words", case, error, **fields)


def plain(*failures):
    return [
        (one.operation, one.first.property, [other.property for other in one.others]) for one in causes_of(failures)
    ]


def test_the_smallest_case_of_the_operation_stands_for_laws_and_runs():
    run = failure("engine.output_equals_autoregressive_decoding", "")
    assert plain(
        run,
        failure(f"agreement.{TREE}", size=5),
        failure("verify.count_excludes_the_root", size=3),
        failure(f"poison.{TREE}", size=4),
    ) == [
        (TREE, "verify.count_excludes_the_root", [f"agreement.{TREE}", f"poison.{TREE}", run.property]),
    ]


def test_the_operation_that_comes_first_explains_a_run():
    run = failure("engine.output_equals_autoregressive_decoding", "")
    bonus = failure("agreement.fill_bonus_tokens", "fill_bonus_tokens")
    assert plain(bonus, failure(f"agreement.{TREE}"), run) == [
        (TREE, f"agreement.{TREE}", [run.property]),
        ("fill_bonus_tokens", bonus.property, []),
    ]


def test_layouts_arguments_and_bad_input_count_apart():
    names = [f"{group}.{TREE}" for group in ("agreement", "strided", "mutation", "rejection", "anything")]
    agreement, strided, mutation, rejection, anything = names
    assert plain(*map(failure, names)) == [
        (TREE, agreement, []),
        (TREE, mutation, []),
        (TREE, rejection, [anything]),
        (TREE, strided, []),
    ]


def test_the_same_exception_is_the_same_reason():
    names = [f"{group}.{TREE}" for group in ("agreement", "strided", "rejection")]
    raising = [failure(name, raised="kernels.Broken") for name in names]
    assert plain(*raising, failure("verify.count_excludes_the_root")) == [
        (TREE, "verify.count_excludes_the_root", []),
        (TREE, names[0], names[1:]),
    ]
    crashes = [failure(name, fate="CRASHED") for name in names]
    assert plain(*crashes, raising[0]) == [(TREE, names[0], names[1:]), (TREE, names[0], [])]


def test_bad_input_explains_no_run_and_runs_alone_stand_alone():
    runs = [failure(f"engine.{name}", "") for name in ("output_equals_autoregressive_decoding", "other")]
    assert plain(failure(f"rejection.{TREE}"), *runs) == [
        (TREE, f"rejection.{TREE}", []),
        ("", runs[0].property, []),
        ("", runs[1].property, []),
    ]


def test_cases_with_a_difference_are_shown_before_those_without():
    bare, full = failure("verify.count_excludes_the_root"), failure(f"agreement.{TREE}", size=9, difference="a = 1")
    assert plain(bare, full) == [(TREE, full.property, [bare.property])]


SAMPLER = "tree_speculative_sampling_target_only"
RESIDUAL, THRESHOLDS = Evidence(("predict",)), Evidence(("predict", "accept_index"), ("threshold_acc",))


def sampled(name, evidence, size=1):
    return failure(name, SAMPLER, size=size, evidence=evidence)


def test_what_is_left_when_the_first_cause_is_taken_away_is_another_cause_and_a_lost_law_comes_first():
    agreement = sampled(f"agreement.{SAMPLER}", Evidence(("draft_probs",)))
    remembered = sampled("acceptance.rejected_children_are_remembered", Evidence(("draft_probs",)), size=2)
    lower = sampled("sampling_law.lower_thresholds_only_raise_acceptance", THRESHOLDS)
    strided = sampled("acceptance.boundaries_fall_as_stated", Evidence(("predict",), ("threshold_acc", "strict")))
    law = sampled("sampling_law.tree_emits_the_targets_law", RESIDUAL, size=9)
    unknown = sampled("acceptance.sampled_nodes_are_a_path", Evidence())
    found = causes_of([agreement, remembered, strided, unknown, law, lower])
    assert [one.loss for one in found] == ["the emitted law is wrong", "", ""]
    assert plain(agreement, remembered, strided, unknown, law, lower) == [
        (SAMPLER, law.property, [unknown.property]),
        (SAMPLER, agreement.property, [remembered.property]),
        (SAMPLER, strided.property, [lower.property]),
    ]


def test_neither_scratch_memory_nor_an_unusual_argument_explains_a_run():
    run = failure("sampled_engine.engine_emits_the_autoregressive_law", "")
    from_logits = "verify_tree_sampled_from_logits"
    relaxed = failure(f"agreement.{from_logits}", from_logits, evidence=THRESHOLDS)
    assert plain(relaxed, run) == [(from_logits, relaxed.property, []), ("", run.property, [])]
    usual = failure(f"agreement.{from_logits}", from_logits, evidence=RESIDUAL)
    assert plain(usual, run) == [(from_logits, usual.property, [run.property])]


def test_a_lost_law_comes_before_what_the_table_has_first():
    first = failure("agreement.generate_coins", "generate_coins")
    law = sampled("sampling_law.tree_emits_the_targets_law", RESIDUAL)
    assert plain(first, law) == [(SAMPLER, law.property, []), ("generate_coins", first.property, [])]
    unusual = sampled("sampling_law.repeated_siblings_count_again_upstream", THRESHOLDS)
    assert [one.loss for one in causes_of([first, unusual])] == ["", ""]


def test_a_case_is_shown_before_a_law_without_one_and_what_is_lost_is_still_said():
    law, agreement = (
        failure("rounding.tree_moves_no_more_than_its_inputs", SAMPLER),
        sampled(f"agreement.{SAMPLER}", RESIDUAL),
    )
    (found,) = causes_of([replace(law, case=None), agreement])
    assert (found.first.property, found.loss) == (agreement.property, "the emitted law is wrong")
