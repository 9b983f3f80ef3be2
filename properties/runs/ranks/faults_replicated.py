"""Faults of ranks that run the same requests and decide by themselves."""

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_of

_VALUES = "self._form.values_of(said, own)"
_PROPOSED = "replace(output, probabilities=self._said('proposals', output.probabilities))"

MUTANTS = mutants_of(
    "OneVoiceModel",
    ("S15", "Each rank samples its own decisions.", edited(_VALUES, "own", within="OneVoiceModel._said")),
    ("OWN-2380", "Ranks agree on decisions, not on drafts.",
     edited(f"return {_PROPOSED}", f"{_PROPOSED}\nreturn output", within="OneVoiceModel._draft")),
    ("OWN-2381", "Ranks agree where all are greedy.",
     edited("replace(output, logits=self._said('logits', output.logits), sampling_logits=sampled)",
            "replace(output, logits=self._said('logits', output.logits))", within="OneVoiceModel._target")),
    ("OWN-2382", "Each rank has its own first token.",
     edited("self._target(self.inner.prefill(batch, kv, states))", "self.inner.prefill(batch, kv, states)",
            within="OneVoiceModel.prefill")),
    ("OWN-2383", "All ranks speak at once.",
     edited("broadcast_decision(what, self._form.words_of(own), self.group)",
            "self.group.sum(what, self._form.words_of(own))", within="OneVoiceModel._said")),
)  # fmt: skip
