"""Rows of EAGLE, EAGLE3 and STANDALONE: rules, choice of the worker, sizes (semantics F.2, F.3, F.4)."""

from functools import partial
from typing import Any

from specsim.properties.host.rules.rows.record import CHOSEN, INFO, WARNING, row, settled, tree
from specsim.rules import Code

_family = partial(row, "F.2")
_choice = partial(row, "F.3")
_sizes = partial(row, "F.4")
_NO_OVERLAP: dict[str, Any] = {"disable_overlap": True}
_OPEN = {"topk": None, "num_steps": None, "num_draft_tokens": None}
_CHAIN: dict[str, Any] = {"topk": 1, "num_steps": 3, "num_draft_tokens": 4}
_TREE: dict[str, Any] = {"topk": 4, "num_steps": 5, "num_draft_tokens": 8}
_CHOSEN_SIZES = (Code.SIZES_CHOSEN, INFO)
_LENGTH = (CHOSEN, (Code.CHAIN_LENGTH, WARNING))
_PAGED = (Code.PAGED_TREE, WARNING)
_DISABLED = (Code.OVERLAP_DISABLED, WARNING)
_NOT_ENABLED = (Code.V2_NOT_ENABLED, WARNING)
_FORCED_V1, _FORCED_V2, _SYNCHRONOUS = ((code, INFO) for code in (Code.FORCED_V1, Code.FORCED_V2, Code.V2_SYNCHRONOUS))
_BUILT_IN = (CHOSEN, (Code.BUILT_IN_DRAFT, INFO))
_DEEPSEEK = "DeepseekV3ForCausalLM"
_DRAFT = {"draft_model_path": "draft", "draft_revision": "a1"}

FAMILY = (
    _family("STANDALONE with data-parallel attention", settled("STANDALONE", dp_attention=True),
            refused="dp_attention"),
    _family("EAGLE with data-parallel attention", settled(dp_attention=True)),
    _family("built-in draft", settled(architecture=_DEEPSEEK, model_path="m", revision="r"), "v2", *_BUILT_IN,
            draft_model_path="m", draft_revision="r"),
    _family("built-in draft of no revision", settled("EAGLE3", architecture="Glm4MoeForCausalLM"), "v2", *_BUILT_IN,
            draft_model_path="target", draft_revision="main"),
    _family("built-in draft not used", settled(architecture=_DEEPSEEK, **_DRAFT), "v2",
            CHOSEN, (Code.BUILT_IN_DRAFT_UNUSED, WARNING)),
    _family("draft that is published apart", settled(architecture="PixtralForConditionalGeneration", **_DRAFT)),
    _family("topk without steps", settled(num_steps=None, num_draft_tokens=None), refused="num_steps"),
    _family("draft tokens without steps", settled(num_steps=None, topk=None), refused="num_steps"),
    _family("steps without topk", settled(topk=None), refused="topk"),
    _family("trtllm_mha with a chain", settled(attention_backend="trtllm_mha")),
    _family("trtllm_mha with a tree", tree(attention_backend="trtllm_mha"), refused="topk"),
    _family("trtllm_mha in decodes of a tree", tree(decode_attention_backend="trtllm_mha"), refused="topk"),
    _family("trtllm_mha in prefills of a tree", tree(prefill_attention_backend="trtllm_mha"), refused="topk"),
    _family("long chain", settled(num_draft_tokens=9), "v2", *_LENGTH, num_draft_tokens=4),
    _family("short chain", settled(num_draft_tokens=2), "v2", *_LENGTH, num_draft_tokens=4),
    _family("open chain", settled(num_draft_tokens=None), "v2", *_LENGTH, num_draft_tokens=4),
    _family("tree without draft tokens", tree(num_draft_tokens=None), refused="num_draft_tokens"),
    *(
        _family(f"paged tree on {backend}", tree(page_size=4, attention_backend=backend), "v1", _PAGED)
        for backend in ("flashinfer", "fa3", "triton")
    ),
    _family("paged tree on another backend", tree(page_size=4, attention_backend="aiter"), refused="attention_backend"),
    _family("paged chain on another backend", settled(page_size=4, attention_backend="aiter")),
    _family("tree on another backend", tree(attention_backend="aiter")),
    _family("no beams", settled(topk=0), refused="topk"),
    _family("no steps", settled(num_steps=0), refused="num_steps"),
    _family("tree below one path", tree(num_draft_tokens=3), refused="num_draft_tokens"),
    _family("tree of one path", tree(num_draft_tokens=4)),
    _family("tree of every candidate", tree(num_draft_tokens=11)),
    _family("tree above its candidates", tree(num_draft_tokens=12), refused="num_draft_tokens"),
    _family("tree of 1024", tree(topk=32, num_draft_tokens=1024)),
    _family("tree above 1024", tree(topk=32, num_draft_tokens=1025), refused="num_draft_tokens"),
    _family("packed mask of 32", tree(topk=8, num_draft_tokens=32, packed_mask=True)),
    _family("packed mask of 33", tree(topk=8, num_draft_tokens=33, packed_mask=True), refused="num_draft_tokens"),
)  # fmt: skip

CHOICE = (
    _choice("chain", settled(page_size=64, recurrent=True)),
    _choice("tree on single slots", tree()),
    _choice("STANDALONE tree", tree("STANDALONE")),
    _choice("tree on pages", tree("EAGLE3", page_size=64), "v1", _PAGED),
    _choice("tree for a recurrent target", tree(recurrent=True), "v1", (Code.RECURRENT_TREE, WARNING)),
    _choice("tree with neither", tree(page_size=2, recurrent=True), "v1", _PAGED),
    _choice("overlap off", settled(**_NO_OVERLAP), "v1", _DISABLED),
    _choice("overlap off before pages", tree(page_size=2, **_NO_OVERLAP), "v1", _DISABLED),
    _choice("V2 not enabled", tree(enable_spec_v2=False), "v1", _NOT_ENABLED),
    _choice("pages before V2 not enabled", tree(page_size=2, enable_spec_v2=False), "v1", _PAGED),
    _choice("open tree on pages", settled(**_OPEN, architecture="LlamaForCausalLM", page_size=4), "v1",
            _PAGED, _CHOSEN_SIZES, **_TREE),
    _choice("V1 forced", tree(mode="v1"), "v1", _FORCED_V1),
    _choice("V1 forced on pages", tree(mode="v1", page_size=4), "v1", _FORCED_V1),
    _choice("V2 forced", tree(mode="v2"), "v2", _FORCED_V2),
    _choice("V2 forced without overlap", settled(mode="v2", **_NO_OVERLAP), "v2", _SYNCHRONOUS),
    _choice("V2 forced but not enabled", tree(mode="v2", enable_spec_v2=False), "v2", _SYNCHRONOUS, **_NO_OVERLAP),
    _choice("V2 forced on a paged tree", tree(mode="v2", page_size=4), "v2", _FORCED_V2),
    _choice("V2 forced on a paged tree of another backend", tree(mode="v2", page_size=4, attention_backend="aiter"),
            refused="attention_backend"),
    _choice("V2 forced on a recurrent tree", tree(mode="v2", recurrent=True), "v2", _FORCED_V2),
    _choice("V2 forced on FROZEN_KV_MTP", settled("FROZEN_KV_MTP", mode="v2"), "v2", (Code.V2_STEP_BY_STEP, INFO),
            **_NO_OVERLAP),
    _choice("V1 forced on NGRAM", settled("NGRAM", mode="v1", topk=10), "v1", _FORCED_V1),
)  # fmt: skip

SIZES = tuple(
    _sizes(trigger, settled(algorithm, **_OPEN, architecture=architecture), "v2", CHOSEN, _CHOSEN_SIZES, **chosen)
    for trigger, algorithm, architecture, chosen in (
        ("STANDALONE", "STANDALONE", "", _CHAIN),
        ("STANDALONE on Llama", "STANDALONE", "LlamaForCausalLM", _CHAIN),
        *((name, "EAGLE3", name, _TREE) for name in ("LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM")),
        ("another architecture", "EAGLE", "Qwen3ForCausalLM", _CHAIN),
    )
)

ROWS = (*FAMILY, *CHOICE, *SIZES)
