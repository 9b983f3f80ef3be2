"""Logits of a real pair along outputs, in a safetensors file, and what its verifies would accept.

Given an output of the target, each of its tokens is a draft that was accepted with a chance that follows from the rows
at its place alone: a greedy draft is the token or is not, and one that was drawn from q in place of p was accepted with
min(1, q/p). What a chain accepts from any place on follows without drawing anything.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.config import SpecConfig
from specsim.rejection import SpecRejection, contradiction
from specsim.tuning.counted import RequestCounts, prompt_key

Array = NDArray[Any]

SCHEMA = "specsim.logits/1"
PARTS = ("prompt", "tokens", "target", "draft")
"""Tensors of each prompt, named like ``3.target``."""

FLOATS = ("float16", "bfloat16", "float32", "float64")
MOST_OFF = 0.01
"""Share of the tokens of a greedy output that need not be the target's first choice: other batches round otherwise."""

ROWS_READ_AT_ONCE = 64


@dataclass(frozen=True)
class Judged:
    """One output: for each of its tokens the place that the draft gave it, and both log-probabilities of it.

    Parameters
    ----------
    prompt : str
        What tells the prompt from others.
    draft_rank : int64 [token]
        How many tokens the draft holds likelier; ties go to the lower id.
    target_logprob, draft_logprob : float64 [token]
        At the temperature of the replay; 0 where it is greedy.
    """

    prompt: str
    draft_rank: Array
    target_logprob: Array
    draft_logprob: Array


class Dump:
    """A file of logits: ``N.prompt``, ``N.tokens``, ``N.target`` and ``N.draft`` of prompts 0, 1, and so on.

    Parameters
    ----------
    path : Path
        A safetensors file.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: it is none, or lacks something.
    """

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        self.path = path
        try:
            open_file: Any = safe_open
            self._file: Any = open_file(path, "np")
        except SafetensorError as error:
            raise self._wrong(f"no safetensors file: {error}", "one", "it holds logits") from error
        self.metadata: Mapping[str, str] = self._file.metadata() or {}
        schema = self.metadata.get("schema")
        if schema != SCHEMA:
            raise self._wrong(f"a file of schema {schema}", SCHEMA, "no other form is known")
        self._names = set(self._file.keys())
        self.num_prompts = sum(name.endswith(".tokens") for name in self._names)
        if not self.num_prompts:
            raise self._wrong("a file without prompts", "at least 0.tokens", "there is nothing to replay")
        for number in range(self.num_prompts):
            self._check(number)

    def judged(self, temperature: float) -> Iterator[Judged]:
        """Yield what the rows say of the tokens of each output; a file is read prompt by prompt.

        Raises
        ------
        SpecRejection
            BAD_CONFIGURATION: entries that are no logits, tokens outside of the vocabulary, or an output that was
            sampled and is replayed greedily.
        """
        num_off = num_tokens = 0
        for number in range(self.num_prompts):
            tokens = self._tensor(number, "tokens").astype(np.int64)
            own, is_first = self._judge(number, tokens, temperature)
            num_off, num_tokens = num_off + int((~is_first).sum()), num_tokens + len(tokens)
            yield own
        if temperature == 0 and num_off > MOST_OFF * num_tokens:
            got = f"an output of which {num_off:,} of {num_tokens:,} tokens are not the target's first choice"
            raise self._wrong(
                got, f"at most {MOST_OFF:.0%}", "it is replayed greedily; a sampled one has a temperature"
            )

    def _judge(self, number: int, tokens: Array, temperature: float) -> tuple[Judged, Array]:
        hot = self._tensor(number, None) if "hot_token_id" in self._names else None
        target, draft = self._rows(number, "target"), self._rows(number, "draft")
        ranks, logprobs, firsts = [], [], []
        for begin in range(0, len(tokens), ROWS_READ_AT_ONCE):
            part = tokens[begin : begin + ROWS_READ_AT_ONCE]
            of_target = self._logits(number, "target", target[begin : begin + len(part)])
            of_draft = self._logits(number, "draft", draft[begin : begin + len(part)])
            self._require_known(f"{number}.tokens", part, of_target.shape[1])
            if hot is not None:
                self._require_known("hot_token_id", hot, of_target.shape[1])
                whole = np.full(of_target.shape, -np.inf)
                whole[:, hot] = of_draft
                of_draft = whole
            row = np.arange(len(part))
            firsts.append(of_target[row, part] >= of_target.max(axis=1))
            ranks.append(_ranks(of_draft, part))
            logprobs.append([_logprobs(rows, part, temperature) for rows in (of_target, of_draft)])
            if not np.isfinite(logprobs[-1][0]).all():
                expected = "above 0 at the temperature of the replay"
                raise self._wrong(f"{number}.tokens with a token of probability 0", expected, "it was output")
        key = prompt_key(self._tensor(number, "prompt").tolist())
        joined = (np.concatenate(ranks), *(np.concatenate([pair[side] for pair in logprobs]) for side in (0, 1)))
        return Judged(key, *joined), np.concatenate(firsts)

    def _logits(self, number: int, part: str, rows: Any) -> Array:
        logits: Array = np.asarray(rows).astype(np.float64)
        if np.isnan(logits).any() or not np.isfinite(logits.max(axis=1)).all():
            expected, because = "numbers, or -inf where a token is forbidden", "they are logits"
            raise self._wrong(f"{number}.{part} with NaN or infinity", expected, because)
        return logits

    def _require_known(self, what: str, tokens: Array, vocab_size: int) -> None:
        if tokens.min() < 0 or tokens.max() >= vocab_size:
            wrong = int(tokens.min() if tokens.min() < 0 else tokens.max())
            because = "the target's rows have as many entries"
            raise self._wrong(f"{what} with {wrong}", f"0 to {vocab_size - 1}", because)

    def _check(self, number: int) -> None:
        shapes = {}
        for part in PARTS:
            name = f"{number}.{part}"
            if name not in self._names:
                raise self._wrong(
                    f"a file without {name}", "one of each prompt", f"{number}.tokens or others are there"
                )
            shapes[part] = tuple(self._file.get_slice(name).get_shape())
        count = shapes["tokens"]
        if len(count) != 1 or not count[0]:
            raise self._wrong(f"{number}.tokens of shape {[*count]}", "[token]", "there is one row a token")
        for part in ("target", "draft"):
            shape = shapes[part]
            if len(shape) != 2 or shape[0] != count[0] or not shape[1]:
                expected = f"[{count[0]}, vocabulary]"
                raise self._wrong(f"{number}.{part} of shape {[*shape]}", expected, "there is one row a token")
        if "hot_token_id" not in self._names and shapes["draft"][1] != shapes["target"][1]:
            got = f"{number}.draft with rows of {shapes['draft'][1]} entries"
            raise self._wrong(got, f"{shapes['target'][1]}, or hot_token_id", "both sides have one vocabulary")

    def _tensor(self, number: int, part: str | None) -> Array:
        tensor: Array = self._file.get_tensor("hot_token_id" if part is None else f"{number}.{part}")
        return tensor

    def _rows(self, number: int, part: str) -> Any:
        rows = self._file.get_slice(f"{number}.{part}")
        if rows.get_dtype() not in ("F16", "BF16", "F32", "F64"):
            raise self._wrong(f"{number}.{part} of {rows.get_dtype()}", " or ".join(FLOATS), "they are logits")
        return rows

    def _wrong(self, got: str, expected: str, because: str) -> SpecRejection:
        return contradiction(str(self.path), got, expected, because)


def replay(judged: Judged, topk: int, num_steps: int, temperature: float, is_drawn: bool) -> RequestCounts:
    """Return what verifies along one output accept, in expectation: from every place that one begins at.

    Verifies whose drafts would reach past the last row are left out, so that none is cut short.

    Parameters
    ----------
    judged : Judged
        The output.
    topk, num_steps : int
        Candidates of a level, of which there is one if they are more than one.
    temperature : float
        Of target and draft.
    is_drawn : bool
        Whether drafts are drawn, or the draft's first choices.

    Notes
    -----
    Source: semantics B.4 and B.8.
    """
    if is_drawn and temperature > 0:
        chances = np.exp(np.minimum(judged.draft_logprob - judged.target_logprob, 0))
    else:
        chances = (judged.draft_rank < topk).astype(np.float64)
    # NOTE: the first token is the prefill's; the first verify drafts the next one.
    reached, histogram = np.zeros(len(chances) + 1), np.zeros(num_steps + 1)
    reached[1:2] = 1
    for start in range(1, len(chances) - num_steps + 1):
        if not reached[start]:
            continue
        alive = reached[start]
        for accepted in range(num_steps + 1):
            chance = chances[start + accepted] if accepted < num_steps else 0.0
            ends = alive * (1 - chance)
            histogram[accepted] += ends
            reached[min(start + accepted + 1, len(chances))] += ends
            alive *= chance
    return RequestCounts.of(judged.prompt, histogram.tolist())


def replayed(
    outputs: Sequence[Judged], topk: int, num_steps: int, num_draft_tokens: int, temperature: float, is_drawn: bool
) -> tuple[RequestCounts, ...]:
    """Return what verifies along all outputs accept.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: trees of several levels, drawn trees, sizes that contradict each other, or outputs that are
        too short.
    """
    if topk > 1 and num_steps > 1:
        because = (
            f"a dump has rows along the output alone, and a tree of {num_steps} levels needs those of its branches"
        )
        raise contradiction("topk", topk, "1, or 1 step", because)
    if topk > 1 and is_drawn and temperature > 0:
        raise contradiction(
            "topk", topk, "1", "candidates of a tree are the draft's first choices, and drafts are drawn"
        )
    SpecConfig(topk, num_steps, num_draft_tokens)
    taken = min(topk, num_draft_tokens - 1)
    counted = tuple(replay(one, taken, num_steps, temperature, is_drawn) for one in outputs)
    if not any(one.verifies for one in counted):
        longest = max(len(one.draft_rank) for one in outputs)
        because = f"the first token is the prefill's, and the longest output has {longest} tokens"
        raise contradiction("steps", num_steps, f"at most {longest - 1}", because)
    return counted


def write_dump(path: Path, prompts: Sequence[Mapping[str, Array]], hot_token_id: Array | None = None) -> None:
    """Write a dump: of each prompt its ``prompt``, ``tokens``, ``target`` and ``draft``."""
    from safetensors.numpy import save_file

    tensors = {
        f"{number}.{part}": np.ascontiguousarray(one[part]) for number, one in enumerate(prompts) for part in PARTS
    }
    if hot_token_id is not None:
        tensors["hot_token_id"] = np.ascontiguousarray(hot_token_id)
    save_file(tensors, path, metadata={"schema": SCHEMA})


def _ranks(logits: Array, tokens: Array) -> Array:
    """Return how many entries of each row come before that of a token: larger ones, and equal ones of lower ids."""
    own = logits[np.arange(len(tokens)), tokens][:, None]
    is_before = (logits > own) | ((logits == own) & (np.arange(logits.shape[1]) < tokens[:, None]))
    ranks: Array = is_before.sum(axis=1)
    return ranks


def _logprobs(logits: Array, tokens: Array, temperature: float) -> Array:
    if temperature == 0:
        return np.zeros(len(tokens))
    scaled = logits / temperature
    top = scaled.max(axis=1)
    totals = top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))
    with np.errstate(invalid="ignore"):
        chosen: Array = scaled[np.arange(len(tokens)), tokens] - totals
    return chosen
