"""Laws of the registry: which names are free, what a plug-in's class must have, and what a name finds."""

from functools import partial
from typing import Any

from specsim.algorithms import Algorithm, CustomSpecAlgo, Flags, SpeculativeAlgorithm
from specsim.conformance.backend import Backend
from specsim.properties.host.algorithms import strategy as strategies
from specsim.properties.laws.checks import for_each, outcome_of, require, states
from specsim.rejection import Reason


def registrations_are_checked_in_order(backend: Backend, case: strategies.Registration) -> None:
    """Reserved names are refused first, then taken ones, then classes that lack predicates; else the name is free."""
    capitals = case.name.upper()
    got = outcome_of(partial(_register, backend, case), TypeError)
    expected: object = capitals
    if capitals in strategies.RESERVED:
        expected = Reason.RESERVED_NAME
    elif capitals in case.taken:
        expected = Reason.DUPLICATE_NAME
    elif case.lacking:
        expected = TypeError
    require(got == expected, f"registration of {case}", got, expected)


def lacking_predicates_are_named(backend: Backend, case: strategies.Registration) -> None:
    """A class that lacks predicates is refused with their names and no others."""
    lonely = strategies.Registration("MINE", case.lacking, frozenset())
    try:
        _register(backend, lonely)
    except TypeError as error:
        words = str(error).replace(",", " ").split()
        named = tuple(sorted(set(words) & set(strategies.PREDICATES)))
        require(named == lonely.lacking, "predicates that are named", named, lonely.lacking)
        return
    require(not lonely.lacking, "refusal", "none", f"one that names {', '.join(lonely.lacking)}")


def built_in_names_are_reserved(backend: Backend, spelling: str) -> None:
    """No plug-in may take the name of a built-in algorithm or of an alias, in any case."""
    for name in strategies.RESERVED:
        named = strategies.Registration(strategies.spelt(name, spelling), (), frozenset())
        got = outcome_of(partial(_register, backend, named))
        require(got is Reason.RESERVED_NAME, f"registration of {name}", got, Reason.RESERVED_NAME)


def names_are_found_in_any_case(backend: Backend, case: strategies.Lookup) -> None:
    """A name finds the built-in algorithm, else the plug-in, else nothing; no name finds NONE."""
    names = (*strategies.BUILT_IN, *strategies.PLUGIN_NAMES, "NEXTN", "")
    expected: dict[str | None, object] = dict.fromkeys(names, Reason.UNKNOWN_NAME)
    expected.update(case.plugins)
    expected.update({name: SpeculativeAlgorithm[name] for name in strategies.BUILT_IN})
    expected[None] = SpeculativeAlgorithm.NONE
    for name, algorithm in expected.items():
        written = None if name is None else strategies.spelt(name, case.spelling)
        got = outcome_of(partial(backend.host("find_algorithm"), written, case.plugins))
        require(got == algorithm, f"what {written!r} finds", got, algorithm)


def draft_workers_verify_only_with_support(backend: Backend, case: strategies.Width) -> None:
    """The algorithm says how many tokens a request brings; a draft worker brings some only where that is supported."""
    flags = Flags(supports_target_verify_for_draft=True)
    plugins: list[Algorithm] = [
        CustomSpecAlgo("PLAIN", strategies.no_worker),
        CustomSpecAlgo("BY_ITS_ROW", strategies.no_worker, flags=flags),
        strategies.OneTokenLess("ONE_TOKEN_LESS", strategies.no_worker),
    ]
    for algorithm in [*SpeculativeAlgorithm, *plugins]:
        supported = not case.is_draft_worker or algorithm.name in ("DFLASH", "BY_ITS_ROW", "ONE_TOKEN_LESS")
        less = int(algorithm.name == "ONE_TOKEN_LESS" and case.is_draft_worker)
        width = partial(backend.host("target_verify_width"), algorithm, case.num_draft_tokens, case.is_draft_worker)
        got = outcome_of(width, RuntimeError)
        expected = case.num_draft_tokens - less if supported else RuntimeError
        require(got == expected, f"tokens of {algorithm.name}, {case}", got, expected)


def _register(backend: Backend, case: strategies.Registration) -> Any:
    """Register a class that has every predicate but those it lacks."""
    body = {name: (lambda self: False) for name in strategies.PREDICATES if name not in case.lacking}
    return backend.host("check_registration")(case.name, type("Described", (), body), case.taken)


PROPERTIES = states(
    "algorithms",
    (for_each(registrations_are_checked_in_order), strategies.several_registrations, "check_registration"),
    (for_each(lacking_predicates_are_named), strategies.several_registrations, "check_registration"),
    (built_in_names_are_reserved, strategies.spellings, "check_registration"),
    (names_are_found_in_any_case, strategies.lookups, "find_algorithm"),
    (draft_workers_verify_only_with_support, strategies.widths, "target_verify_width", "P60"),
)
