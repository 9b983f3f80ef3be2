"""Names in any case, plug-ins, and classes that lack predicates."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.algorithms import ALIAS_OF_EAGLE, CustomSpecAlgo, SpeculativeAlgorithm, WorkerRequest
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import mostly

BUILT_IN = tuple(SpeculativeAlgorithm.__members__)
RESERVED = (*BUILT_IN, ALIAS_OF_EAGLE)
_KINDS = ("none", "speculative", "some", "eagle", "eagle3", "frozen_kv_mtp", "dflash", "standalone", "ngram")
PREDICATES = (*(f"is_{kind}" for kind in _KINDS), "supports_spec_v2", "supports_target_verify_for_draft")
"""What every algorithm answers, written out by hand."""


class OneTokenLess(CustomSpecAlgo):
    """A plug-in whose draft worker verifies all but the root."""

    def supports_target_verify_for_draft(self) -> bool:
        """Return True."""
        return True

    def get_num_tokens_per_bs_for_target_verify(self, num_draft_tokens: int, is_draft_worker: bool) -> int:
        """Return one less on the draft worker."""
        return num_draft_tokens - is_draft_worker


@dataclass(frozen=True)
class Registration:
    """A name as somebody writes it, the predicates that its class lacks, and the names that are taken."""

    name: str
    lacking: tuple[str, ...]
    taken: frozenset[str]


@dataclass(frozen=True)
class Lookup:
    """How somebody spells names, and the registered plug-ins by name."""

    spelling: str
    plugins: dict[str, CustomSpecAlgo]


@dataclass(frozen=True)
class Width:
    """A target verify: the number of draft tokens, and on which worker."""

    num_draft_tokens: int
    is_draft_worker: bool


def spelt(name: str, spelling: str) -> str:
    """Return a name in one of the spellings."""
    return {"upper": name.upper(), "lower": name.lower(), "title": name.title()}[spelling]


PLUGIN_NAMES = ("MINE", "EAGLE4", "LOOKAHEAD")


@composite
def registrations(draw: DrawFn) -> Registration:
    """Draw a registration; reserved and taken names are common."""
    name = draw(st.one_of(st.sampled_from(RESERVED), st.sampled_from(PLUGIN_NAMES)))
    lacking = draw(mostly(st.just(frozenset()), st.sets(st.sampled_from(PREDICATES), min_size=1), one_in=2))
    taken = draw(st.frozensets(st.sampled_from(PLUGIN_NAMES)))
    return Registration(spelt(name, draw(spellings())), tuple(sorted(lacking)), taken)


def several_registrations() -> SearchStrategy[list[Registration]]:
    """Return a strategy of a few registrations, each with names taken of its own."""
    return st.lists(registrations(), min_size=2, max_size=4)


@composite
def lookups(draw: DrawFn) -> Lookup:
    """Draw plug-ins; one bears the name of a built-in algorithm, and is not to be found by it."""
    taken = draw(st.frozensets(st.sampled_from(PLUGIN_NAMES)))
    return Lookup(draw(spellings()), {name: CustomSpecAlgo(name, no_worker) for name in sorted({*taken, "EAGLE"})})


def widths() -> SearchStrategy[Width]:
    """Draw a target verify."""
    return st.builds(Width, st.integers(2, 64), st.booleans())


def spellings() -> SearchStrategy[str]:
    """Draw how somebody spells names."""
    return st.sampled_from(("upper", "lower", "title"))


def no_worker(request: WorkerRequest) -> None:
    """Return no worker; the factory of plug-ins whose worker no one creates."""
