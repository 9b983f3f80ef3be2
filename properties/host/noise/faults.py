"""Faults in the keys of random draws, and in the numbers that they stand for."""

from collections.abc import Callable
from itertools import count
from typing import Any

from specsim.properties.mutants.record import Function, answering, edits_of, given, mutants_of, with_arguments


def _of(purpose: str, /, **changes: Any) -> Callable[[Function], Function]:
    """Inject other parts of the keys of one purpose: each a value, or a function of the own one."""

    def inject(correct: Function) -> Function:
        faulty = with_arguments(**changes)(correct)
        return answering(lambda correct, own: (faulty if own["purpose"] == purpose else correct)(**own))(correct)

    return inject


_ADDED = given(lambda own: own.update(seed=0, position=(own["seed"] + own["position"]) % 2**32))
_MIXED = given(lambda own: own.update(seed=own["seed"] ^ own["position"], position=0))


def _new_each_time(correct: Function) -> Function:
    """Return keys that count the calls."""
    calls = count(1)
    return given(lambda own: own.update(purpose="draft", epoch=next(calls) % 2**32))(correct)


MUTANTS = (
    *mutants_of(
        "stream_key",
        ("OWN-4230", "A rejection draws on the noise of its draft.", _of("draft", purpose="token")),
        (
            "OWN-4231",
            "The bonus token is drawn on the last draft's noise.",
            _of("draft", purpose="token", position=lambda own: own + 1),
        ),
        ("OWN-4232", "Coins of acceptance follow from the position alone.", _of("accept", column=0, epoch=0)),
        ("OWN-4233", "The noise of drafts follows from the position alone.", _of("draft", column=0, epoch=0)),
        ("OWN-4234", "The coin of acceptance draws the last token too.", _of("accept", purpose="final")),
        ("OWN-4235", "All requests have one stream.", with_arguments(seed=0)),
        ("OWN-4236", "Seed and position are added up.", _ADDED),
        ("OWN-4237", "Seed and position are one word.", _MIXED),
        ("OWN-4238", "Half of the seed is left out.", with_arguments(seed=lambda seed: seed % 2**32)),
        ("OWN-4239", "All drafts of an iteration have one coin.", _of("accept", column=0, position=0)),
        ("OWN-4240", "All drafts of an iteration have one noise.", _of("draft", column=0, position=0)),
        ("OWN-4241", "All output tokens have one noise.", _of("token", position=0)),
        ("OWN-4242", "The coin of acceptance is a number of the last race.", _of("accept", purpose="token")),
        ("OWN-4243", "The coin of acceptance is a number of the draft's race.", _of("accept", purpose="draft")),
        ("OWN-4244", "A key follows from how many keys there were.", _new_each_time),
    ),
    *edits_of(
        """
    @@ stream_uniform
    OWN-4245 Four tokens have one number.
    - words[token % WORDS] => words[0]
    OWN-4246 Numbers are rounded, to 0 and 1 too.
    - float((words[token % WORDS] + 0.5) * STEP) => round(float((words[token % WORDS] + 0.5) * STEP) * 2**9) / 2**9
    OWN-4247 Small numbers are frequent.
    - float((words[token % WORDS] + 0.5) * STEP) => max(float((words[token % WORDS] + 0.5) * STEP) ** 2, STEP / 2)
    """
    ),
)
