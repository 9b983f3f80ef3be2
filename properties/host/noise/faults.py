"""Faults in the keys of random draws, and in the numbers that they stand for."""

from collections.abc import Callable
from typing import Any

from specsim.host.noise import STEP, WORDS
from specsim.properties.mutants.record import Function, Named, answering, mutants_by_operation, with_arguments

Change = Callable[[Named], dict[str, Any]]


def _with_key(purpose: str, change: Change) -> Callable[[Function], Function]:
    """Inject other parts of the keys of one purpose, or of all (``any``)."""

    def answer(correct: Function, arguments: Named) -> Any:
        if purpose in ("any", arguments["purpose"]):
            arguments = {**arguments, **change(arguments)}
        return correct(**arguments)

    return answering(answer)


def _of(purpose: str, **moved: int) -> Change:
    """Return the change to another purpose, at another position."""
    return lambda arguments: {"purpose": purpose, **{name: arguments[name] + by for name, by in moved.items()}}


def _without(*names: str) -> Change:
    return lambda arguments: dict.fromkeys(names, 0)


def _seed_and_position_added(arguments: Named) -> dict[str, Any]:
    return {"seed": 0, "position": (arguments["seed"] + arguments["position"]) % 2**32}


def _seed_and_position_mixed(arguments: Named) -> dict[str, Any]:
    return {"seed": arguments["seed"] ^ arguments["position"], "position": 0}


def _new_each_time(correct: Function) -> Function:
    """Return keys that count the calls."""
    calls = 0

    def answer(function: Function, arguments: Named) -> Any:
        nonlocal calls
        calls = (calls + 1) % 2**32
        return function(**{**arguments, "purpose": "draft", "epoch": calls})

    return answering(answer)(correct)


def _rounded_to_edges(correct: Function, arguments: Named) -> Any:
    return round(correct(**arguments) * 2**9) / 2**9


def _all_small(correct: Function, arguments: Named) -> Any:
    return max(correct(**arguments) ** 2, STEP / 2)


MUTANTS = mutants_by_operation(
    stream_key=(
        ("OWN-4230", "A rejection draws on the noise of its draft.", _with_key("draft", _of("token"))),
        (
            "OWN-4231",
            "The bonus token is drawn on the last draft's noise.",
            _with_key("draft", _of("token", position=1)),
        ),
        (
            "OWN-4232",
            "Coins of acceptance follow from the position alone.",
            _with_key("accept", _without("column", "epoch")),
        ),
        (
            "OWN-4233",
            "The noise of drafts follows from the position alone.",
            _with_key("draft", _without("column", "epoch")),
        ),
        ("OWN-4234", "The coin of acceptance draws the last token too.", _with_key("accept", _of("final"))),
        ("OWN-4235", "All requests have one stream.", with_arguments(seed=0)),
        ("OWN-4236", "Seed and position are added up.", _with_key("any", _seed_and_position_added)),
        ("OWN-4237", "Seed and position are one word.", _with_key("any", _seed_and_position_mixed)),
        ("OWN-4238", "Half of the seed is left out.", with_arguments(seed=lambda seed: seed % 2**32)),
        ("OWN-4239", "All drafts of an iteration have one coin.", _with_key("accept", _without("column", "position"))),
        ("OWN-4240", "All drafts of an iteration have one noise.", _with_key("draft", _without("column", "position"))),
        ("OWN-4241", "All output tokens have one noise.", _with_key("token", _without("position"))),
        ("OWN-4242", "The coin of acceptance is a number of the last race.", _with_key("accept", _of("token"))),
        ("OWN-4243", "The coin of acceptance is a number of the draft's race.", _with_key("accept", _of("draft"))),
        ("OWN-4244", "A key follows from how many keys there were.", _new_each_time),
    ),
    stream_uniform=(
        ("OWN-4245", "Four tokens have one number.", with_arguments(token=lambda token: token // WORDS * WORDS)),
        ("OWN-4246", "Numbers are rounded, to 0 and 1 too.", answering(_rounded_to_edges)),
        ("OWN-4247", "Small numbers are frequent.", answering(_all_small)),
    ),
)
