"""How much a simulation may be asked for: every count is compared with its bound before anything is allocated."""

from specsim.cli.output import Exit, Failed
from specsim.config import MOST_NODES, SpecConfig
from specsim.simulation.memory import required_row_width
from specsim.simulation.models.text_model import TEXT_VOCABULARY
from specsim.simulation.pools import decode_sizes

MOST_REQUESTS = 100_000
"""Prompts of a simulation: each keeps its text and figures to the end."""

MOST_TOKENS = 1 << 20
"""Tokens of a prompt or of an output: autoregressive decoding is asked for each of them."""

SHORT_TEXT = 32
"""Prompts may be asked for that are longer than a text shorter than this; they are as long as the text."""

MOST_BATCH = 4096
"""Requests that run at once: engines capture no larger batches."""

MOST_SLOTS = 16_000_000
"""Slots of all pools of a simulation together, a few gigabytes of tags."""

MOST_PAGE = 1 << 12
"""Slots of a page."""


def check_counts(
    *,
    num_requests: int,
    topk: int,
    num_steps: int,
    num_draft_tokens: int,
    max_batch: int,
    prompt_length: int,
    max_new_tokens: int,
    page_size: int,
    text_length: int,
) -> None:
    """Refuse counts that no simulation can hold.

    Raises
    ------
    Failed
        USAGE, with the option, its bound and the reason.
    """
    bounds = (
        ("--requests", num_requests, MOST_REQUESTS, "every request keeps its text and figures to the end"),
        ("--topk", topk, TEXT_VOCABULARY, "a draft cannot propose more tokens than the model has"),
        ("--steps", num_steps, MOST_NODES - 1, f"a path fits into a tree of {MOST_NODES} nodes"),
        ("--draft-tokens", num_draft_tokens, MOST_NODES, "one block of a kernel holds a tree"),
        ("--batch", max_batch, MOST_BATCH, "larger batches are not captured"),
        ("--prompt-length", prompt_length, max(text_length, SHORT_TEXT), "prompts are cut out of the text"),
        ("--prompt-length", prompt_length, MOST_TOKENS, "each of its tokens is decoded alone, too"),
        ("--max-new-tokens", max_new_tokens, MOST_TOKENS, "each of its tokens is decoded alone, too"),
        ("--page-size", page_size, MOST_PAGE, "a request owns whole pages"),
    )
    for option, value, most, because in bounds:
        if value > most:
            raise Failed(f"{option} is {value}, but should be at most {most}, because {because}", Exit.USAGE)


def check_slots(config: SpecConfig, max_batch: int, longest: int, page_size: int) -> None:
    """Refuse a batch of requests whose slots no simulation can hold.

    Raises
    ------
    Failed
        USAGE.
    """
    num_slots = max_batch * required_row_width(longest, decode_sizes(config), page_size)
    if num_slots > MOST_SLOTS:
        raise Failed(
            f"--batch {max_batch} takes {num_slots} slots for requests of {longest} tokens, but should take at most "
            f"{MOST_SLOTS}, because a slot holds the tags of every layer",
            Exit.USAGE,
        )
