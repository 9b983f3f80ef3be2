import pytest

from specsim.host.acceptance import Acceptance, acceptance_of, check_thresholds
from specsim.host.sampling import GREEDY, SamplingParameters
from specsim.rejection import Reason, SpecRejection


@pytest.mark.parametrize("rule", Acceptance)
def test_a_chain_is_judged_by_any_rule(rule):
    assert acceptance_of(rule.value, 1) is rule


@pytest.mark.parametrize("rule", [Acceptance.TOKEN, Acceptance.TARGET_DRAW])
def test_a_tree_is_judged_by_coins_or_draws(rule):
    assert acceptance_of(rule.value, 2) is rule


def test_a_tree_is_no_block():
    with pytest.raises(SpecRejection) as caught:
        acceptance_of("block", 2)
    assert caught.value.reason is Reason.BAD_CONFIGURATION
    assert str(caught.value) == (
        "BAD_CONFIGURATION: acceptance is block, but should be token or target-draw, because drafts are trees, and a "
        "block is a chain"
    )


def test_an_unknown_rule_is_refused():
    with pytest.raises(SpecRejection) as caught:
        acceptance_of("typical", 1)
    assert caught.value.reason is Reason.UNKNOWN_NAME


@pytest.mark.parametrize("name", ["threshold_single", "threshold_acc"])
def test_thresholds_are_those_of_coins(name):
    lossy = SamplingParameters(**{name: 0.5})
    check_thresholds(Acceptance.TOKEN, lossy)
    for rule in (Acceptance.BLOCK, Acceptance.TARGET_DRAW):
        with pytest.raises(SpecRejection) as caught:
            check_thresholds(rule, lossy)
        assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, f"sampling.{name}")


@pytest.mark.parametrize("rule", Acceptance)
@pytest.mark.parametrize("sampling", [None, GREEDY, SamplingParameters(temperature=0, threshold_acc=0.5)])
def test_thresholds_of_greedy_requests_do_not_matter(rule, sampling):
    check_thresholds(rule, sampling)
