"""What the toy models say of themselves: tagged KV, and exact logits."""

from functools import partial

from specsim.rejection import contradiction
from specsim.simulation.models.confidence import TOY_HEAD
from specsim.simulation.models.description import FINAL_LAYER, DraftSource, ModelDescription, Side
from specsim.simulation.models.ground_truth import LanguageModel, Prefix
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import (
    DRAFT_KINDS,
    PoolKind,
    kv_components,
    state_components,
    swa_components,
)


def describe(language_model: LanguageModel, arrays: str) -> ModelDescription:
    """Return the description of a toy model whose forwards compute on arrays of a kind.

    A KV entry is a tag of four words, stored as the kinds of its pools say; a hidden state has one fold a layer of the
    target, and the context word.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a draft with recurrent state or a sliding window.
    """
    if language_model.draft_pool not in DRAFT_KINDS:
        raise contradiction(
            what="draft_pool",
            got=language_model.draft_pool.value,
            expected=" or ".join(kind.value for kind in DRAFT_KINDS),
            because="a worker keeps recurrent state and SWA slots of the target alone",
        )
    num_layers, sharing = language_model.num_target_layers, language_model.kv_sharing
    num_draft_layers = language_model.num_draft_layers if sharing is None else 0
    source = language_model.draft_source if sharing is None else DraftSource.TARGET_KV
    layers = tuple(range(num_layers)) if language_model.reads_all_layers else ()
    return ModelDescription(
        name=type(language_model).__name__,
        arrays=arrays,
        vocab_size=language_model.vocab_size,
        kv_components=(
            *kv_components(language_model.target_pool, Side.TARGET, num_layers),
            *(kv_components(language_model.draft_pool, Side.DRAFT, num_draft_layers) if num_draft_layers else ()),
            *swa_components(window_of(language_model)),
        ),
        hidden_width=num_layers + 1,
        hidden_dtype="int64",
        draft_source=source,
        num_assistant_layers=len(sharing or ()),
        target_layer_of=dict(enumerate(sharing or ())),
        draft_hidden_width=0 if source is DraftSource.TOKENS else num_layers + 1,
        draft_layers=layers or (FINAL_LAYER,),
        auxiliary_layers=layers,
        hot_token_id=language_model.hot_token_id,
        state_components=state_components(language_model.target_pool, num_layers),
        has_sampling_logits=isinstance(language_model, HashModel),
        token_by_token=partial(Prefix, language_model),
        confidence_head=TOY_HEAD,
    )


def window_of(language_model: LanguageModel) -> int:
    """Return how many positions the layer with a sliding window sees; 0 where there is none."""
    return language_model.window if language_model.target_pool is PoolKind.SWA else 0


def kind_of(language_model: LanguageModel, side: Side) -> PoolKind:
    """Return the kind of pool of a side."""
    return language_model.target_pool if side is Side.TARGET else language_model.draft_pool
