"""The rules in order, those of each algorithm (semantics F.2, F.5) after those of all."""

from collections.abc import Callable
from dataclasses import fields

from specsim.algorithms import DRAFTERS, WITH_CHECKED_SIZES, CustomSpecAlgo, SpeculativeAlgorithm
from specsim.counts import count_draft_nodes
from specsim.host.adaptive import require_candidate
from specsim.rejection import contradiction
from specsim.rules import common
from specsim.rules.common import bound_running_requests, switch_mixed_chunk_off
from specsim.rules.config import ServerConfig
from specsim.rules.plan import Code, ExecutionPlan, Resolution
from specsim.rules.sizes import check_sizes, check_steps, fill_sizes, fit_chain
from specsim.rules.worker import choose_for_plugin, choose_without_overlap, choose_worker


def resolve(config: ServerConfig) -> ExecutionPlan:
    """Decide what runs a configuration.

    Parameters
    ----------
    config : ServerConfig
        As the user gives it.

    Returns
    -------
    plan : ExecutionPlan
        Resolving the settings of a plan again changes nothing.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: settings contradict each other; ``expected`` says what to change.
        UNKNOWN_NAME: there is no such algorithm.

    Notes
    -----
    Source: semantics F.1, F.2, F.3, F.4, F.5, F.6.
    """
    state = Resolution(config)
    common.require_ranges(config)
    if config.algorithm is not None and config.algorithm.upper() != SpeculativeAlgorithm.NONE:
        common.fill_draft_defaults(state)
    common.resolve_name(state)
    algorithm = SpeculativeAlgorithm.from_string(state.config.algorithm)
    common.check_draft_window(state)
    if isinstance(algorithm, CustomSpecAlgo):
        _validate_plugin(state, algorithm)
    common.check_skip_dp_sync(state)
    if algorithm.is_none():
        state.decide(Code.NOT_SPECULATIVE)
    else:
        common.check_pipeline(state)
        common.check_recurrent_buffer(state)
        if isinstance(algorithm, CustomSpecAlgo):
            choose_for_plugin(state, algorithm)
        else:
            _rules_of(algorithm)(state)
        common.check_snapshots(state)
    resolve_adaptive(state)
    check_steps(state.config)
    return state.plan()


ADAPTIVE = {drafter.algorithm for drafter in DRAFTERS.values() if drafter.adapts}
"""Algorithms whose depth may change from batch to batch."""


def resolve_adaptive(state: Resolution) -> None:
    """Switch the adaptive controller off where it cannot run (semantics F.6)."""
    config = state.config
    if not config.adaptive:
        return
    obstacles = [
        name
        for name, is_there in (
            (f"the algorithm {config.algorithm}", config.algorithm not in ADAPTIVE),
            (f"topk {config.topk}", config.topk != 1),
            ("data-parallel attention", config.dp_attention),
            ("a layer a draft step", config.multi_layer),
            ("two-batch overlap", config.two_batch_overlap),
            ("prefill multiplexing", config.pdmux),
        )
        if is_there
    ]
    if obstacles:
        state.warn(Code.ADAPTIVE_DISABLED, f"It does not work with {', '.join(obstacles)}.", adaptive=False)
    else:
        require_candidate(config.num_steps, config.adaptive_config)


def _rules_of(algorithm: SpeculativeAlgorithm) -> Callable[[Resolution], None]:
    """Return the rules of a built-in algorithm that drafts."""
    if algorithm in WITH_CHECKED_SIZES:
        return resolve_eagle
    if algorithm.is_dflash():
        return resolve_dflash
    return resolve_frozen_kv_mtp if algorithm.is_frozen_kv_mtp() else resolve_ngram


def _validate_plugin(state: Resolution, plugin: CustomSpecAlgo) -> None:
    if plugin.validate_server_args is None:
        return
    adjusted = plugin.validate_server_args(state.config)
    if adjusted is None or adjusted == state.config:
        return
    if not isinstance(adjusted, ServerConfig):
        got = type(adjusted).__name__
        raise contradiction("validate_server_args", got, "a ServerConfig or None", f"{plugin.name} returned it")
    changed = {entry.name: vars(adjusted)[entry.name] for entry in fields(ServerConfig)}
    state.decide(Code.PLUGIN_ADJUSTED, **changed)


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


DEFAULT_DFLASH_BLOCK = 16
DEFAULT_NGRAM_DRAFT_TOKENS = 12


def resolve_dflash(state: Resolution) -> None:
    """Apply the rules of DFLASH."""
    refuse_dp_attention(state.config)
    if state.config.draft_model_path is None:
        raise contradiction("draft_model_path", None, "set", "DFLASH has a draft model of its own")
    _limit_batches_and_overlap(state)
    _force_one_step(state)
    _size_block(state)
    config = state.config
    if config.draft_window is not None and config.draft_window < (config.num_draft_tokens or 0):
        expected = f"at least the block, {config.num_draft_tokens}, or unset"
        raise contradiction("draft_window", config.draft_window, expected, "a window holds a whole block")


def resolve_frozen_kv_mtp(state: Resolution) -> None:
    """Apply the rules of FROZEN_KV_MTP, which leave its sizes alone."""
    _limit_batches_and_overlap(state)


def resolve_ngram(state: Resolution) -> None:
    """Apply the rules of NGRAM."""
    if state.config.device != "cuda":
        because = "the verify kernels of NGRAM run on CUDA devices"
        raise contradiction("device", state.config.device, "cuda, or another algorithm", because)
    _limit_batches_and_overlap(state)
    breadth = state.config.ngram_max_bfs_breadth
    if state.config.topk != breadth:
        state.decide(Code.NGRAM_TOPK, f"It is {breadth}.", topk=breadth)
    if state.config.num_draft_tokens is None:
        about = f"It is {DEFAULT_NGRAM_DRAFT_TOKENS}."
        state.warn(Code.NGRAM_DRAFT_TOKENS, about, num_draft_tokens=DEFAULT_NGRAM_DRAFT_TOKENS)
    config = state.config
    num_draft_tokens = config.num_draft_tokens or 0
    if num_draft_tokens < 2:
        because = "a draft holds the root and at least one token"
        raise contradiction("num_draft_tokens", num_draft_tokens, "at least 2", because)
    _check_corpus(config, num_draft_tokens)
    if breadth > 1 and config.page_size > 1 and config.attention_backends != {"flashinfer"}:
        unable = sorted(config.attention_backends - {"flashinfer"})[0]
        because = f"it cannot read a tree of breadth {breadth} out of pages of {config.page_size}"
        raise contradiction("attention_backend", unable, "flashinfer, or page size 1, or breadth 1", because)
    refuse_dp_attention(config)


def refuse_dp_attention(config: ServerConfig) -> None:
    """Reject data-parallel attention."""
    if config.dp_attention:
        because = f"{config.algorithm} drafts are not split over attention ranks"
        raise contradiction("dp_attention", True, "False, or another algorithm", because)


def _limit_batches_and_overlap(state: Resolution) -> None:
    bound_running_requests(state)
    choose_without_overlap(state)
    switch_mixed_chunk_off(state)


def _force_one_step(state: Resolution) -> None:
    given = {"num_steps": state.config.num_steps, "topk": state.config.topk}
    different = [name for name, value in given.items() if value != 1]
    if not different:
        return
    was_set = [name for name in different if given[name] is not None]
    note = state.warn if was_set else state.decide
    note(Code.DFLASH_SIZES, f"{' and '.join(different)} become 1.", num_steps=1, topk=1)


def _size_block(state: Resolution) -> None:
    config = state.config
    block, num_draft_tokens = config.dflash_block_size, config.num_draft_tokens
    for what in ("dflash_block_size", "dflash_draft_block_size", "num_draft_tokens"):
        value = vars(config)[what]
        if value is not None and value <= 0:
            raise contradiction(what, value, "at least 1, or unset", "a block holds tokens")
    if block is not None:
        if num_draft_tokens is not None and num_draft_tokens != block:
            expected = f"{block}, the block size, or unset"
            raise contradiction("num_draft_tokens", num_draft_tokens, expected, "DFLASH drafts one block")
        if num_draft_tokens is None:
            state.decide(Code.DFLASH_BLOCK, num_draft_tokens=block)
    elif num_draft_tokens is None and config.dflash_draft_block_size is not None:
        state.decide(Code.DFLASH_BLOCK_OF_DRAFT, num_draft_tokens=config.dflash_draft_block_size)
    elif num_draft_tokens is None:
        about = f"The number of draft tokens is {DEFAULT_DFLASH_BLOCK}."
        state.warn(Code.DFLASH_BLOCK_DEFAULT, about, num_draft_tokens=DEFAULT_DFLASH_BLOCK)


def _check_corpus(config: ServerConfig, num_draft_tokens: int) -> None:
    if config.ngram_corpus is None:
        return
    most = count_draft_nodes(num_draft_tokens)
    if not 1 <= config.ngram_sam_budget <= most:
        expected = f"1 to {most}, or no external corpus"
        because = f"a draft of {num_draft_tokens} tokens shares its {most} with the corpus"
        raise contradiction("ngram_sam_budget", config.ngram_sam_budget, expected, because)
    if config.ngram_corpus_max_tokens < 1:
        because = "an external corpus holds tokens"
        raise contradiction("ngram_corpus_max_tokens", config.ngram_corpus_max_tokens, "at least 1", because)
