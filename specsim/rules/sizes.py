"""Sizes of a draft: those that follow from the architecture, and those that contradict each other (semantics F.4)."""

from specsim.algorithms import WITH_CHECKED_SIZES
from specsim.config import MOST_PACKED_NODES, SpecConfig
from specsim.counts import path_width
from specsim.rejection import contradiction
from specsim.rules.config import ServerConfig
from specsim.rules.plan import Code, Resolution

CHAIN_OF_THREE = SpecConfig(topk=1, num_steps=3, num_draft_tokens=4)
TREE_OF_EIGHT = SpecConfig(topk=4, num_steps=5, num_draft_tokens=8)
ARCHITECTURES_WITH_TREES = ("LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM")


def choose_sizes(algorithm: str | None, architecture: str) -> SpecConfig:
    """Return the sizes of a draft whose sizes the user left open."""
    if algorithm != "STANDALONE" and architecture in ARCHITECTURES_WITH_TREES:
        return TREE_OF_EIGHT
    return CHAIN_OF_THREE


def expected_topk(config: ServerConfig) -> int:
    """Return topk, or what it becomes if it was left open.

    NOTE: the worker is chosen before the sizes, and must suit those that are chosen after it.
    """
    if config.topk is not None:
        return config.topk
    return choose_sizes(config.algorithm, config.architecture).topk


def fill_sizes(state: Resolution) -> None:
    """Choose the sizes if all were left open; reject a part of them."""
    config = state.config
    if config.num_steps is None:
        for what, got in (("topk", config.topk), ("num_draft_tokens", config.num_draft_tokens)):
            if got is not None:
                raise contradiction("num_steps", None, f"set, or {what} unset", f"{what} alone is {got}")
        sizes = choose_sizes(config.algorithm, config.architecture)
        state.decide(
            Code.SIZES_CHOSEN,
            f"They are topk {sizes.topk}, {sizes.num_steps} steps and {sizes.num_draft_tokens} draft tokens.",
            topk=sizes.topk,
            num_steps=sizes.num_steps,
            num_draft_tokens=sizes.num_draft_tokens,
        )
    elif config.topk is None:
        raise contradiction("topk", None, "set, or num_steps unset", f"num_steps alone is {config.num_steps}")


def fit_chain(state: Resolution) -> None:
    """Give a chain as many nodes as it has levels, and its root."""
    config = state.config
    if config.topk != 1 or config.num_steps is None:
        return
    nodes = path_width(config.num_steps)
    if config.num_draft_tokens == nodes:
        return
    given = "unset" if config.num_draft_tokens is None else config.num_draft_tokens
    state.warn(Code.CHAIN_LENGTH, f"num_draft_tokens is {nodes}, not {given}.", num_draft_tokens=nodes)


def check_steps(config: ServerConfig) -> None:
    """Reject drafts of no step that would never have another number of steps; adaptive ones may rest."""
    if config.algorithm in WITH_CHECKED_SIZES and config.num_steps == 0 and not config.adaptive:
        because = "without a step nothing is proposed, and the number of steps does not adapt"
        raise contradiction("num_steps", 0, "at least 1, or the adaptive controller where it works", because)


def check_sizes(config: ServerConfig) -> None:
    """Reject sizes that are no tree, and trees that a packed mask cannot hold."""
    if config.num_draft_tokens is None:
        because = f"a tree with topk {config.topk} has no size of its own"
        raise contradiction("num_draft_tokens", None, "set", because)
    SpecConfig(config.topk or 0, config.num_steps or 0, config.num_draft_tokens)
    if config.packed_mask and config.num_draft_tokens > MOST_PACKED_NODES:
        expected = f"at most {MOST_PACKED_NODES}, or packed_mask off"
        because = "a packed mask has one bit a node"
        raise contradiction("num_draft_tokens", config.num_draft_tokens, expected, because)
