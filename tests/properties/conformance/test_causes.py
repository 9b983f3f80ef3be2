"""Failures are grouped by the operation that shows the fault by itself."""

import numpy as np

from specsim.properties.conformance.causes import causes_of
from specsim.properties.conformance.report import Failure

TREE = "verify_tree_greedy"


def failure(name, operation=TREE, raised="AssertionError", size=1, **fields):
    error = (
        f'Traceback (most recent call last):\n  File "kernels.py", line 1, in f\n    f()\n{raised}: words\nmore words\n'
    )
    case = {"candidates": np.zeros(size)} if operation else None
    return Failure(operation, name, "words", case, error, **fields)


def told(*failures):
    return [
        (one.operation, one.first.property, [other.property for other in one.others]) for one in causes_of(failures)
    ]


def test_the_smallest_case_of_the_operation_stands_for_laws_and_runs():
    run = failure("engine.output_equals_autoregressive_decoding", "")
    assert told(
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
    assert told(bonus, failure(f"agreement.{TREE}"), run) == [
        (TREE, f"agreement.{TREE}", [run.property]),
        ("fill_bonus_tokens", bonus.property, []),
    ]


def test_layouts_arguments_and_bad_input_count_apart():
    names = [f"{group}.{TREE}" for group in ("agreement", "strided", "mutation", "rejection", "anything")]
    agreement, strided, mutation, rejection, anything = names
    assert told(*map(failure, names)) == [
        (TREE, agreement, []),
        (TREE, mutation, []),
        (TREE, rejection, [anything]),
        (TREE, strided, []),
    ]


def test_whoever_raises_the_same_exception_fails_for_the_same_reason():
    names = [f"{group}.{TREE}" for group in ("agreement", "strided", "rejection")]
    raising = [failure(name, raised="kernels.Broken") for name in names]
    assert told(*raising, failure("verify.count_excludes_the_root")) == [
        (TREE, "verify.count_excludes_the_root", []),
        (TREE, names[0], names[1:]),
    ]
    crashes = [failure(name, fate="CRASHED") for name in names]
    assert told(*crashes, raising[0]) == [(TREE, names[0], names[1:]), (TREE, names[0], [])]


def test_bad_input_explains_no_run_and_runs_alone_stand_alone():
    runs = [failure(f"engine.{name}", "") for name in ("output_equals_autoregressive_decoding", "other")]
    assert told(failure(f"rejection.{TREE}"), *runs) == [
        (TREE, f"rejection.{TREE}", []),
        ("", runs[0].property, []),
        ("", runs[1].property, []),
    ]


def test_cases_with_a_difference_are_shown_before_those_without():
    bare, full = failure("verify.count_excludes_the_root"), failure(f"agreement.{TREE}", size=9, difference="a = 1")
    assert told(bare, full) == [(TREE, full.property, [bare.property])]
