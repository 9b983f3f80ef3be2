"""Faults in the registry: names that are forgotten, checks that check nothing."""

from collections.abc import Container

from specsim.algorithms import Algorithm, SpeculativeAlgorithm, missing_predicates, reserved_names
from specsim.properties.mutants.record import Function, Mutant, Named, answering, unchecked
from specsim.rejection import Reason, SpecRejection

_BY_HAND = reserved_names() - {"FROZEN_KV_MTP"}


def _refuse(reason: Reason, name: str) -> None:
    raise SpecRejection(reason, what="name", got=name, expected="another name", because="it is in use")


def _reserved_by_hand(name: str, spec_class: type, taken: Container[str]) -> str:
    return _check(name, spec_class, taken, _BY_HAND, missing_predicates(spec_class))


def _predicates_from_dir(name: str, spec_class: type, taken: Container[str]) -> str:
    asked = [entry for entry in dir(SpeculativeAlgorithm) if entry.startswith(("is_", "supports_"))]
    missing = tuple(entry for entry in asked if entry not in dir(spec_class))
    return _check(name, spec_class, taken, reserved_names(), missing)


def _taken_as_written(name: str, spec_class: type, taken: Container[str]) -> str:
    others = {entry for entry in (name,) if entry in taken}
    return _check(name, spec_class, others, reserved_names(), missing_predicates(spec_class))


def _class_first(correct: Function, arguments: Named) -> object:
    missing = missing_predicates(arguments["spec_class"])
    if missing:
        raise TypeError(f"the class lacks {', '.join(missing)}")
    return correct(**arguments)


def _check(
    name: str, spec_class: type, taken: Container[str], reserved: frozenset[str], missing: tuple[str, ...]
) -> str:
    capitals = name.upper()
    if capitals in reserved:
        _refuse(Reason.RESERVED_NAME, name)
    if capitals in taken:
        _refuse(Reason.DUPLICATE_NAME, name)
    if missing:
        raise TypeError(f"{spec_class.__name__} lacks {', '.join(missing)}")
    return capitals


def _plugins_first(correct: Function, arguments: Named) -> object:
    name, plugins = arguments["name"], arguments["plugins"]
    return plugins[name.upper()] if name is not None and name.upper() in plugins else correct(**arguments)


def _unknown_is_none(correct: Function, arguments: Named) -> object:
    try:
        return correct(**arguments)
    except SpecRejection:
        return SpeculativeAlgorithm.NONE


def _any_draft_worker(algorithm: Algorithm, num_draft_tokens: int, is_draft_worker: bool) -> int:
    return algorithm.get_num_tokens_per_bs_for_target_verify(num_draft_tokens, is_draft_worker)


def _support_by_name(algorithm: Algorithm, num_draft_tokens: int, is_draft_worker: bool) -> int:
    if is_draft_worker and not algorithm.is_dflash():
        raise RuntimeError("only DFLASH supports a target verify of its draft worker")
    return algorithm.get_num_tokens_per_bs_for_target_verify(num_draft_tokens, is_draft_worker)


def _configured_width(correct: Function, arguments: Named) -> object:
    correct(**arguments)
    return arguments["num_draft_tokens"]


_CHECK, _FIND, _WIDTH = "check_registration", "find_algorithm", "target_verify_width"

MUTANTS = (
    Mutant("OWN-152", _CHECK, "The reserved names are a list that lacks FROZEN_KV_MTP.", unchecked(_reserved_by_hand)),
    Mutant("OWN-153", _CHECK, "The predicates come from dir() of the enum: none.", unchecked(_predicates_from_dir)),
    Mutant("OWN-154", _CHECK, "A name is taken only in the case it was written in.", unchecked(_taken_as_written)),
    Mutant("OWN-155", _CHECK, "The class is checked before the name.", answering(_class_first)),
    Mutant("OWN-156", _FIND, "A plug-in hides a built-in algorithm.", answering(_plugins_first)),
    Mutant("OWN-157", _FIND, "An unknown name drafts nothing.", answering(_unknown_is_none)),
    Mutant("OWN-158", _WIDTH, "Any draft worker runs a target verify.", unchecked(_any_draft_worker)),
    Mutant("OWN-386", _WIDTH, "Support is asked of the name, not of the row.", unchecked(_support_by_name)),
    Mutant("OWN-159", _WIDTH, "The width is that of the configuration.", answering(_configured_width)),
)
