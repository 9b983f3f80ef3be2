"""The options of ``specsim simulate`` about logits that follow the output."""

import functools
from collections.abc import Callable
from typing import Any

import click

from specsim.cli.output import Exit, Failed
from specsim.host.logit_rules import NO_RULES, LogitRules
from specsim.rejection import SpecRejection

LARGEST_BYTE = 255

_OPTIONS = (
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
        if rules.has_strengths and others["kind"] != "hash":
            message = "penalties and biases need --model hash: the text model has no logits that make a distribution"
            raise Failed(message, Exit.USAGE)
        rules = LogitRules(**{**vars(rules), "is_exact": not relaxed_penalties})
        command(logit_rules=None if rules == NO_RULES else rules, **others)

    return functools.reduce(lambda function, option: option(function), reversed(_OPTIONS), called)


def _bias_of(text: str) -> tuple[int, float]:
    token, _, bias = text.partition(":")
    try:
        number, value = int(token), float(bias)
    except ValueError as error:
        raise Failed(f"--logit-bias {text}: should be a byte, a colon and a number, like 65:2.5", Exit.USAGE) from error
    if not 0 <= number <= LARGEST_BYTE:
        raise Failed(f"--logit-bias {text}: {number}, but should be 0 to {LARGEST_BYTE}", Exit.USAGE)
    return number, value
