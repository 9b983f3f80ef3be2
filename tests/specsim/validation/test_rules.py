from contextlib import suppress
from copy import deepcopy
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample

from specsim.contracts.compiled import compile_contract
from specsim.contracts.kinds import NUMPY
from specsim.discovery import modules_of
from specsim.operations import ALL_GROUPS, RECORDS
from specsim.properties.operations.generated.agreement import reference
from specsim.properties.strategies import for_operation
from specsim.properties.strategies.malformed.faults import FAULTS, calls
from specsim.rejection import Reason, SpecRejection
from specsim.validation import STRUCTURE
from specsim.validation.checking import check_values
from specsim.validation.rule import Fault, Rule

SEARCH = settings(
    max_examples=1000,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
)
FAULTS_A_CALL = 8
"""How often each structural fault is put into a good call, which takes longer to draw than many faults to try."""

MAX_SEARCHES = 4
"""What one search draws depends on the constants of the modules that happen to be loaded; a rule waits for the next."""


def test_rules_stand_in_the_module_of_their_group():
    modules = modules_of("specsim.validation", ALL_GROUPS)
    strays = [
        f"{name} in {group}"
        for group, module in modules.items()
        for name in vars(module)["RULES"]
        if RECORDS[name].group != group
    ]
    assert strays == []


def test_a_rule_is_printed_with_its_cause_and_its_reason():
    rule = Rule("Every entry is 7.", Reason.NOT_DIVISIBLE, "seven is enough", lambda arguments, axes: None)
    assert rule.in_words() == "Every entry is 7: seven is enough (NOT_DIVISIBLE)."


def test_a_fault_is_raised_with_the_cause_and_the_reason_of_its_rule():
    rule = Rule("", Reason.NOT_DIVISIBLE, "seven is enough", lambda arguments, axes: Fault("x[1]", 8, "7"))
    with pytest.raises(SpecRejection) as caught:
        rule.check({}, {})
    assert str(caught.value) == "NOT_DIVISIBLE: x[1] is 8, but should be 7, because seven is enough"


def test_sentences_are_sentences_and_causes_are_clauses():
    rules = {rule for rules in STRUCTURE.values() for rule in rules}
    assert [rule.sentence for rule in rules if not rule.sentence.endswith(".") or rule.sentence[0].islower()] == []
    assert [rule.because for rule in rules if rule.because.endswith(".") or rule.because[0].isupper()] == []


def first_broken(case, operation):
    """Return the rule that rejects a call which agrees with its contract: each relies on those before it."""
    carried = reference().carry(operation, case)
    contract = RECORDS[operation].contract
    try:
        checked = compile_contract(operation, contract, NUMPY).check(carried)
        check_values(operation, contract, carried, checked)
    except SpecRejection:
        return None
    return next((rule for rule in STRUCTURE[operation] if rule.find(carried, checked.axes) is not None), None)


def bad_calls_of(case, operation, random):
    """Yield what ``calls`` may make of a good call by a structural fault."""
    for fault in FAULTS.get(operation, ()):
        for _ in range(FAULTS_A_CALL):
            yield fault(deepcopy(case), random.randint(0, 2**16))


def test_every_rule_is_broken_by_some_bad_call():
    unbroken = []
    for operation, rules in STRUCTURE.items():
        waiting, random = list(rules), Random(operation)

        def is_last(case, operation=operation, waiting=waiting):
            broken = first_broken(case, operation)
            waiting[:] = [rule for rule in waiting if rule is not broken]
            return not waiting

        def ends_with(case, operation=operation, is_last=is_last, random=random):
            return any(is_last(bad, operation) for bad in bad_calls_of(case, operation, random))

        searches = [(for_operation, ends_with), *[(calls, is_last)] * (MAX_SEARCHES - 1)]
        for seed, (strategy, is_found) in enumerate(searches):
            with suppress(NoSuchExample):
                find(strategy(operation), is_found, settings=SEARCH, random=Random(seed))
            if not waiting:
                break
        unbroken += [f"{operation}: {rule.sentence}" for rule in waiting]
    assert unbroken == []
