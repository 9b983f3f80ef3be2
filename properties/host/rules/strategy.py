"""Configurations that the rules take, and such that they refuse."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.algorithms import ALIAS_OF_EAGLE, WITH_CHECKED_SIZES, SpeculativeAlgorithm, find_algorithm
from specsim.counts import count_candidates
from specsim.properties.composite import composite
from specsim.properties.host.rules.rows import ROWS
from specsim.properties.strategies.arrays import mostly
from specsim.rules import ServerConfig

FAMILY = (*WITH_CHECKED_SIZES, ALIAS_OF_EAGLE, "eagle")
OTHERS = (*(one.value for one in SpeculativeAlgorithm if one not in WITH_CHECKED_SIZES), None)
PLAIN = ("Qwen3ForCausalLM", "DeepseekV3ForCausalLM", "PixtralForConditionalGeneration")
ARCHITECTURES = ("LlamaForCausalLM",) * 3 + PLAIN
SWITCHES = ("mixed_chunk", "multi_layer", "two_batch_overlap", "pdmux", "adaptive")
OPEN = {"topk": None, "num_steps": None, "num_draft_tokens": None}


@composite
def family_configs(draw: DrawFn) -> ServerConfig:
    """Draw a configuration of EAGLE, EAGLE3 or STANDALONE that no rule refuses."""
    values = draw(_common())
    values["algorithm"] = draw(st.sampled_from(FAMILY))
    values["architecture"] = draw(st.sampled_from(ARCHITECTURES))
    values.update(draw(mostly(_trees(), mostly(st.just(OPEN), _chains(), one_in=2), one_in=2)))
    if values["algorithm"] != "STANDALONE":
        values["dp_attention"] = draw(st.booleans())
    is_chain = values["topk"] == 1
    if is_chain:
        values["attention_backend"] = draw(st.sampled_from(("flashinfer", "trtllm_mha", "aiter")))
    values["mode"] = draw(mostly(st.just("auto"), st.sampled_from(("v1", "v2")), one_in=4))
    if is_chain and values["num_steps"] not in (1, 3, 7):
        values["adaptive"] = False
    return ServerConfig(**values)


@composite
def other_configs(draw: DrawFn) -> ServerConfig:
    """Draw a configuration of another algorithm, or of none, that no rule refuses."""
    values = draw(_common())
    values["algorithm"] = draw(st.sampled_from(OTHERS))
    values["mode"] = draw(mostly(st.just("auto"), st.just("v1"), one_in=4))
    if find_algorithm(values["algorithm"], {}).is_dflash():
        values["draft_model_path"] = "draft"
        values["draft_window"] = draw(st.sampled_from((None, 64)))
        values["dflash_block_size"] = draw(st.sampled_from((None, 8, 16)))
    values["attention_backend"] = "flashinfer"
    return ServerConfig(**values)


def configs() -> SearchStrategy[ServerConfig]:
    """Draw any configuration that no rule refuses."""
    return mostly(family_configs(), other_configs(), one_in=4)


def refused_configs() -> SearchStrategy[ServerConfig]:
    """Draw a configuration that a rule refuses: that of a row, with settings that do not matter to it."""
    refused = [row.config for row in ROWS if row.refused is not None]
    values = st.fixed_dictionaries(
        {"mixed_chunk": st.booleans(), "draft_moe_runner_backend": st.sampled_from((None, "auto", "triton"))}
    )
    return st.builds(lambda config, given: replace(config, **given), st.sampled_from(refused), values)


@composite
def _common(draw: DrawFn) -> dict[str, Any]:
    """Draw what every algorithm may have."""
    values: dict[str, Any] = {name: draw(mostly(st.just(False), st.just(True), one_in=3)) for name in SWITCHES}
    values["page_size"] = draw(st.sampled_from((1, 1, 4, 64)))
    values["recurrent"] = draw(mostly(st.just(False), st.just(True), one_in=3))
    values["disable_overlap"] = draw(mostly(st.just(False), st.just(True), one_in=4))
    values["enable_spec_v2"] = draw(mostly(st.just(True), st.just(False), one_in=4))
    values["max_running_requests"] = draw(st.sampled_from((None, 1, 16, 300)))
    values["attention_backend"] = draw(st.sampled_from(("flashinfer", "fa3", "triton")))
    values["draft_moe_runner_backend"] = draw(st.sampled_from((None, "triton")))
    values["draft_model_path"] = draw(st.sampled_from((None, "target", "draft")))
    values["draft_window"] = draw(mostly(st.none(), st.just(64), one_in=3))
    return values


@composite
def _trees(draw: DrawFn) -> dict[str, int]:
    topk, num_steps = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    most = min(1 + count_candidates(topk, num_steps), 64)
    num_draft_tokens = draw(st.integers(min(num_steps + 1, most), most))
    return {"topk": topk, "num_steps": num_steps, "num_draft_tokens": num_draft_tokens}


@composite
def _chains(draw: DrawFn) -> dict[str, int | None]:
    num_steps = draw(st.integers(1, 7))
    num_draft_tokens = draw(st.sampled_from((None, num_steps + 1, 2, 9)))
    return {"topk": 1, "num_steps": num_steps, "num_draft_tokens": num_draft_tokens}
