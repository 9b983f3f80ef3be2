"""Faults in the forward of a draft without KV: what it reads, where it stands, and what it carries on."""

from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Named, given, mutants_of, returning, with_arguments
from specsim.properties.mutants.tables import newest_key_unseen

Array = Any


def _keys_of_the_first(arguments: Named) -> None:
    first = arguments["kv_indices"][: arguments["kv_indptr"][1:2].sum()]
    count = len(arguments["kv_indptr"]) - 1
    arguments["kv_indices"] = np.tile(first, count).astype(np.int32)
    arguments["kv_indptr"] = (np.arange(count + 1) * len(first)).astype(np.int32)


def _token_written(outputs: Named, arguments: Named) -> None:
    for buffer in arguments["kv_buffers"][:1]:
        buffer[arguments["kv_indices"][arguments["kv_indptr"][1:] - 1], 1] = arguments["input_ids"]


_position_of_the_key = with_arguments(positions=lambda positions: np.maximum(positions - 1, 0))
_values_unread = edited("read_digests(kv_buffers, sight)", "read_digests(np.repeat(kv_buffers[::2], 2, axis=0), sight)")
_words_in_turn = edited(
    "enumerate(target_layers.tolist())", "enumerate(np.arange(axes['layer']) % (hidden_states.shape[1] - 1))"
)
_RETURNED = "FrozenKvDraftForwardOutputs((foreseen - known) & MASK, foreseen, digest_rows(folds))"
_never_the_seed = edited("differs * GOLDEN if depth == 1 else folds[:, layer]", "folds[:, layer]")
_seed_carried = edited("(foreseen - known) & MASK", "hidden_states.copy()")
_foreseen_without_the_keys = edited(_RETURNED, _RETURNED.replace("foreseen, ", "(foreseen - known) & MASK, "))

MUTANTS = mutants_of(
    "frozen_kv_draft_forward",
    ("OWN-2620", "A token stands one position too early.", _position_of_the_key),
    ("OWN-2621", "Every forward takes its state for a seed.", edited("depth == 1", "True")),
    ("OWN-2622", "The seed is taken for what a forward carried on.", _never_the_seed),
    ("OWN-2623", "Values are not read.", _values_unread),
    ("OWN-2624", "All draft layers read the first one's entries.", edited("digests(layer)", "digests(0)")),
    ("OWN-2625", "Draft layers stand for the target's in turn.", _words_in_turn),
    ("OWN-2626", "The newest key is not seen.", given(newest_key_unseen)),
    ("OWN-2627", "All beams see the keys of the first.", given(_keys_of_the_first)),
    ("OWN-2628", "What the keys come to is carried on, too.", edited("foreseen - known", "foreseen")),
    ("OWN-2629", "The state that was given is carried on.", _seed_carried),
    ("OWN-2630", "What the keys come to is left out.", _foreseen_without_the_keys),
    ("OWN-2631", "A new entry is written over the last key.", returning(_token_written)),
)
