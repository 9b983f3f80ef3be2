"""Laws of acceptance by position: every figure can be counted from the log of verifies, whatever their widths."""

from collections.abc import Sequence
from functools import partial

from specsim.conformance.backend import Backend
from specsim.host.positions import PositionCounters
from specsim.properties.host.metrics.strategy import Verify, wide_batches
from specsim.properties.laws.checks import refuses, require, require_equal, state
from specsim.rejection import Reason

Batches = tuple[tuple[Verify, ...], ...]


def positions_are_counted_from_the_log(backend: Backend, batches: Batches) -> None:
    """What is accepted and tried at a position is that of the verifies so deep, batch by batch, in any order.

    NOTE: it is counted here verify by verify, and what is derived from it, in fractions of integers.
    """
    count_positions = backend.host("count_positions")
    counters = PositionCounters()
    log: list[Verify] = []
    for batch in batches:
        before = counters
        counters = count_positions(before, *_columns(batch))
        log += batch
        _require_counted(counters, log)
        require(before == _counted(log[: len(log) - len(batch)]), "counters before", before, "as they were")
        turned = count_positions(before, *_columns(batch[::-1]))
        require(turned == counters, "counters of the batch turned around", turned, counters)
    whole = count_positions(PositionCounters(), *_columns(log))
    require(whole == counters, "counters of all batches as one", whole, counters)


def a_verify_accepts_no_more_than_it_was_proposed(backend: Backend, batches: Batches) -> None:
    """Counts that contradict each other are refused: so many drafts on no level, or more accepted than levels."""
    count_positions, counters = backend.host("count_positions"), PositionCounters()
    for drafts, levels, accepted in [verify for batch in batches for verify in batch]:
        too_many = ((drafts, levels, levels + 1), (drafts, drafts + 1, accepted), (drafts + 1, 0, 0))
        for wrong in (*too_many, (drafts, levels, -1), (-1, 0, 0)):
            refuses(Reason.COUNT_OUT_OF_RANGE, partial(count_positions, counters, *_columns([wrong])))
    refuses(Reason.INCONSISTENT_LENGTHS, partial(count_positions, counters, [1], [], [0]))


def _columns(batch: Sequence[Verify]) -> tuple[list[int], list[int], list[int]]:
    return [one[0] for one in batch], [one[1] for one in batch], [one[2] for one in batch]


def _counted(log: list[Verify]) -> PositionCounters:
    width = max((levels for _, levels, _ in log), default=0)
    return PositionCounters(
        len([drafts for drafts, _, _ in log if drafts]),
        sum(drafts for drafts, _, _ in log),
        sum(accepted for _, _, accepted in log),
        tuple(len([one for one in log if one[2] >= place + 1]) for place in range(width)),
        tuple(len([one for one in log if one[1] >= place + 1 and one[2] >= place]) for place in range(width)),
    )


def _require_counted(counters: PositionCounters, log: list[Verify]) -> None:
    expected = _counted(log)
    for name, value in vars(expected).items():
        require_equal(name, getattr(counters, name), value)
    reported, num = counters.public(), expected.num_proposing
    require_equal("sum over positions", sum(reported["num_accepted_tokens_per_pos"]), reported["num_accepted_tokens"])
    rates = reported["per_position_acceptance_rate"]
    require(sorted(rates, reverse=True) == rates, "per_position_acceptance_rate", rates, "never growing")
    for place, (rate, conditional) in enumerate(zip(rates, reported["conditional_acceptance_rate"], strict=True)):
        require_equal(f"rate at {place}", rate * num, expected.accepted[place]) if rate in (0, 1) else None
        require(rate <= conditional <= 1 or not num, f"conditional rate at {place}", conditional, f"{rate} to 1")
    is_all = all(accepted == levels == drafts for drafts, levels, accepted in log)
    rate = reported["draft_acceptance_rate"]
    require((rate == 1) == (is_all and num > 0), "draft_acceptance_rate", rate, "1 where every draft is accepted")


PROPERTIES = (
    state("positions", positions_are_counted_from_the_log, wide_batches, ("count_positions",), "P26"),
    state("positions", a_verify_accepts_no_more_than_it_was_proposed, wide_batches, ("count_positions",), "P26"),
)
