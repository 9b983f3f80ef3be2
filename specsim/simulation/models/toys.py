"""What the toy models say of themselves: tagged KV, and exact logits."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar

from specsim.simulation.models.description import KVComponent, ModelDescription, Side
from specsim.simulation.models.ground_truth import LanguageModel, Prefix
from specsim.simulation.models.hash_model import HashModel

ArrayT = TypeVar("ArrayT")
TAG_WORDS = 4
KEYS, VALUES = "keys", "values"


def describe(language_model: LanguageModel, arrays: str) -> ModelDescription:
    """Return the description of a toy model whose forwards compute on arrays of a kind.

    A KV entry is a tag of four words; a hidden state has one fold a layer of the target, and the context word.
    """
    layers = ((Side.TARGET, language_model.num_target_layers), (Side.DRAFT, language_model.num_draft_layers))
    width = language_model.num_target_layers + 1
    return ModelDescription(
        name=type(language_model).__name__,
        arrays=arrays,
        vocab_size=language_model.vocab_size,
        kv_components=tuple(
            KVComponent(name, (TAG_WORDS,), "int64", count, side) for side, count in layers for name in (KEYS, VALUES)
        ),
        hidden_width=width,
        hidden_dtype="int64",
        draft_hidden_width=width,
        hot_token_id=language_model.hot_token_id,
        has_sampling_logits=isinstance(language_model, HashModel),
        token_by_token=partial(Prefix, language_model),
    )


def layered(kv: Mapping[str, Sequence[ArrayT]]) -> list[ArrayT]:
    """Return the buffers of a toy model as its forwards take them: K and V of each layer, in turn."""
    return [buffer for layer in zip(kv[KEYS], kv[VALUES], strict=True) for buffer in layer]
