"""Faults of ranks that run the same requests and decide by themselves."""

from dataclasses import replace
from typing import Any

from specsim.properties.mutants.record import Function, Mutant, overriding

_MODEL = "OneVoiceModel"


def _own(correct: Function, model: Any, what: str, own: Any) -> Any:
    """Take part, and go on with what was computed here."""
    correct(model, what, own)
    return own


def _own_proposals(correct: Function, model: Any, output: Any) -> Any:
    correct(model, output)
    return output


def _own_sampling_logits(correct: Function, model: Any, output: Any) -> Any:
    said = correct(model, output)
    return said if output.sampling_logits is None else replace(said, sampling_logits=output.sampling_logits)


def _own_first_tokens(correct: Function, model: Any, *args: Any) -> Any:
    """After a prompt every rank chooses by itself; from then on they agree."""
    return model.inner.prefill(*args)


def _everybody_speaks(correct: Function, model: Any, what: str, own: Any) -> Any:
    words = model._form.words_of(own)
    return model._form.values_of(model.group.sum(what, words), own)


MUTANTS = (
    Mutant("S15", _MODEL, "Each rank samples its own decisions.", overriding(_said=_own)),
    Mutant("OWN-2380", _MODEL, "Ranks agree on decisions, not on drafts.", overriding(_draft=_own_proposals)),
    Mutant("OWN-2381", _MODEL, "Ranks agree where all are greedy.", overriding(_target=_own_sampling_logits)),
    Mutant("OWN-2382", _MODEL, "Each rank has its own first token.", overriding(prefill=_own_first_tokens)),
    Mutant("OWN-2383", _MODEL, "All ranks speak at once.", overriding(_said=_everybody_speaks)),
)
