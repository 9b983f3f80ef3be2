"""Rules of DFLASH, FROZEN_KV_MTP and NGRAM (semantics F.5)."""

from specsim.counts import count_draft_nodes
from specsim.rejection import contradiction
from specsim.rules.common import bound_running_requests, switch_mixed_chunk_off
from specsim.rules.config import ServerConfig
from specsim.rules.plan import Code
from specsim.rules.resolution import Resolution
from specsim.rules.worker import choose_without_overlap

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
