"""What a checkpoint's folder says of itself, read and refused before its weights are."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from specsim.installation import explain_missing, find_missing
from specsim.rejection import contradiction

if find_missing("models"):
    raise ImportError(explain_missing("models", "specsim.checkpoints"))

import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

WEIGHTS = ("*.safetensors", "*.bin")
LONGEST_MESSAGE = 160
"""Characters of what transformers say that a refusal repeats."""

WORKER_NEEDS = "a worker rolls rejected drafts back by forgetting slots of keys and values"
LENGTH_DEPENDENT_ROPES = ("dynamic", "longrope")
"""Rotary positions whose angles depend on the longest text of a forward, so that keys of a cache grow old."""

SEES_ALL_OR_A_WINDOW = {"full_attention", "sliding_attention"}


class Absent(FileNotFoundError):
    """A folder or a file that a checkpoint needs is not there."""


@dataclass(frozen=True)
class Folder:
    """A checkpoint's folder whose architecture a worker can run, as far as its configuration says."""

    path: Path
    config: Any

    @property
    def name(self) -> str:
        """The folder and its architecture."""
        return f"{self.path} ({self.config.model_type})"

    @property
    def vocab_size(self) -> int:
        """Tokens of its vocabulary."""
        return int(self.config.get_text_config().vocab_size)

    @property
    def num_positions(self) -> int | None:
        """Positions that it was made for; None where it does not say."""
        number = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        return number if isinstance(number, int) else None

    @property
    def dtype(self) -> torch.dtype:
        """The type of its weights, float32 where it says none."""
        named = getattr(self.config.get_text_config(), "dtype", None)
        return named if isinstance(named, torch.dtype) else torch.float32

    @property
    def eos_tokens(self) -> tuple[int, ...]:
        """The tokens that end a text, as ``generate`` has them."""
        found = self.config.get_text_config().eos_token_id
        if (self.path / "generation_config.json").is_file():
            own = transformers.GenerationConfig.from_pretrained(self.path, local_files_only=True).eos_token_id
            found = found if own is None else own
        return () if found is None else tuple(found) if isinstance(found, Sequence) else (int(found),)

    @cached_property
    def head(self) -> str | None:
        """Whether it is a head of EAGLE or of EAGLE3, by the names of its weights; None for a model of its own."""
        names = self._weight_names()
        if "fc.weight" not in names:
            return None
        return "EAGLE3" if any(name.startswith("midlayer.") for name in names) else "EAGLE"

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the weights of its files, whose names begin with no ``model.``."""
        found: dict[str, torch.Tensor] = {}
        for path in self._files():
            found |= load_file(path) if path.suffix == ".safetensors" else _load_pickled(path)
        return {name.removeprefix("model."): one for name, one in found.items()}

    def _files(self) -> list[Path]:
        return next((found for pattern in WEIGHTS if (found := sorted(self.path.glob(pattern)))), [])

    def _weight_names(self) -> set[str]:
        """Return the names of its weights; those of several files stand in an index, and are no head's."""
        files = self._files()
        if len(files) != 1:
            return set()
        (path,) = files
        try:
            if path.suffix != ".safetensors":
                names = list(_load_pickled(path))
            else:
                with safe_open(path, "pt") as file:
                    names = list(file.keys())
        except (SafetensorError, UnpicklingError, RuntimeError, EOFError) as error:
            got = in_one_line(error)
            raise contradiction(f"weights of {self.path}", got, "a file of tensors", "they are read") from error
        return {name.removeprefix("model.") for name in names}

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the folder.

        Raises
        ------
        Absent
            It has none.
        """
        try:
            return transformers.AutoTokenizer.from_pretrained(self.path, local_files_only=True)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise Absent(f"{self.path} has no tokenizer that can be read: {in_one_line(error)}") from error

    @property
    def has_tokenizer(self) -> bool:
        """Whether it can turn text into tokens."""
        return any((self.path / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))


def open_folder(path: Path) -> Folder:
    """Read the configuration of a checkpoint; its weights have to be there, and are not read.

    Raises
    ------
    Absent
        The folder, its configuration or its weights are not there.
    SpecRejection
        BAD_CONFIGURATION: no causal language model that a worker can run.
    """
    if not path.is_dir():
        raise Absent(f"{path} is not there, but should be the folder of a checkpoint")
    if not (path / "config.json").is_file():
        raise Absent(f"{path} has no config.json, but should be the folder of a checkpoint")
    if not any(file for pattern in WEIGHTS for file in path.glob(pattern)):
        raise Absent(f"{path} has no weights: neither {' nor '.join(WEIGHTS)}")
    try:
        config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
    except (ValueError, KeyError, OSError, TypeError) as error:
        version = f"transformers {transformers.__version__} reads it"
        raise contradiction(f"config.json of {path}", in_one_line(error), "a known architecture", version) from error
    _require_causal(path, config)
    return Folder(path, config)


def require_same_vocabulary(target: Folder, draft: Folder) -> None:
    """Check that the tokens of a draft are those of its target.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: they are not.
    """
    because = f"{target.path} verifies what {draft.path} proposes, token by token"
    if draft.vocab_size != target.vocab_size:
        expected = f"the {target.vocab_size} of the target"
        raise contradiction("tokens of the draft's vocabulary", draft.vocab_size, expected, because)
    if target.has_tokenizer and draft.has_tokenizer:
        one, other = target.tokenizer.get_vocab(), draft.tokenizer.get_vocab()
        if one != other:
            different = sum(one.get(token) != number for token, number in other.items()) or len(one) - len(other)
            got = f"a tokenizer that numbers {abs(different)} tokens otherwise"
            raise contradiction("vocabulary of the draft", got, "the target's", because)


def require_positions(folder: Folder, longest: int, width: int) -> None:
    """Check that texts of a length fit, and the drafts after them.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: the model was made for fewer positions.
    """
    most = folder.num_positions
    if most is not None and longest + width > most:
        because = f"that many are the positions of {folder.path}"
        got = f"{longest} of the longest text and {width} of a draft"
        raise contradiction("positions", got, f"at most {most} together", because)


def _require_causal(path: Path, config: Any) -> None:
    """Refuse what a worker cannot run, as far as a configuration says."""
    text, kind = config.get_text_config(), f"architecture of {path}"
    is_causal = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if config.is_encoder_decoder or not is_causal:
        got = f"{config.model_type}, an encoder and a decoder" if config.is_encoder_decoder else config.model_type
        raise contradiction(kind, got, "a causal language model", "the worker feeds one text and reads its next token")
    kinds = set(getattr(text, "layer_types", None) or ()) - SEES_ALL_OR_A_WINDOW
    if kinds:
        got = f"{config.model_type} with layers of {', '.join(sorted(kinds))}"
        raise contradiction(kind, got, "attention over all positions or a sliding window", WORKER_NEEDS)
    ropes = _ropes(getattr(text, "rope_parameters", None) or {})
    if ropes & set(LENGTH_DEPENDENT_ROPES):
        got = f"{config.model_type} with rotary positions of kind {', '.join(sorted(ropes))}"
        because = "keys in a cache cannot follow angles that change with the length of a text"
        raise contradiction(kind, got, "angles that depend on positions alone", because)


def _ropes(parameters: dict[str, Any]) -> set[str]:
    """Return the kinds of rotary positions, which stand once, or once a kind of layer."""
    nested = [one for one in parameters.values() if isinstance(one, dict)]
    return {str(one["rope_type"]) for one in [parameters, *nested] if "rope_type" in one}


def _load_pickled(path: Path) -> dict[str, torch.Tensor]:
    """Return tensors of a file of torch's, and no code."""
    found: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return found


def in_one_line(error: BaseException) -> str:
    """Return the kind of an error and how its message begins."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:LONGEST_MESSAGE]}" if message else type(error).__name__
