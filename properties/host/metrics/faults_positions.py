"""Faults in what is counted by position where verifies differ in width."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from specsim.host.positions import PositionCounters
from specsim.properties.mutants.record import Function, Named, answering, mutants_of


def _counting(change: Callable[[PositionCounters, PositionCounters, Named], dict[str, Any]]) -> Callable[..., Function]:
    """Inject another count; it takes the counters before, the correct ones after, and the arguments."""

    def answer(correct: Function, arguments: Named) -> Any:
        after = correct(**arguments)
        return replace(after, **change(arguments["counters"], after, arguments))

    return answering(answer)


def _of_widest(correct: Function, arguments: Named) -> Any:
    """Count every verify of a batch as wide as the widest."""
    widest = {name: [max(arguments[name], default=0)] * len(arguments[name]) for name in _WIDTHS}
    return correct(**(arguments | widest))


def _of_the_neighbour(correct: Function, arguments: Named) -> Any:
    """Count drafts of each request with the levels of the next, cut where nothing fits."""
    levels = [*arguments["num_levels"][1:], *arguments["num_levels"][:1]]
    return _fitted(correct, arguments, arguments["num_proposed_drafts"], levels, arguments["num_accepted_drafts"])


def _cut_to_the_first_batch(correct: Function, arguments: Named) -> Any:
    """Keep the positions of the first batch, however wide later ones are."""
    after, width = correct(**arguments), len(arguments["counters"].accepted)
    return replace(after, accepted=after.accepted[:width], tried=after.tried[:width]) if width else after


def _bonus_too(correct: Function, arguments: Named) -> Any:
    """Count the bonus token among the accepted, as far as levels reach."""
    pairs = zip(arguments["num_accepted_drafts"], arguments["num_levels"], strict=True)
    return correct(**(arguments | {"num_accepted_drafts": [min(taken + 1, levels) for taken, levels in pairs]}))


def _anything_goes(correct: Function, arguments: Named) -> Any:
    """Cut what contradicts itself where a refusal is asked for."""
    return _fitted(correct, arguments, *(arguments[name] for name in (*_WIDTHS, "num_accepted_drafts")))


def _fitted(
    correct: Function, arguments: Named, drafts: Sequence[int], levels: Sequence[int], accepted: Sequence[int]
) -> Any:
    """Count what is left of the drafts and levels of each request when they are cut to fit each other."""
    heights = [max(height, 0) for height in levels]
    widths = [max(width, height) if height else 0 for width, height in zip(drafts, heights, strict=False)]
    taken = [min(max(one, 0), height) for one, height in zip(accepted, heights, strict=False)]
    return correct(arguments["counters"], widths, heights, taken)


_WIDTHS = ("num_proposed_drafts", "num_levels")

MUTANTS = mutants_of(
    "count_positions",
    ("OWN-3120", "Every verify is as wide as the widest of its batch.", answering(_of_widest)),
    (
        "OWN-3121",
        "A verify that proposed nothing counts as one.",
        _counting(lambda before, after, given: {"num_proposing": before.num_proposing + len(given["num_levels"])}),
    ),
    (
        "OWN-3122",
        "Every verify is taken to have tried every position.",
        _counting(
            lambda before, after, given: {"tried": tuple(max(count, after.num_proposing) for count in after.tried)}
        ),
    ),
    (
        "OWN-3123",
        "Positions are one late: the root's is the first.",
        _counting(
            lambda before, after, given: {"accepted": (after.num_proposing, *after.accepted)[: len(after.tried)]}
        ),
    ),
    (
        "OWN-3124",
        "Positions are one early.",
        _counting(lambda before, after, given: {"accepted": (*after.accepted[1:], 0)[: len(after.tried)]}),
    ),
    ("OWN-3125", "Levels are those of the next request.", answering(_of_the_neighbour)),
    ("OWN-3126", "Positions past those of the first batch are lost.", answering(_cut_to_the_first_batch)),
    ("OWN-3127", "The bonus token counts as accepted.", answering(_bonus_too)),
    (
        "OWN-3128",
        "What earlier batches accepted is forgotten.",
        _counting(
            lambda before, after, given: {
                "accepted": tuple(
                    count - (before.accepted[place] if place < len(before.accepted) else 0)
                    for place, count in enumerate(after.accepted)
                )
            }
        ),
    ),
    (
        "OWN-3129",
        "Proposed drafts are counted by levels.",
        _counting(
            lambda before, after, given: {"num_proposed_drafts": before.num_proposed_drafts + sum(given["num_levels"])}
        ),
    ),
    ("OWN-3130", "Counts that contradict each other are cut to fit.", answering(_anything_goes)),
)
