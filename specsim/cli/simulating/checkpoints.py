"""Checkpoints of local folders as target and draft of a simulation: ``--model hf:FOLDER``."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from specsim.cli.device import need_device
from specsim.cli.names import TextType
from specsim.cli.output import Exit, Failed, notice, remark
from specsim.cli.simulating.options import read_text, with_options
from specsim.host.acceptance import Acceptance
from specsim.installation import explain_missing, find_missing

if TYPE_CHECKING:
    from specsim.checkpoints.folder import Folder
    from specsim.checkpoints.near_ties import Judge

PREFIX = "hf:"
TOYS = ("text", "hash")
DTYPES = ("float32", "bfloat16", "float16")
ALGORITHMS = ("STANDALONE", "NGRAM", "EAGLE", "EAGLE3")
"""The algorithms that checkpoints draft by: with a draft of their own kind, with none, and with a head."""

OF_BYTES = ("corpora", "eos_token", "stops", "stop_tokens", "biases", "bad_words")
OF_TOYS = ("agreement", "pool", "draft_pool", "recurrent", "multi_layer", "drafter")
EXACT = (
    "lockstep",
    "logprobs",
    "hidden_states",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "relaxed_penalties",
    "min_tokens",
)
REFUSED = {
    **dict.fromkeys(OF_BYTES, "it is about bytes, and a checkpoint has tokens of its own"),
    **dict.fromkeys(OF_TOYS, "it describes a toy model"),
    **dict.fromkeys(EXACT, "it is compared exactly, and logits of a checkpoint are rounded"),
}
"""Options that a checkpoint has no use for, and why."""


class ModelName(TextType):
    """``text``, ``hash``, or the folder of a checkpoint after ``hf:``."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        if value not in TOYS and not (str(value).startswith(PREFIX) and value != PREFIX):
            self.fail(f"{value!r} is no model; it is {', '.join(TOYS)} or {PREFIX}FOLDER", param, ctx)
        return str(value)


class CheckpointName(TextType):
    """The folder of a checkpoint after ``hf:``."""

    name = "checkpoint"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        if not str(value).startswith(PREFIX) or value == PREFIX:
            self.fail(f"{value!r} is no checkpoint; it is {PREFIX}FOLDER", param, ctx)
        return str(value)


@dataclass(frozen=True)
class CheckpointOptions:
    """What a user says of checkpoints.

    ``dtype`` is None for the type of the weights on a GPU, and float32 on a CPU; ``algorithm`` is None for that of the
    draft.
    """

    target: Path
    draft: Path | None
    prompts: Path | None
    dtype: str | None
    algorithm: str | None

    def open(self, layer: str, most: int | None) -> "Opened":
        """Read what the folders say of themselves, before their weights are, and up to ``most`` prompts of the file.

        Raises
        ------
        Failed
            UNAVAILABLE: the extra, a folder, or the file of prompts is not there.
        SpecRejection
            BAD_CONFIGURATION: an architecture that no worker can run, two vocabularies, or a line that is no prompt.
        """
        if layer == "gpu":
            need_device("the gpu worker")
        elif self.dtype not in (None, "float32"):
            raise Failed(f"--dtype {self.dtype} is for --worker gpu: NumPy computes in float32", Exit.USAGE)
        if find_missing("models"):
            raise Failed(explain_missing("models", f"--model {PREFIX}"), Exit.UNAVAILABLE)
        notice("read folders")
        with _absent_in_one_line():
            from specsim.checkpoints.folder import open_folder, require_same_vocabulary
            from specsim.checkpoints.prompts import read_prompts

            target = open_folder(self.target)
            draft = None if self.draft is None else open_folder(self.draft)
            if draft is not None:
                require_same_vocabulary(target, draft)
                own = draft.head or ALGORITHMS[0]
                if self.algorithm not in (None, own):
                    is_of = f"--draft {PREFIX}{self.draft} drafts by {own}"
                    raise Failed(f"--algorithm is {self.algorithm}, and {is_of}", Exit.USAGE)
            prompts = None if self.prompts is None else read_prompts(self.prompts, target, most)
        return Opened(layer, self.dtype, target, draft, prompts)


@dataclass(frozen=True)
class Opened:
    """Folders that a worker of a layer can run, as far as they say, and prompts; None where they come from a text."""

    layer: str
    type_of_weights: str | None
    target: "Folder"
    draft: "Folder | None"
    prompts: list[list[int]] | None

    @property
    def algorithm(self) -> str:
        """The algorithm by which the draft drafts."""
        return "NGRAM" if self.draft is None else self.draft.head or ALGORITHMS[0]

    def tokens(self, path: Path | None) -> Sequence[int]:
        """Return the tokens of a text, or of the default one.

        Raises
        ------
        Failed
            USAGE: it is no text, or cannot be read; UNAVAILABLE: there is no tokenizer.
        """
        try:
            text = read_text(path).decode()
        except UnicodeDecodeError as error:
            raise Failed(
                f"--text {path}, byte {error.start}: {error.reason}, but should be UTF-8", Exit.USAGE
            ) from error
        with _absent_in_one_line():
            from specsim.checkpoints.prompts import encode

            return encode(text, self.target)

    def check_positions(self, longest: int, width: int) -> None:
        """Check that the models were made for texts of a length, and for drafts of so many tokens after them.

        Raises
        ------
        SpecRejection
            BAD_CONFIGURATION: they were not.
        """
        from specsim.checkpoints.folder import require_positions

        for folder in (self.target, self.draft):
            if folder is not None and folder.head is None:
                require_positions(folder, longest, width)

    def load(self) -> "Loaded":
        """Read the weights, and try whether they run over pages.

        Raises
        ------
        Failed
            UNAVAILABLE: a file with weights is not there.
        SpecRejection
            BAD_CONFIGURATION: weights are missing, or layers do not run over pages.
        """
        notice("read weights")
        with _absent_in_one_line():
            from specsim.checkpoints.model import load

            model, judge = load(self.target, self.draft, self.type_of_weights, has_kernels=self.layer == "gpu")
        return Loaded(model, judge)


@dataclass(frozen=True)
class Loaded:
    """A model in the arrays of its layer, and what its greedy outputs are compared with."""

    model: Any
    judge: "Judge"

    @property
    def dtype(self) -> str:
        """Of weights, keys and values."""
        return str(self.judge.model.dtype).removeprefix("torch.")

    @property
    def is_reproducible(self) -> bool:
        """Whether a second run in other batches draws the same: so it does where rounding moves next to no coin."""
        if self.dtype == "float32":
            return True
        remark(f"sampled outputs are not compared: in {self.dtype} other batches round otherwise")
        return False


_OPTIONS = (
    click.option(
        "--draft",
        type=CheckpointName(),
        metavar="hf:FOLDER",
        help="Checkpoint that drafts: a model of the same vocabulary, or a head of EAGLE.",
    ),
    click.option(
        "--prompts",
        type=click.Path(path_type=Path, readable=False),
        metavar="FILE.jsonl",
        help="Prompts of a checkpoint: text or token ids, one a line.",
    ),
    click.option(
        "--dtype",
        type=click.Choice(DTYPES),
        help="Type of weights and KV of a checkpoint: float32 on a CPU, its own on a GPU.",
    ),
)


def with_checkpoints(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as ``checkpoint``, None for a toy model."""

    @functools.wraps(command)
    def called(*, draft: str | None, prompts: Path | None, dtype: str | None, **others: Any) -> None:
        kind = others["kind"]
        if not kind.startswith(PREFIX):
            given = [
                name for name, one in (("draft", draft), ("prompts", prompts), ("dtype", dtype)) if one is not None
            ]
            if given:
                raise Failed(f"--{given[0]} needs --model {PREFIX}FOLDER, and --model is {kind}", Exit.USAGE)
            command(checkpoint=None, **others)
            return
        _refuse_others()
        algorithm = others["algorithm"] if _is_given("algorithm") else None
        _check_algorithm(algorithm, draft)
        if algorithm == "NGRAM" and others["acceptance"] == Acceptance.TARGET_DRAW:
            because = "its draws are compared with those of a run without drafts, of a checkpoint that has some"
            raise Failed(f"--acceptance target-draw needs a --draft {PREFIX}FOLDER: {because}", Exit.USAGE)
        if prompts is not None and others["path"] is not None:
            raise Failed("--text and --prompts both say what the prompts are", Exit.USAGE)
        drafts = None if draft is None else folder_of(draft)
        options = CheckpointOptions(folder_of(kind), drafts, prompts, dtype, algorithm)
        opened = options.open(others["worker"], others["num_requests"] if _is_given("num_requests") else None)
        others["algorithm"] = opened.algorithm
        if opened.prompts is not None:
            others |= {"num_requests": len(opened.prompts), "prompt_length": max(map(len, opened.prompts))}
        command(checkpoint=opened, **others)

    return with_options(_OPTIONS, called)


def folder_of(name: str) -> Path:
    """Return the folder that stands after ``hf:``."""
    return Path(name.removeprefix(PREFIX))


def _check_algorithm(given: str | None, draft: str | None) -> None:
    """Refuse an algorithm by which no checkpoint drafts, and one without the draft that it needs."""
    if given not in (None, *ALGORITHMS):
        raise Failed(
            f"--algorithm is {given}, but should be one of {', '.join(ALGORITHMS)} for a checkpoint", Exit.USAGE
        )
    if given == "NGRAM" and draft is not None:
        raise Failed("--draft is given, and --algorithm is NGRAM, which drafts from earlier texts", Exit.USAGE)
    if given != "NGRAM" and draft is None:
        needs = f"{given or ALGORITHMS[0]} needs a --draft {PREFIX}FOLDER"
        raise Failed(f"{needs}; --algorithm NGRAM drafts without one", Exit.USAGE)


def _refuse_others() -> None:
    for parameter in click.get_current_context().command.params:
        name = str(parameter.name)
        if name in REFUSED and _is_given(name):
            raise Failed(f"{parameter.opts[0]} is not for --model {PREFIX}FOLDER: {REFUSED[name]}", Exit.USAGE)


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


@contextmanager
def _absent_in_one_line() -> Iterator[None]:
    """End the command where something is not there, and not with the code of wrong usage."""
    try:
        yield
    except FileNotFoundError as error:
        raise Failed(f"{error}", Exit.UNAVAILABLE) from error
