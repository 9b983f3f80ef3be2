"""Groups of options of ``specsim simulate``: sampling, rules about logits, the store of NGRAM, and the text."""

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from specsim.cli.output import Exit, Failed
from specsim.config import MOST_NODES, SpecConfig
from specsim.host.acceptance import Acceptance
from specsim.host.logit_rules import NO_RULES, LogitRules
from specsim.host.ngram import NgramParameters
from specsim.host.sampling import ALL_TOKENS, LARGEST_SEED, SamplingParameters
from specsim.rejection import SpecRejection
from specsim.simulation.memory import required_row_width
from specsim.simulation.models.text_model import TEXT_VOCABULARY, default_text
from specsim.simulation.ngram import figures_of
from specsim.simulation.pools import decode_sizes
from specsim.simulation.worker import Worker

_SAMPLING = (
    click.option(
        "--temperature",
        default=0.0,
        show_default=True,
        type=float,
        help="Temperature of hash model or checkpoint; 0: greedy.",
    ),
    click.option("--top-k", type=click.IntRange(1), help="Sample among the k likeliest tokens."),
    click.option("--top-p", default=1.0, show_default=True, type=float, help="Sample among this share of the mass."),
    click.option(
        "--min-p", default=0.0, show_default=True, type=float, help="Threshold of a token, as a share of the likeliest."
    ),
    click.option(
        "--sampling-seed",
        default=0,
        show_default=True,
        type=click.IntRange(0, LARGEST_SEED),
        help="Sampling seed of the first request; each next request has the next seed.",
    ),
    click.option(
        "--acceptance",
        default=Acceptance.TOKEN.value,
        show_default=True,
        type=click.Choice([rule.value for rule in Acceptance]),
        help="Rule by which sampled requests accept drafts; block is for chains.",
    ),
)


def with_options(options: Sequence[Callable[..., Any]], command: Callable[..., None]) -> Callable[..., None]:
    """Add options to a command, in their order."""
    return functools.reduce(lambda function, option: option(function), reversed(options), command)


def with_sampling(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets ``acceptance``, and ``sampling``: None if nothing is sampled."""

    @functools.wraps(command)
    def called(
        *,
        temperature: float,
        top_k: int | None,
        top_p: float,
        min_p: float,
        sampling_seed: int,
        acceptance: str,
        **others: Any,
    ) -> None:
        sampling = parameters_of(temperature, ALL_TOKENS if top_k is None else top_k, top_p, min_p, sampling_seed)
        if sampling is None and acceptance != Acceptance.TOKEN:
            raise Failed(f"--acceptance {acceptance} needs a --temperature above 0", Exit.USAGE)
        if sampling is not None and others["kind"] == "text":
            raise Failed("--temperature needs --model hash: the text model has no logits for sampling", Exit.USAGE)
        command(sampling=sampling, acceptance=acceptance, **others)

    return with_options(_SAMPLING, called)


def parameters_of(temperature: float, top_k: int, top_p: float, min_p: float, seed: int) -> SamplingParameters | None:
    """Return sampling parameters, or None at temperature 0.

    Raises
    ------
    Failed
        USAGE: a parameter outside its range, or filters at temperature 0, where they do nothing.
    """
    try:
        parameters = SamplingParameters(temperature, top_k, top_p, min_p, seed=seed)
    except SpecRejection as rejection:
        option = f"--{rejection.what.replace('_', '-')}"
        raise Failed(f"{option} is {rejection.got}, but should be {rejection.expected}", Exit.USAGE) from rejection
    if not parameters.is_greedy:
        return parameters
    if (top_k, top_p, min_p, seed) != (ALL_TOKENS, 1.0, 0.0, 0):
        raise Failed("--top-k, --top-p, --min-p and --sampling-seed need a --temperature above 0", Exit.USAGE)
    return None


LARGEST_BYTE = 255

_LOGIT_RULES = (
    click.option(
        "--frequency-penalty",
        default=0.0,
        show_default=True,
        type=float,
        help="Penalty of a token for each time it occurred.",
    ),
    click.option(
        "--presence-penalty",
        default=0.0,
        show_default=True,
        type=float,
        help="Penalty of a token that occurred at all.",
    ),
    click.option(
        "--repetition-penalty",
        default=1.0,
        show_default=True,
        type=float,
        help="Divisor of the logits of tokens that occurred.",
    ),
    click.option(
        "--logit-bias",
        "biases",
        multiple=True,
        metavar="BYTE:BIAS",
        help="Bias that is added to the logit of a byte; repeatable.",
    ),
    click.option(
        "--min-tokens",
        default=0,
        show_default=True,
        type=click.IntRange(0),
        help="Forbid tokens that end an output before it has so many.",
    ),
    click.option(
        "--bad-word", "bad_words", multiple=True, metavar="STRING", help="Text that no output may have; repeatable."
    ),
    click.option(
        "--relaxed-penalties", is_flag=True, help="Count one token of each verify, as engines do: not lossless."
    ),
)


def with_logit_rules(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as ``logit_rules``: None if nothing is asked for."""

    @functools.wraps(command)
    def called(
        *,
        frequency_penalty: float,
        presence_penalty: float,
        repetition_penalty: float,
        biases: tuple[str, ...],
        min_tokens: int,
        bad_words: tuple[str, ...],
        relaxed_penalties: bool,
        **others: Any,
    ) -> None:
        try:
            rules = LogitRules(
                frequency_penalty,
                presence_penalty,
                repetition_penalty,
                tuple(map(_bias_of, biases)),
                min_tokens,
                tuple(tuple(word.encode(errors="surrogateescape")) for word in bad_words),
            )
        except SpecRejection as rejection:
            message = f"{rejection.what} = {rejection.got}, but should be {rejection.expected}"
            raise Failed(message, Exit.USAGE) from rejection
        if rules.has_strengths and others["kind"] == "text":
            message = "penalties and biases need --model hash: the text model has no logits that make a distribution"
            raise Failed(message, Exit.USAGE)
        rules = LogitRules(**{**vars(rules), "is_exact": not relaxed_penalties})
        command(logit_rules=None if rules == NO_RULES else rules, **others)

    return with_options(_LOGIT_RULES, called)


def _bias_of(text: str) -> tuple[int, float]:
    token, _, bias = text.partition(":")
    try:
        number, value = int(token), float(bias)
    except ValueError as error:
        raise Failed(f"--logit-bias {text}: should be a byte, a colon and a number, like 65:2.5", Exit.USAGE) from error
    if not 0 <= number <= LARGEST_BYTE:
        raise Failed(f"--logit-bias {text}: {number}, but should be 0 to {LARGEST_BYTE}", Exit.USAGE)
    return number, value


_STORE = (
    click.option(
        "--corpus",
        "corpora",
        multiple=True,
        type=click.Path(path_type=Path, readable=False),
        help="Text that NGRAM drafts from as well; may be repeated.",
    ),
    click.option("--corpus-budget", type=click.IntRange(0), help="Nodes of a draft that all --corpus share."),
    click.option("--capacity", type=click.IntRange(1), help="Nodes that the store of NGRAM remembers: 10000000."),
)


@dataclass(frozen=True)
class StoreOptions:
    """What a user says of a store; None and nothing stand for what NGRAM has by default."""

    corpora: tuple[Path, ...] = ()
    corpus_budget: int | None = None
    capacity: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What the rules take of it."""
        if not self.corpora:
            return {}
        return {"ngram_corpus": ", ".join(map(str, self.corpora)), "ngram_sam_budget": self.corpus_budget or 0}

    def fill(self, drafting: Any) -> Any:
        """Return the drafting of a worker, with the texts and the capacity of its store if it has one.

        Raises
        ------
        Failed
            USAGE: a text cannot be read, or is empty.
        SpecRejection
            BAD_CONFIGURATION: no path fits beside the root.
        """
        if not isinstance(drafting, NgramParameters):
            return drafting
        capacity = drafting.capacity if self.capacity is None else self.capacity
        texts = tuple((tuple(_bytes_of("--corpus", path)),) for path in self.corpora)
        return replace(drafting, capacity=capacity, corpora=texts, corpus_budget=self.corpus_budget or 0)


def with_store(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as ``store``."""

    @functools.wraps(command)
    def called(*, corpora: tuple[Path, ...], corpus_budget: int | None, capacity: int | None, **others: Any) -> None:
        store = StoreOptions(corpora, corpus_budget, capacity)
        if store != StoreOptions() and others["algorithm"] != "NGRAM":
            raise Failed("--corpus, --corpus-budget and --capacity are for NGRAM", Exit.USAGE)
        if corpus_budget is not None and not corpora:
            raise Failed("--corpus-budget needs a --corpus that drafts in it", Exit.USAGE)
        command(store=store, **others)

    return with_options(_STORE, called)


def store_figures(worker: Worker) -> dict[str, Any]:
    """Return how much the store of a worker remembers and forgot; nothing of a worker without a store."""
    figures = figures_of(worker)
    return {"store": figures} if figures else {}


def require_alone(option: str, *others: str) -> None:
    """Check that an option is given without some others.

    Raises
    ------
    Failed
        USAGE: one of them is given too.
    """
    given = first_given(others)
    if given is not None:
        raise Failed(f"{given} is given, but should be absent, because {option} says what drafts", Exit.USAGE)


def first_given(names: Collection[str]) -> str | None:
    """Return the first option of the command that is given among those of some names, None if none is."""
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in names and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT:
            return parameter.opts[0]
    return None


def bytes_as_text(text: str) -> str:
    """Return one character for each byte of a text, as the models do, whose tokens are bytes."""
    return text.encode(errors="surrogateescape").decode("latin-1")


def text_of_bytes(text: str) -> str:
    """Return the text whose bytes these characters stand for."""
    return text.encode("latin-1").decode(errors="replace")


def read_text(path: Path | None) -> bytes:
    """Return the bytes of a text file, or of the default text.

    Raises
    ------
    Failed
        USAGE: the file cannot be read, or is empty.
    """
    if path is None:
        return default_text()
    return _bytes_of("--text", path, refuses_devices=True)


def _bytes_of(option: str, path: Path, refuses_devices: bool = False) -> bytes:
    """Return the bytes of a text that an option names, which are its tokens.

    Raises
    ------
    Failed
        USAGE: it cannot be read, or is empty.
    """
    try:
        if refuses_devices and (path.is_char_device() or path.is_block_device()):
            raise Failed(f"{option} {path}: a device, but should be a file", Exit.USAGE)
        text = path.read_bytes()
    except OSError as error:
        raise Failed(f"{option} {path}: {error.strerror}", Exit.USAGE) from error
    if not text:
        raise Failed(f"{option} {path}: the file is empty, but should hold at least one byte", Exit.USAGE)
    return text


HASH_VOCABULARY = 256

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
    vocab_size: int = TEXT_VOCABULARY,
) -> None:
    """Refuse counts that no simulation can hold.

    Raises
    ------
    Failed
        USAGE, with the option, its bound and the reason.
    """
    bounds = (
        ("--requests", num_requests, MOST_REQUESTS, "every request keeps its text and figures to the end"),
        ("--topk", topk, vocab_size, "a draft cannot propose more tokens than the model has"),
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
