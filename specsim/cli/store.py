"""The options of ``specsim simulate`` that are about the store of NGRAM, and about texts from outside."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from specsim.cli.output import Exit, Failed
from specsim.host.ngram import NgramParameters
from specsim.simulation.ngram import figures_of
from specsim.simulation.worker import Worker

_OPTIONS = (
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
        """Return what the worker takes first, with texts and capacity where it has a store.

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
        texts = tuple((tuple(read_corpus(path)),) for path in self.corpora)
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

    return functools.reduce(lambda function, option: option(function), reversed(_OPTIONS), called)


def read_corpus(path: Path) -> bytes:
    """Return the bytes of a text from outside, which are its tokens.

    Raises
    ------
    Failed
        USAGE: it cannot be read, or is empty.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise Failed(f"--corpus {path}: {error.strerror}", Exit.USAGE) from error
    if not text:
        raise Failed(f"--corpus {path}: the file is empty, but should hold at least one byte", Exit.USAGE)
    return text


def store_figures(worker: Worker) -> dict[str, Any]:
    """Return how much the store of a worker remembers and forgot; nothing of a worker without a store."""
    figures = figures_of(worker)
    return {"store": figures} if figures else {}
