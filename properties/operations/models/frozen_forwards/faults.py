"""Faults in the forward of a draft without KV: what it reads, where it stands, and what it carries on."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Mutant, Named, answering, given, returning
from specsim.properties.mutants.tables import newest_key_unseen

Array = Any


def _position_of_the_key(arguments: Named) -> None:
    arguments["positions"] = np.maximum(arguments["positions"] - 1, 0)


def _always_the_seed(arguments: Named) -> None:
    arguments["positions"], arguments["depth"] = arguments["positions"] + arguments["depth"] - 1, 1


def _never_the_seed(correct: Function, arguments: Named) -> Any:
    """At depth 1, take the keys for what is still to be added."""
    if arguments["depth"] == 1:
        arguments["depth"], arguments["positions"] = 2, np.maximum(arguments["positions"] - 1, 0)
    return correct(**arguments)


def _values_unread(arguments: Named) -> None:
    arguments["kv_buffers"] = [buffer for buffer in arguments["kv_buffers"][::2] for _ in (0, 1)]


def _first_layer_for_all(arguments: Named) -> None:
    buffers = arguments["kv_buffers"]
    arguments["kv_buffers"] = list(buffers[:2]) * (len(buffers) // 2)


def _words_in_turn(arguments: Named) -> None:
    layers, num_words = arguments["target_layers"], arguments["hidden_states"].shape[1] - 1
    arguments["target_layers"] = np.arange(len(layers), dtype=np.int64) % num_words


def _keys_of_the_first(arguments: Named) -> None:
    first = arguments["kv_indices"][: arguments["kv_indptr"][1:2].sum()]
    count = len(arguments["kv_indptr"]) - 1
    arguments["kv_indices"] = np.tile(first, count).astype(np.int32)
    arguments["kv_indptr"] = (np.arange(count + 1) * len(first)).astype(np.int32)


def _whole_state_carried(outputs: Named, arguments: Named) -> None:
    outputs["next_hidden_states"] = outputs["foreseen_hidden_states"].copy()


def _seed_carried(outputs: Named, arguments: Named) -> None:
    outputs["next_hidden_states"] = arguments["hidden_states"].copy()


def _foreseen_without_the_keys(outputs: Named, arguments: Named) -> None:
    outputs["foreseen_hidden_states"] = outputs["next_hidden_states"].copy()


def _token_written(outputs: Named, arguments: Named) -> None:
    for buffer in arguments["kv_buffers"][:1]:
        buffer[arguments["kv_indices"][arguments["kv_indptr"][1:] - 1], 1] = arguments["input_ids"]


_FORWARD = "frozen_kv_draft_forward"

MUTANTS = (
    Mutant("OWN-2620", _FORWARD, "A token stands one position too early.", given(_position_of_the_key)),
    Mutant("OWN-2621", _FORWARD, "Every forward takes its state for a seed.", given(_always_the_seed)),
    Mutant("OWN-2622", _FORWARD, "The seed is taken for what a forward carried on.", answering(_never_the_seed)),
    Mutant("OWN-2623", _FORWARD, "Values are not read.", given(_values_unread)),
    Mutant("OWN-2624", _FORWARD, "All draft layers read the first one's entries.", given(_first_layer_for_all)),
    Mutant("OWN-2625", _FORWARD, "Draft layers stand for the target's in turn.", given(_words_in_turn)),
    Mutant("OWN-2626", _FORWARD, "The newest key is not seen.", given(newest_key_unseen)),
    Mutant("OWN-2627", _FORWARD, "All beams see the keys of the first.", given(_keys_of_the_first)),
    Mutant("OWN-2628", _FORWARD, "What the keys come to is carried on, too.", returning(_whole_state_carried)),
    Mutant("OWN-2629", _FORWARD, "The state that was given is carried on.", returning(_seed_carried)),
    Mutant("OWN-2630", _FORWARD, "What the keys come to is left out.", returning(_foreseen_without_the_keys)),
    Mutant("OWN-2631", _FORWARD, "A new entry is written over the last key.", returning(_token_written)),
)
