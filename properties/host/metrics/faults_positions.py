"""Faults in what is counted by position where verifies differ in width."""

from collections.abc import Sequence
from typing import Any

from specsim.properties.mutants.record import Function, Named, answering, edits_of, mutants_of


def _of_the_neighbour(correct: Function, arguments: Named) -> Any:
    """Count drafts of each request with the levels of the next, cut where nothing fits."""
    levels = [*arguments["num_levels"][1:], *arguments["num_levels"][:1]]
    return _fitted(correct, arguments, arguments["num_proposed_drafts"], levels, arguments["num_accepted_drafts"])


def _anything_goes(correct: Function, arguments: Named) -> Any:
    """Cut what contradicts itself where a refusal is asked for."""
    names = ("num_proposed_drafts", "num_levels", "num_accepted_drafts")
    return _fitted(correct, arguments, *(arguments[name] for name in names))


def _fitted(
    correct: Function, arguments: Named, drafts: Sequence[int], levels: Sequence[int], accepted: Sequence[int]
) -> Any:
    """Count what is left of the drafts and levels of each request when they are cut to fit each other."""
    heights = [max(height, 0) for height in levels]
    widths = [max(width, height) if height else 0 for width, height in zip(drafts, heights, strict=False)]
    taken = [min(max(one, 0), height) for one, height in zip(accepted, heights, strict=False)]
    return correct(arguments["counters"], widths, heights, taken)


MUTANTS = (
    *edits_of(
        """
    @@ count_positions
    OWN-3120 Every verify is as wide as the widest of its batch.
      num_requests = len(num_accepted_drafts)
    + num_proposed_drafts, num_levels = (
    +     [max(counts, default=0)] * num_requests for counts in (num_proposed_drafts, num_levels)
    + )
    OWN-3122 Every verify is taken to have tried every position.
    - position <= taken => True
    OWN-3123 Positions are one late: the root's is the first.
    - tuple(accepted)
    + (counters.num_proposing + sum(drafts > 0 for drafts in num_proposed_drafts), *accepted)[: len(tried)]
    OWN-3121 A verify that proposed nothing counts as one.
    - sum(drafts > 0 for drafts in num_proposed_drafts) => len(num_proposed_drafts)
    OWN-3124 Positions are one early.
    - tuple(accepted) => (*accepted[1:], 0)[: len(tried)]
    OWN-3126 Positions past those of the first batch are lost.
    - tuple(accepted) => tuple(accepted[: len(counters.accepted) or width])
    - tuple(tried) => tuple(tried[: len(counters.accepted) or width])
    OWN-3127 The bonus token counts as accepted.
    - num_requests = len(num_accepted_drafts)
    + pairs = zip(num_accepted_drafts, num_levels, strict=True)
    + num_accepted_drafts = [min(taken + 1, levels) for taken, levels in pairs]
    + num_requests = len(num_accepted_drafts)
    OWN-3128 What earlier batches accepted is forgotten.
    - counters.accepted, counters.tried => (), counters.tried
    OWN-3129 Proposed drafts are counted by levels.
    - sum(num_proposed_drafts) => sum(num_levels)
    """
    ),
    *mutants_of(
        "count_positions",
        ("OWN-3125", "Levels are those of the next request.", answering(_of_the_neighbour)),
        ("OWN-3130", "Counts that contradict each other are cut to fit.", answering(_anything_goes)),
    ),
)
