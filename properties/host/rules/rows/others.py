"""Rows of the other algorithms and of the adaptive controller (semantics F.5, F.6)."""

from functools import partial

from specsim.host.adaptive import AdaptiveConfig, AdaptiveSlot
from specsim.properties.host.rules.rows.record import CHOSEN, INFO, WARNING, row, settled, tree
from specsim.rules import Code

_other = partial(row, "F.5")
_adaptive = partial(row, "F.6")
_V1 = ("v1", (Code.ALGORITHM_WITHOUT_V2, WARNING))
_V1_QUIET = ("v1", (Code.ALGORITHM_WITHOUT_V2, INFO))
_FIXED = ("v2", CHOSEN, (Code.ADAPTIVE_DISABLED, WARNING))
_NO_OVERLAP = {"disable_overlap": True}
_DFLASH = partial(
    settled, "DFLASH", topk=1, num_steps=1, num_draft_tokens=16, draft_model_path="draft", draft_revision="a1"
)
_FROZEN = partial(settled, "FROZEN_KV_MTP")
_NGRAM = partial(settled, "NGRAM", topk=10, num_draft_tokens=12)
_CORPUS = partial(_NGRAM, ngram_corpus="corpus", ngram_sam_budget=4)
_AT_REST = partial(settled, adaptive=True, num_steps=0, num_draft_tokens=1)
_RESTING = {"adaptive_config": AdaptiveConfig((AdaptiveSlot(1, (0, 1, 3)), AdaptiveSlot(64, (0,))))}
_GIVEN = AdaptiveConfig((AdaptiveSlot(1, (2, 4)),))

DFLASH = (
    _other("DFLASH", _DFLASH(), *_V1),
    _other("DFLASH with overlap off", _DFLASH(**_NO_OVERLAP), *_V1_QUIET),
    _other("DFLASH with data-parallel attention", _DFLASH(dp_attention=True), refused="dp_attention"),
    _other("DFLASH on two stages", _DFLASH(pp_size=2), refused="pp_size"),
    _other("DFLASH without draft", _DFLASH(draft_model_path=None, draft_revision=None), refused="draft_model_path"),
    _other("DFLASH with steps and beams", _DFLASH(topk=4, num_steps=3), *_V1, (Code.DFLASH_SIZES, WARNING),
           topk=1, num_steps=1),
    _other("DFLASH with steps and beams open", _DFLASH(topk=None, num_steps=None), *_V1, (Code.DFLASH_SIZES, INFO),
           topk=1, num_steps=1),
    _other("DFLASH with an empty block", _DFLASH(dflash_block_size=0), refused="dflash_block_size"),
    _other("DFLASH with two sizes", _DFLASH(dflash_block_size=8), refused="num_draft_tokens"),
    _other("DFLASH with one size twice", _DFLASH(dflash_block_size=16), *_V1),
    _other("DFLASH with a block", _DFLASH(dflash_block_size=8, dflash_draft_block_size=4, num_draft_tokens=None),
           *_V1, (Code.DFLASH_BLOCK, INFO), num_draft_tokens=8),
    _other("DFLASH with the draft's block", _DFLASH(dflash_draft_block_size=4, num_draft_tokens=None),
           *_V1, (Code.DFLASH_BLOCK_OF_DRAFT, INFO), num_draft_tokens=4),
    _other("DFLASH without any block", _DFLASH(num_draft_tokens=None), *_V1, (Code.DFLASH_BLOCK_DEFAULT, WARNING),
           num_draft_tokens=16),
    _other("DFLASH with a window below its block", _DFLASH(draft_window=15), refused="draft_window"),
    _other("DFLASH with a window of its block", _DFLASH(draft_window=16), *_V1),
)  # fmt: skip

FROZEN_AND_NGRAM = (
    _other("FROZEN_KV_MTP", _FROZEN(), *_V1),
    _other("FROZEN_KV_MTP with overlap off", _FROZEN(**_NO_OVERLAP), *_V1_QUIET),
    _other("FROZEN_KV_MTP of any size", _FROZEN(topk=1, num_draft_tokens=9), *_V1),
    _other("NGRAM", _NGRAM(), *_V1),
    _other("NGRAM elsewhere", _NGRAM(device="cpu"), refused="device"),
    _other("NGRAM with mixed chunk", _NGRAM(mixed_chunk=True), *_V1, (Code.MIXED_CHUNK_OFF, WARNING),
           mixed_chunk=False),
    _other("NGRAM with topk", _NGRAM(topk=2, ngram_max_bfs_breadth=3), *_V1, (Code.NGRAM_TOPK, INFO), topk=3),
    _other("NGRAM without draft tokens", _NGRAM(num_draft_tokens=None), *_V1, (Code.NGRAM_DRAFT_TOKENS, WARNING),
           num_draft_tokens=12),
    _other("NGRAM with a root alone", _NGRAM(num_draft_tokens=1), refused="num_draft_tokens"),
    _other("NGRAM with a corpus", _CORPUS(), *_V1),
    _other("NGRAM with a corpus without budget", _CORPUS(ngram_sam_budget=0), refused="ngram_sam_budget"),
    _other("NGRAM with a corpus of every draft", _CORPUS(ngram_sam_budget=11), *_V1),
    _other("NGRAM with a corpus of more", _CORPUS(ngram_sam_budget=12), refused="ngram_sam_budget"),
    _other("NGRAM with an empty corpus", _CORPUS(ngram_corpus_max_tokens=0), refused="ngram_corpus_max_tokens"),
    _other("NGRAM on pages", _NGRAM(page_size=4), *_V1),
    _other("NGRAM on pages of fa3", _NGRAM(page_size=4, attention_backend="fa3"), refused="attention_backend"),
    _other("NGRAM chain on pages of fa3", _NGRAM(page_size=4, attention_backend="fa3", topk=1, ngram_max_bfs_breadth=1),
           *_V1),
    _other("NGRAM with data-parallel attention", _NGRAM(dp_attention=True), refused="dp_attention"),
)  # fmt: skip

ADAPTIVE = (
    _adaptive("adaptive chain", settled(adaptive=True)),
    _adaptive("adaptive EAGLE3", settled("EAGLE3", adaptive=True)),
    _adaptive("adaptive STANDALONE", settled("STANDALONE", adaptive=True), *_FIXED, adaptive=False),
    _adaptive("adaptive tree", tree(adaptive=True), *_FIXED, adaptive=False),
    *(
        _adaptive(f"adaptive with {name}", settled(adaptive=True, **{name: True}), *_FIXED, adaptive=False)
        for name in ("dp_attention", "multi_layer", "two_batch_overlap", "pdmux")
    ),
    _adaptive("adaptive start between candidates", settled(adaptive=True, num_steps=2, num_draft_tokens=3),
              refused="num_steps"),
    _adaptive("adaptive start at another candidate", settled(adaptive=True, num_steps=7, num_draft_tokens=8)),
    _adaptive("adaptive start at rest", _AT_REST(**_RESTING)),
    _adaptive("adaptive start at rest, which is no candidate", _AT_REST(), refused="num_steps"),
    _adaptive("always at rest", _AT_REST(adaptive=False), refused="num_steps"),
    *(
        _adaptive(f"at rest with {name}, which keeps it there", _AT_REST(**_RESTING, **{name: True}),
                  refused="num_steps")
        for name in ("dp_attention", "pdmux")
    ),
    _adaptive("a tree at rest", _AT_REST(topk=2, **_RESTING), refused="topk"),
    _adaptive("adaptive STANDALONE at rest", _AT_REST("STANDALONE", **_RESTING), refused="num_steps"),
    _adaptive("adaptive start among given candidates", settled(
        adaptive=True, num_steps=2, num_draft_tokens=3, adaptive_config=_GIVEN)),
)  # fmt: skip

ROWS = (*DFLASH, *FROZEN_AND_NGRAM, *ADAPTIVE)
