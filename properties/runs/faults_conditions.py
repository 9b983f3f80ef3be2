"""Faults that show in a rare condition of a whole run, and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.host.stopping import FinishReason
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Mutant, in_loops, in_scheduler, mutants_of, unchanged, with_pools
from specsim.properties.runs.steps.faults_numbered import Run, around, draft_kept
from specsim.reference.worker.loop import Loop
from specsim.simulation.numbers import Steps

_STARTED = "self._pools.start_iteration()"
_RAN = "after = prefill_target(rows, chunks, self.model, self._pools, self._choices, self._operations)"
_FOLLOWED = "self._waiting.keep(self.side.prefill(after, self._pools), joins=True)"


_ABORTS_LEAVE_NOTHING = edited(
    "self._release(request)",
    """
    if request.finish_reason is FinishReason.ABORT:
        self._part("release_retracted")(self.memory, request.holding)
    else:
        self._release(request)
    """,
    within="Scheduler.finish",
    FinishReason=FinishReason,
)

_DRAWING_AFTER_CHUNKS = edited(
    _STARTED,
    f"""
    {_STARTED}
    pairs = zip(chunks, self._choices.of(np.array(rows, dtype=np.int64)), strict=True)
    cut = [(chunk, chunk.prompt if one.sampling is None else chunk.prompt[: chunk.end]) for chunk, one in pairs]
    chunks = [replace(chunk, prompt=prompt) for chunk, prompt in cut]
    """,
    within=Loop.prefill,
    replace=replace,
)

_WITHOUT_STATES_OF_ONE_TOKEN = edited(
    _RAN,
    f"""
    is_one = [one.next_token is None and one.end - one.start == 1 and one.start > 0 for one in chunks]
    short, states = np.array(rows)[is_one], self._pools.state()["states"]
    before = [state[short] for state in states]
    {_RAN}
    for state, entries in zip(states, before, strict=True):
        state[short] = entries
    """,
    within=Loop.prefill,
)

_DRAFTING_FROM_WHAT_WAS_THERE = edited(
    "self.side.join(rows)",
    """
    self.side.join(rows)
    used = vars(self).setdefault("used_rows", set())
    self.used_again = used.intersection(rows)
    used.update(rows)
    """,
    _FOLLOWED,
    f"""
    again, table = vars(self).get("used_again", ()), self._pools.req_to_token
    pairs = [(row, one) for row, one in zip(rows, chunks, strict=True) if row in again]
    slots = [slot for row, one in pairs for slot in table[row, one.start : one.end].tolist()]
    with draft_kept(self._pools, lambda: slots):
        {_FOLLOWED}
    """,
    within=Loop,
    draft_kept=draft_kept,
)


def _as_narrow_as_the_first(worker: Any, rows: Sequence[int], num_steps: Steps, run: Run) -> Any:
    """Spoil what the last request of a full batch outputs, where more is drafted than in the first iteration."""
    own = [worker.config.num_steps] if num_steps is None else [num_steps] if isinstance(num_steps, int) else num_steps
    most = max(own, default=0)
    first, iteration = vars(worker).setdefault("first_steps", most), run(num_steps)
    if most <= first or len(rows) < worker.sizes.num_rows - 1:
        return iteration
    tokens = iteration.tokens.reshape(len(rows), -1).copy()
    tokens[-1, 0] = (tokens[-1, 0] + 1) % worker.model.description.vocab_size
    return replace(iteration, tokens=tokens)


_EAGLE = (EAGLE_V1, EAGLE_V2)
_USED_AGAIN = "The draft's cache of a row that is used again is not filled by the prompt, with {}."
_WIDE = "Results of a full batch are read by the width of the first iteration, with {}."

_OF_WORKERS = (
    ("OWN-5000", "key_units", "A draft counts as caught up on a text that V1 ended.",
     in_loops(edited("not side.facts.catches_up", "True", within="ReferenceWorkerV1.decode"), "standalone_v1")),
    ("OWN-5001", "key_units", "A scheduler leaves nothing of an aborted request to the cache.",
     in_scheduler(_ABORTS_LEAVE_NOTHING)),
    ("OWN-5002", "generate_coins", "A draft goes on from tokens that are drawn after chunks.",
     in_loops(_DRAWING_AFTER_CHUNKS, *_EAGLE)),
    ("OWN-5003", "assign_draft_cache_locs", "Pages of beams begin with what they had before.",
     in_loops(with_pools(edited("self.move_kv(Side.DRAFT, located.target_slots, located.source_slots, operations)", "",
                                within="Pools.beams")), *_EAGLE)),
    ("OWN-5006", "export_text", "A last chunk of one token is left out of recurrent states.",
     in_loops(_WITHOUT_STATES_OF_ONE_TOKEN, *_EAGLE)),
    *((f"OWN-{number}", "key_units", _USED_AGAIN.format(name), in_loops(_DRAFTING_FROM_WHAT_WAS_THERE, name))
      for number, name in enumerate(("standalone_v2", "dflash", "dflash_v2"), start=5007)),
    *((f"OWN-{number}", "key_units", _WIDE.format(name), in_loops(around(_as_narrow_as_the_first), name))
      for number, name in enumerate(("standalone_v2", "frozen_kv_mtp"), start=5010)),
)  # fmt: skip

MUTANTS = (
    *(Mutant(number, operation, fault, unchanged, **parts) for number, operation, fault, parts in _OF_WORKERS),
    *mutants_of(
        "Meeting",
        ("OWN-5004", "Ranks agree on a kind of forward, not on its layer.",
         edited("layer", "0", within="Meeting.__call__")),
    ),
    *mutants_of(
        "PaddedModel",
        ("OWN-5005", "An idle rank runs the first layer for all.",
         edited("layer", "0", within="PaddedModel.run_padding")),
    ),
)  # fmt: skip
