"""A function that is defined is held to its contract: what it raises is a failure, and no filter, skip or gap."""

import unittest
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument, StopTest, Unsatisfiable, UnsatisfiedAssumption

from specsim import reference
from specsim.conformance.backend import load
from specsim.conformance.outside import OutsideLimits
from specsim.conformance.raised import Undefined, as_failure
from specsim.properties.laws.frequencies import Inconclusive
from specsim.properties.operations.generated.margin_cases import _COUNT
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import all_properties, group_of, property_named
from specsim.properties.suite.conformance import runner
from specsim.properties.suite.conformance.report import PropertyReport
from specsim.properties.suite.conformance.runner import check
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.conformance.selection import is_selected
from specsim.rejection import Reason, SpecRejection, WorkerRefusal

ORACLE = load("specsim.reference")


class Sly(UnsatisfiedAssumption, ValueError):
    """A filter in the clothes of an error."""


RAISED = (
    NotImplementedError("no such operator"),
    Undefined("later"),
    UnsatisfiedAssumption(),
    Unsatisfiable("nothing"),
    InvalidArgument("nothing"),
    Sly("quiet"),
    StopTest(0),
    OutsideLimits("an empty batch"),
    Inconclusive("few"),
    unittest.SkipTest("not here"),
    pytest.skip.Exception("not here"),
    GeneratorExit(),
    SystemExit(0),
    StopIteration(),
    BaseExceptionGroup("all", [StopTest(0)]),
    BaseException("bare"),
    SpecRejection(Reason.WRONG_DTYPE, what="values", got="x", expected="y", because="z"),
)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_a_defined_function_raises_is_a_failure(error):
    def stub(values, k):
        raise error

    broken = ORACLE.with_function("fast_topk", stub, "stub")
    chosen = [one for one in all_properties() if is_selected(one, broken, ["fast_topk"]) and not one.is_slow]
    # NOTE: these groups call it with what it may refuse.
    others = [one for one in chosen if group_of(one) not in ("anything", "rejection")]
    assert len(others) > 5
    for one in others:
        found, failure = run_property(one, broken, 0, 2, is_shrunk=False)
        assert found.failed and failure is not None, one.name
    # NOTE: one of them is shrunk too, as its filters and stops reach Hypothesis many times then.
    report = report_of([property_named("agreement.fast_topk")], broken, examples=2)
    assert report.verdict == "fails"
    assert report.properties["agreement.fast_topk"].failed
    words = {failure.property: failure.message for failure in report.failures}["agreement.fast_topk"]
    assert type(error).__name__ in words or str(error) in words


def test_plain_errors_stay_what_they_are():
    for error in (ValueError("off"), KeyError("k"), RAISED[-1], Exception("bare")):
        assert as_failure(error, "fast_topk") is error
    other = as_failure(Sly("quiet"), "fast_topk")
    assert (type(other), str(other)) == (ValueError, "fast_topk raises Sly: quiet")
    assert str(as_failure(SystemExit(3), "fast_topk")) == "fast_topk exits with 3"


def test_a_name_that_is_not_defined_is_missing():
    partial = replace(ORACLE, functions={"fast_topk": reference.fast_topk})
    report = check(partial, seed=0, max_examples=2, slow_examples=0)
    assert (report.verdict, report.properties["agreement.build_tree"].missing) == ("conforms", True)


def report_of(properties, backend, examples):
    """Return the report of a check in which these are all properties that there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "all_properties", lambda: properties)
        return check(backend, seed=0, max_examples=examples, operations=["fast_topk"])


def verdict_of(*properties):
    backend = replace(ORACLE, functions={"fast_topk": reference.fast_topk})
    report = report_of(properties, backend, examples=4)
    return report.verdict, report.inconclusive_because


def test_a_function_that_no_example_calls_is_not_examined():
    def vain(backend, case):
        assert backend.has("fast_topk")

    def calls(backend, case):
        backend.host("fast_topk")

    never = Property("one.never", "", ("fast_topk",), st.booleans, vain)
    assert verdict_of(never) == ("inconclusive", ("no example called fast_topk",))
    assert verdict_of(never, replace(never, name="one.law", law=calls)) == ("conforms", ())


@pytest.mark.parametrize("function", ["clip_drafts", "find_stop"])
def test_a_function_is_no_worker_that_could_refuse(function):
    def refuses(*arguments, **named):
        raise WorkerRefusal(SpecRejection(Reason.BAD_CONFIGURATION, what="a", got="b", expected="c", because="d"))

    backend = replace(ORACLE, functions={function: refuses})
    report = check(backend, seed=0, max_examples=1, operations=[function], slow_examples=1)
    assert report.verdict == "fails"


def test_examples_of_which_none_is_compared_decide_nothing():
    def near(backend, case):
        count = _COUNT.get()
        count.calls, count.empty_calls = 1, 1

    sound = Property("one.law", "", ("fast_topk",), st.booleans, lambda backend, case: backend.host("fast_topk"))
    vain = replace(sound, name="one.vain", law=near)
    never = replace(sound, name="one.never", strategy=st.nothing)
    assert verdict_of(sound) == ("conforms", ())
    assert verdict_of(sound, vain) == ("inconclusive", ("no example was compared of one.vain",))
    assert verdict_of(sound, never) == ("inconclusive", ("one.never: no example of it can be drawn",))
    report, _ = run_property(vain, ORACLE, 0, 2)
    assert (report.examples, report.compared) == (2, 0)
    assert PropertyReport(3, False, False).compared == 3
