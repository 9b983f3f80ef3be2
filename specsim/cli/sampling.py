"""The sampling options of ``specsim simulate``."""

import functools
from collections.abc import Callable
from typing import Any

import click

from specsim.cli.output import Exit, Failed
from specsim.host.sampling import ALL_TOKENS, LARGEST_SEED, SamplingParameters
from specsim.rejection import SpecRejection

_OPTIONS = (
    click.option(
        "--temperature", default=0.0, show_default=True, type=float, help="Temperature of the hash model; 0 is greedy."
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
)


def with_sampling(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as ``sampling``: parameters, or None if nothing is sampled."""

    @functools.wraps(command)
    def called(
        *, temperature: float, top_k: int | None, top_p: float, min_p: float, sampling_seed: int, **others: Any
    ) -> None:
        sampling = parameters_of(temperature, ALL_TOKENS if top_k is None else top_k, top_p, min_p, sampling_seed)
        if sampling is not None and others["kind"] != "hash":
            raise Failed("--temperature needs --model hash: the text model has no logits for sampling", Exit.USAGE)
        command(sampling=sampling, **others)

    return functools.reduce(lambda function, option: option(function), reversed(_OPTIONS), called)


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
