"""Mutants of allocators, books and scheduling in small scopes: which of them die, and after how many events."""

from dataclasses import dataclass

from specsim.conformance.backend import load
from specsim.conformance.catalogue import Kind, names_of
from specsim.properties.mutants import Mutant, all_mutants
from specsim.properties.suite.small_scopes.explore import Failed, explore
from specsim.properties.suite.small_scopes.scopes import CHAIN, STAR, Scope, all_scopes

MOST_EVENTS = 5
"""Events of a history in which every mutant has to die that can be seen at all."""

WINDOW = {"SwaAllocator", "num_behind_window", "evict_behind_window"}
"""Parts that no small scope has, as none of its layers sees a sliding window."""

DECISIONS = ("chunk_length", "is_late")
"""Host functions by which a scheduler decides."""


_CHOSEN = (
    (True, STAR, 1, 6, False),
    (True, STAR, 1, 6, True),
    (False, STAR, 1, 16, False),
    (False, CHAIN, 2, 14, True),
    (False, STAR, 1, 18, True),
    (True, STAR, 1, 12, True),
    (True, CHAIN, 2, 12, False),
    (True, STAR, 2, 12, False),
    (False, STAR, 2, 20, False),
    (False, CHAIN, 2, 20, True),
    (False, CHAIN, 1, 15, True),
)


def telling_scopes() -> tuple[Scope, ...]:
    """Return a few scopes that differ in everything: worker, tree, pages, cache, chunks, and how many find room."""
    by_size = {(one.is_v1, one.config, one.page_size, one.num_slots, one.has_prefix_cache): one for one in all_scopes()}
    return tuple(by_size[chosen] for chosen in _CHOSEN)


@dataclass(frozen=True)
class Shown:
    """A mutant, and how it died; None if it lives."""

    mutant: Mutant
    failed: Failed | None


def mutants_of_parts() -> tuple[Mutant, ...]:
    """Return the hand-written mutants of parts and of what a scheduler decides by."""
    broken = {*names_of(Kind.PART), *DECISIONS} - WINDOW
    return tuple(mutant for mutant in all_mutants() if mutant.operation in broken)


def show(mutant: Mutant, most_events: int = MOST_EVENTS) -> Shown:
    """Show a mutant to every history of a few scopes that is short enough, a level of each at a time.

    Raises
    ------
    KeyboardInterrupt
        The exploration was interrupted, so that nothing is known of the mutant.
    """
    faulty = mutant.plant(load("specsim.reference"))
    seen = explore(faulty, telling_scopes(), most_events=most_events)
    if seen.is_interrupted:
        raise KeyboardInterrupt
    return Shown(mutant, seen.failed)


UNSEEN: dict[str, str] = {
    "OWN-1197": "A turn may admit no request: nothing states when one has to.",
    "OWN-1153": "Room is made before a batch is prepared, so that none is refused.",
    "OWN-1157": "The scheduler writes rows by what the books say; of the range it asks whether there was a hit.",
    "OWN-1165": "Who computes a prompt again is right, too: nothing states that one has to be left to the cache.",
    "OWN-1167": "With pair keys that position is final in both pools, so that nothing wrong is cached.",
    "OWN-1177": "It takes three requests: two have to be left.",
    "OWN-1178": "It takes three requests: a second retraction has to be due.",
    "OWN-1180": "The scheduler notes whom it takes slots from when it does, and not by the list.",
    "OWN-1110": "With one level on pages of two slots, beams need no more when they begin with a page.",
    "OWN-1112": "With one level on pages of two slots, three positions are all that a draft and a verify write.",
    "OWN-1113": "With one level on pages of two slots, three positions are all that a draft and a verify write.",
    "OWN-1117": "Two reserves of three positions fit into that head room.",
    "OWN-1118": "The last decode of a text begins before its last token, which leaves the place that is missing.",
    "OWN-1119": "A row that is wider does no harm.",
    "OWN-1123": "With one level on pages of two slots, no beam reaches a second page.",
    "OWN-1124": "Trees of three nodes take more slots for nodes than for drafts, as far as these are used.",
    "OWN-1126": "Every small scope speculates.",
    **dict.fromkeys(
        ("OWN-1228", "OWN-1229", "OWN-1230", "OWN-1231", "OWN-1232"), "No layer of a small scope sees a sliding window."
    ),
    **dict.fromkeys(
        (f"OWN-{number}" for number in (*range(4700, 4710), *range(4715, 4726))), "No small scope exports a text."
    ),
    **dict.fromkeys(("OWN-1185", "OWN-1186", "OWN-1187"), "While nothing is wrong, no one misses what a ledger sees."),
}
"""Mutants that no history of a small scope can show, and why."""
