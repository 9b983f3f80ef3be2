"""Rules of EAGLE, EAGLE3 and STANDALONE, in order (semantics F.2)."""

from specsim.rejection import contradiction
from specsim.rules.common import bound_running_requests, switch_mixed_chunk_off
from specsim.rules.plan import Code
from specsim.rules.resolution import Resolution
from specsim.rules.sizes import check_sizes, fill_sizes, fit_chain
from specsim.rules.worker import choose_worker

BUILT_IN_DRAFTS = (
    "BailingMoeForCausalLM",
    "BailingMoeV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "Glm4MoeForCausalLM",
    "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration",
)
"""Target architectures with draft layers of their own."""

WITH_SEPARATE_DRAFT = ("MistralLarge3ForCausalLM", "PixtralForConditionalGeneration")
"""Those of them whose draft layers are published as a model of their own."""

BACKENDS_OF_PAGED_TREES = ("flashinfer", "fa3", "triton")


def resolve_eagle(state: Resolution) -> None:
    """Apply the rules of the family."""
    if state.config.algorithm == "STANDALONE" and state.config.dp_attention:
        because = "a standalone draft model is not split over attention ranks"
        raise contradiction("dp_attention", True, "False, or another algorithm", because)
    bound_running_requests(state)
    choose_worker(state)
    switch_mixed_chunk_off(state)
    find_draft_model(state)
    fill_sizes(state)
    check_backends_of_trees(state)
    fit_chain(state)
    check_backends_of_paged_trees(state)
    check_sizes(state.config)


def find_draft_model(state: Resolution) -> None:
    """Take the draft layers of the target itself, or say that they are not used."""
    config = state.config
    if config.architecture not in BUILT_IN_DRAFTS:
        return
    if config.draft_model_path is None:
        state.decide(
            Code.BUILT_IN_DRAFT,
            "The draft model is the target.",
            draft_model_path=config.model_path,
            draft_revision=config.revision or "main",
        )
    elif config.draft_model_path != config.model_path and config.architecture not in WITH_SEPARATE_DRAFT:
        state.warn(Code.BUILT_IN_DRAFT_UNUSED, f"The draft model is {config.draft_model_path}.")


def check_backends_of_trees(state: Resolution) -> None:
    """Reject attention that knows no tree mask."""
    config = state.config
    if "trtllm_mha" in config.attention_backends and config.topk is not None and config.topk > 1:
        because = "trtllm_mha has no tree mask"
        raise contradiction("topk", config.topk, "1, or another attention backend", because)


def check_backends_of_paged_trees(state: Resolution) -> None:
    """Reject attention that cannot read a tree out of pages."""
    config = state.config
    unable = sorted(config.attention_backends.difference(BACKENDS_OF_PAGED_TREES))
    if config.topk is not None and config.topk > 1 and config.page_size > 1 and unable:
        expected = f"one of {', '.join(BACKENDS_OF_PAGED_TREES)}, or page size 1, or topk 1"
        because = f"it cannot read a tree of topk {config.topk} out of pages of {config.page_size}"
        raise contradiction("attention_backend", unable[0], expected, because)
