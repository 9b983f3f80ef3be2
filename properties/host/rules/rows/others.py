"""Rows of the other algorithms and of the adaptive controller (semantics F.5, F.6)."""

from functools import partial

from specsim.host.adaptive import AdaptiveConfig, AdaptiveSlot
from specsim.properties.host.rules.rows.record import INFO, V2, WARNING, Row, settled, tree
from specsim.rules import Code

_other = partial(Row, "F.5")
_adaptive = partial(Row, "F.6")
_V1 = ((Code.ALGORITHM_WITHOUT_V2, WARNING),)
_V1_QUIET = ((Code.ALGORITHM_WITHOUT_V2, INFO),)
_NO_OVERLAP = {"disable_overlap": True}
_NO_MIX = (Code.MIXED_CHUNK_OFF, WARNING)
_RESTING = AdaptiveConfig((AdaptiveSlot(1, (0, 1, 3)), AdaptiveSlot(64, (0,))))
_DFLASH = partial(
    settled, "DFLASH", topk=1, num_steps=1, num_draft_tokens=16, draft_model_path="draft", draft_revision="a1"
)
_NGRAM = partial(settled, "NGRAM", topk=10, num_draft_tokens=12)
_CORPUS = partial(_NGRAM, ngram_corpus="corpus", ngram_sam_budget=4)
_ONE_STEP = {"topk": 1, "num_steps": 1}
_FIXED = (*V2, (Code.ADAPTIVE_DISABLED, WARNING))
_OFF = {"adaptive": False}

DFLASH = (
    _other("DFLASH", _DFLASH(), "v1", _V1, _NO_OVERLAP),
    _other("DFLASH with overlap off", _DFLASH(**_NO_OVERLAP), "v1", _V1_QUIET),
    _other("DFLASH with data-parallel attention", _DFLASH(dp_attention=True), refused="dp_attention"),
    _other("DFLASH on two stages", _DFLASH(pp_size=2), refused="pp_size"),
    _other("DFLASH without draft", _DFLASH(draft_model_path=None, draft_revision=None), refused="draft_model_path"),
    _other(
        "DFLASH with steps and beams",
        _DFLASH(topk=4, num_steps=3),
        "v1",
        (*_V1, (Code.DFLASH_SIZES, WARNING)),
        {**_ONE_STEP, **_NO_OVERLAP},
    ),
    _other(
        "DFLASH with steps and beams open",
        _DFLASH(topk=None, num_steps=None),
        "v1",
        (*_V1, (Code.DFLASH_SIZES, INFO)),
        {**_ONE_STEP, **_NO_OVERLAP},
    ),
    _other("DFLASH with an empty block", _DFLASH(dflash_block_size=0), refused="dflash_block_size"),
    _other("DFLASH with two sizes", _DFLASH(dflash_block_size=8), refused="num_draft_tokens"),
    _other("DFLASH with one size twice", _DFLASH(dflash_block_size=16), "v1", _V1, _NO_OVERLAP),
    _other(
        "DFLASH with a block",
        _DFLASH(dflash_block_size=8, dflash_draft_block_size=4, num_draft_tokens=None),
        "v1",
        (*_V1, (Code.DFLASH_BLOCK, INFO)),
        {"num_draft_tokens": 8, **_NO_OVERLAP},
    ),
    _other(
        "DFLASH with the draft's block",
        _DFLASH(dflash_draft_block_size=4, num_draft_tokens=None),
        "v1",
        (*_V1, (Code.DFLASH_BLOCK_OF_DRAFT, INFO)),
        {"num_draft_tokens": 4, **_NO_OVERLAP},
    ),
    _other(
        "DFLASH without any block",
        _DFLASH(num_draft_tokens=None),
        "v1",
        (*_V1, (Code.DFLASH_BLOCK_DEFAULT, WARNING)),
        {"num_draft_tokens": 16, **_NO_OVERLAP},
    ),
    _other("DFLASH with a window below its block", _DFLASH(draft_window=15), refused="draft_window"),
    _other("DFLASH with a window of its block", _DFLASH(draft_window=16), "v1", _V1, _NO_OVERLAP),
)

FROZEN_AND_NGRAM = (
    _other("FROZEN_KV_MTP", settled("FROZEN_KV_MTP"), "v1", _V1, _NO_OVERLAP),
    _other("FROZEN_KV_MTP with overlap off", settled("FROZEN_KV_MTP", **_NO_OVERLAP), "v1", _V1_QUIET),
    _other("FROZEN_KV_MTP of any size", settled("FROZEN_KV_MTP", topk=1, num_draft_tokens=9), "v1", _V1, _NO_OVERLAP),
    _other("NGRAM", _NGRAM(), "v1", _V1, _NO_OVERLAP),
    _other("NGRAM elsewhere", _NGRAM(device="cpu"), refused="device"),
    _other("NGRAM with mixed chunk", _NGRAM(mixed_chunk=True), "v1", (*_V1, _NO_MIX),
           {"mixed_chunk": False, **_NO_OVERLAP}),
    _other("NGRAM with topk", _NGRAM(topk=2, ngram_max_bfs_breadth=3), "v1", (*_V1, (Code.NGRAM_TOPK, INFO)),
           {"topk": 3, **_NO_OVERLAP}),
    _other("NGRAM without draft tokens", _NGRAM(num_draft_tokens=None), "v1",
           (*_V1, (Code.NGRAM_DRAFT_TOKENS, WARNING)), {"num_draft_tokens": 12, **_NO_OVERLAP}),
    _other("NGRAM with a root alone", _NGRAM(num_draft_tokens=1), refused="num_draft_tokens"),
    _other("NGRAM with a corpus", _CORPUS(), "v1", _V1, _NO_OVERLAP),
    _other("NGRAM with a corpus without budget", _CORPUS(ngram_sam_budget=0), refused="ngram_sam_budget"),
    _other("NGRAM with a corpus of every draft", _CORPUS(ngram_sam_budget=11), "v1", _V1, _NO_OVERLAP),
    _other("NGRAM with a corpus of more", _CORPUS(ngram_sam_budget=12), refused="ngram_sam_budget"),
    _other("NGRAM with an empty corpus", _CORPUS(ngram_corpus_max_tokens=0), refused="ngram_corpus_max_tokens"),
    _other("NGRAM on pages", _NGRAM(page_size=4), "v1", _V1, _NO_OVERLAP),
    _other("NGRAM on pages of fa3", _NGRAM(page_size=4, attention_backend="fa3"), refused="attention_backend"),
    _other("NGRAM chain on pages of fa3", _NGRAM(page_size=4, attention_backend="fa3", topk=1, ngram_max_bfs_breadth=1),
           "v1", _V1, _NO_OVERLAP),
    _other("NGRAM with data-parallel attention", _NGRAM(dp_attention=True), refused="dp_attention"),
)  # fmt: skip

ADAPTIVE = (
    _adaptive("adaptive chain", settled(adaptive=True)),
    _adaptive("adaptive EAGLE3", settled("EAGLE3", adaptive=True)),
    _adaptive("adaptive STANDALONE", settled("STANDALONE", adaptive=True), "v2", _FIXED, _OFF),
    _adaptive("adaptive tree", tree(adaptive=True), "v2", _FIXED, _OFF),
    *(
        _adaptive(f"adaptive with {name}", settled(adaptive=True, **{name: True}), "v2", _FIXED, _OFF)
        for name in ("dp_attention", "multi_layer", "two_batch_overlap", "pdmux")
    ),
    _adaptive("adaptive start between candidates", settled(adaptive=True, num_steps=2, num_draft_tokens=3),
              refused="num_steps"),
    _adaptive("adaptive start at another candidate", settled(adaptive=True, num_steps=7, num_draft_tokens=8)),
    _adaptive("adaptive start at rest", settled(
        adaptive=True, num_steps=0, num_draft_tokens=1, adaptive_config=_RESTING)),
    _adaptive("adaptive start at rest, which is no candidate", settled(adaptive=True, num_steps=0, num_draft_tokens=1),
              refused="num_steps"),
    _adaptive("always at rest", settled(num_steps=0, num_draft_tokens=1), refused="num_steps"),
    *(
        _adaptive(f"at rest with {name}, which keeps it there", settled(
            adaptive=True, num_steps=0, num_draft_tokens=1, adaptive_config=_RESTING, **{name: True}),
            refused="num_steps")
        for name in ("dp_attention", "pdmux")
    ),
    _adaptive("a tree at rest", tree(adaptive=True, num_steps=0, num_draft_tokens=1, adaptive_config=_RESTING),
              refused="topk"),
    _adaptive("adaptive STANDALONE at rest", settled(
        "STANDALONE", adaptive=True, num_steps=0, num_draft_tokens=1, adaptive_config=_RESTING), refused="num_steps"),
    _adaptive("adaptive start among given candidates", settled(
        adaptive=True, num_steps=2, num_draft_tokens=3, adaptive_config=AdaptiveConfig((AdaptiveSlot(1, (2, 4)),)))),
)  # fmt: skip

ROWS = (*DFLASH, *FROZEN_AND_NGRAM, *ADAPTIVE)
