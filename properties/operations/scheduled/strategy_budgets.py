"""Survivals of earlier steps and what a step costs; batches of several ranks, and the graphs that they have."""

from dataclasses import dataclass

from hypothesis import strategies as st

from specsim.config import SURVIVAL_EPS
from specsim.host.budget import CapturedTimes, Costs, ForcedShare, StepRates, StepTimes
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import mostly, one_of_evenly

SIXTEENTHS = st.integers(0, 16).map(lambda number: number / 16)
"""Sums and products of a few are exact, so that two yields are equal or differ by more than rounding."""

EVEN_RATE = 720720.0
"""A multiple of the numbers up to 16."""

LARGEST_SIZE = 4096
"""A captured size above all that are asked for."""


@dataclass(frozen=True)
class Budgeting:
    """A call of ``verify_token_budget``."""

    survivals: tuple[float, ...]
    num_requests: int
    costs: Costs | None
    num_rows: int | None
    max_budget: int | None
    survival_eps: float


@dataclass(frozen=True)
class Tiers:
    """The requests and the budget of each rank, and the graphs that were captured."""

    batches: tuple[tuple[int, int | None], ...]
    num_draft_tokens: int
    min_verify_len: int
    captured: tuple[int, ...]


def priced() -> st.SearchStrategy[Budgeting]:
    """Return a strategy of budgets whose costs were measured, by each kind of table as often; of some all are best."""
    return one_of_evenly(_budgets(_rates()), _budgets(_times()), _budgets(_captured()), _even(0), _even(2))


def unpriced() -> st.SearchStrategy[Budgeting]:
    """Return a strategy of budgets without costs, or with a table of one probe."""
    return _budgets(one_of_evenly(st.none(), st.builds(StepRates, st.just((4,)), st.just((1.0,)))))


def forced() -> st.SearchStrategy[Budgeting]:
    """Return a strategy of budgets that are a share of all drafts."""
    return _budgets(st.builds(ForcedShare, SIXTEENTHS, st.integers(0, 7)))


@composite
def _budgets(draw: st.DrawFn, costs: st.SearchStrategy[Costs | None]) -> Budgeting:
    survivals = draw(st.lists(mostly(SIXTEENTHS, st.just(2.0**-30), one_in=6), min_size=1, max_size=9))
    num_requests = draw(st.integers(1, 6))
    has_other_rows, has_little_room = draw(st.booleans()), draw(st.booleans())
    return Budgeting(
        tuple(survivals),
        num_requests,
        draw(costs),
        num_requests + draw(st.integers(1, 9)) if has_other_rows else None,
        draw(st.integers(0, len(survivals))) if has_little_room else None,
        draw(st.sampled_from((SURVIVAL_EPS, 0.0, 0.5))),
    )


@composite
def _even(draw: st.DrawFn, num_others: int) -> Budgeting:
    """Draw sure drafts, and rates that fall as rows grow: all budgets yield as much, or with other rows the largest."""
    num_requests, num_drafts = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    probes = tuple(range(1, 17))
    rates = StepRates(probes, tuple(EVEN_RATE / probe for probe in probes))
    num_rows = num_requests + num_others if num_others else None
    max_budget = draw(st.one_of(st.none(), st.integers(0, num_drafts - 1))) if num_others else None
    return Budgeting((1.0,) * num_drafts, num_requests, rates, num_rows, max_budget, SURVIVAL_EPS)


@composite
def _probes(draw: st.DrawFn, first: int, values: st.SearchStrategy[int]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    steps = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    probes = [first]
    for step in steps:
        probes.append(probes[-1] + step)
    return tuple(probes), tuple(float(draw(values)) for _ in probes)


@composite
def _rates(draw: st.DrawFn) -> StepRates:
    """Draw rates that fall with rows by little, so that a budget in between is best, or by steps in any order."""
    probes, rates = draw(_probes(draw(st.integers(0, 8)), st.integers(1, 64)))
    is_falling = draw(mostly(st.just(True), st.just(False), one_in=3))
    return StepRates(probes, tuple(96.0 - 3 * probe for probe in probes) if is_falling else rates)


@composite
def _times(draw: st.DrawFn) -> StepTimes:
    requests, of_requests = draw(_probes(draw(st.integers(0, 3)), st.integers(0, 4)))
    rows, of_rows = draw(_probes(draw(st.integers(0, 8)), st.integers(0, 16)))
    return StepTimes(float(draw(st.integers(1, 16))), requests, of_requests, rows, tuple(sorted(of_rows)))


@composite
def _captured(draw: st.DrawFn) -> CapturedTimes:
    """Draw tables whose last captured size is above all that are asked for; a size may be faster than a smaller one."""
    requests, drafts = draw(_probes(draw(st.integers(0, 3)), st.integers(0, 4)))
    rows, verifies = draw(_probes(draw(st.integers(1, 8)), st.integers(1, 32)))
    requests, rows = (*requests, LARGEST_SIZE), (*rows, LARGEST_SIZE)
    return CapturedTimes(requests, (*drafts, 9.0), rows, (*verifies, 64.0), LARGEST_SIZE)


@composite
def tiers(draw: st.DrawFn, has_budgets: bool = False) -> Tiers:
    """Draw ranks, of which some are idle and one may have no budget; budgets may be beyond whole chains."""
    num_draft_tokens = draw(st.integers(1, 6))
    has_all = has_budgets or draw(st.booleans())
    fewest = draw(mostly(st.just(1), st.just(0), one_in=8))
    batches = []
    for requests in draw(st.lists(mostly(st.integers(1, 5), st.just(0), one_in=4), min_size=fewest, max_size=4)):
        budget = draw(st.integers(0, requests * num_draft_tokens))
        batches.append((requests, budget if has_all or draw(st.booleans()) else None))
    captured = sorted({draw(st.integers(1, 32)) for _ in range(draw(st.integers(0, 5)))})
    return Tiers(tuple(batches), num_draft_tokens, draw(st.integers(0, num_draft_tokens)), tuple(captured))
