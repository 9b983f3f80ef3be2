"""Replays of logits: exact for greedy outputs, right in expectation for sampled ones, and what is refused of a file."""

import re

import numpy as np
import pytest
from safetensors.numpy import save_file

from specsim.rejection import SpecRejection
from specsim.tuning.counted import chain_tokens_per_verify, rows_of, tokens_per_verify
from specsim.tuning.dumps import SCHEMA, Dump, Judged, replay, replayed, write_dump

VOCAB = 12
GENERATOR = np.random.default_rng(0)
NEXT = GENERATOR.permutation(VOCAB)
GUESS = np.where(GENERATOR.random(VOCAB) < 0.6, NEXT, (NEXT + 1) % VOCAB)
"""What the target says after each token, and what the draft says."""


def row_of(token, second=None):
    row = np.zeros(VOCAB, np.float32)
    row[token] = 5
    if second is not None:
        row[second] = 3
    return row


def greedy_prompt(first, count):
    """Return one prompt of a pair that looks one token back."""
    tokens, text = [], [first]
    for _ in range(count):
        tokens.append(int(NEXT[text[-1]]))
        text.append(tokens[-1])
    before = text[:-1]
    return {
        "prompt": np.array([first]),
        "tokens": np.array(tokens),
        "target": np.stack([row_of(NEXT[token]) for token in before]),
        "draft": np.stack([row_of(GUESS[token], NEXT[token]) for token in before]),
    }


def decoded(prompt, num_steps):
    """Return the histogram of an engine that drafts, verifies and goes on, where whole drafts fit."""
    tokens = prompt["tokens"].tolist()
    place, histogram = 1, [0.0] * (num_steps + 1)
    while place + num_steps <= len(tokens):
        drafts, last = [], tokens[place - 1]
        for _ in range(num_steps):
            last = int(GUESS[last])
            drafts.append(last)
        accepted = 0
        while accepted < num_steps and drafts[accepted] == tokens[place + accepted]:
            accepted += 1
        histogram[accepted] += 1
        place += accepted + 1
    return tuple(histogram)


@pytest.fixture
def dump(tmp_path):
    """Return what writes prompts and opens the file."""

    def opened(prompts, **more):
        write_dump(tmp_path / "rows.safetensors", prompts, **more)
        return Dump(tmp_path / "rows.safetensors")

    return opened


@pytest.mark.parametrize("num_steps", [1, 2, 5])
def test_a_greedy_chain_is_replayed_as_an_engine_decodes_it(dump, num_steps):
    prompts = [greedy_prompt(first, 30 + first) for first in range(4)]
    outputs = list(dump(prompts).judged(0))
    counted = replayed(outputs, 1, num_steps, num_steps + 1, 0, is_drawn=False)
    assert [one.histogram for one in counted] == [decoded(prompt, num_steps) for prompt in prompts]
    assert len({one.prompt for one in counted}) == 4


def test_a_level_of_candidates_accepts_those_that_it_holds(dump):
    outputs = list(dump([greedy_prompt(1, 20)]).judged(0))
    (two,), (one,) = (replayed(outputs, 2, 1, nodes, 0, is_drawn=False) for nodes in (3, 2))
    assert two.histogram == (0.0, 10.0)
    assert one == replayed(outputs, 1, 1, 2, 0, is_drawn=False)[0], "a second candidate that is pruned"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_dump_is_read_as_it_was_written(dump, dtype):
    prompt = greedy_prompt(2, 9)
    prompt |= {part: prompt[part].astype(dtype) for part in ("target", "draft")}
    (judged,) = dump([prompt]).judged(0)
    tokens, rows = prompt["tokens"], prompt["draft"]
    assert judged.draft_rank.tolist() == [
        int((row > row[token]).sum()) for row, token in zip(rows, tokens, strict=True)
    ]


def test_a_reduced_draft_vocabulary_is_mapped(dump):
    prompt = greedy_prompt(2, 9)
    hot = np.arange(VOCAB)[::-1].copy()
    mapped = {**prompt, "draft": prompt["draft"][:, hot]}
    (plain,), (own,) = dump([prompt]).judged(0), dump([mapped], hot_token_id=hot).judged(0)
    assert own.draft_rank.tolist() == plain.draft_rank.tolist()


def sampled_prompt(seed, target, draft, count):
    tokens = np.random.default_rng(seed).choice(len(target), size=count, p=target)
    rows = {"target": target, "draft": draft}
    logits = {part: np.log(np.tile(row, (count, 1))).astype(np.float32) for part, row in rows.items()}
    return {"prompt": np.array([seed]), "tokens": tokens, **logits}


def test_drawn_drafts_are_accepted_with_the_overlap_of_both_laws(dump):
    """Drafts are independent here, so that a verify has the tokens of the closed form; 1 % is three deviations."""
    target, draft = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.6, 0.2])
    outputs = list(dump([sampled_prompt(seed, target, draft, 2000) for seed in range(8)]).judged(1.0))
    total = rows_of(replayed(outputs, 1, 3, 4, 1.0, is_drawn=True)).sum(axis=0)
    overlap = float(np.minimum(target, draft).sum())
    assert float(tokens_per_verify(total)) == pytest.approx(chain_tokens_per_verify(overlap, 3), rel=0.01)
    total = rows_of(replayed(outputs, 1, 3, 4, 1.0, is_drawn=False)).sum(axis=0)
    assert float(tokens_per_verify(total)) == pytest.approx(chain_tokens_per_verify(target[1], 3), rel=0.02)


def test_a_temperature_flattens_both_laws(dump):
    target, draft = np.array([0.64, 0.36]), np.array([0.36, 0.64])
    prompt = sampled_prompt(0, target, draft, 5)
    (judged,) = dump([prompt]).judged(2.0)
    flat = {0: 0.8 / 1.4, 1: 0.6 / 1.4}
    assert np.exp(judged.target_logprob).tolist() == pytest.approx([flat[token] for token in prompt["tokens"]])
    assert np.exp(judged.draft_logprob).tolist() == pytest.approx([flat[1 - token] for token in prompt["tokens"]])


def test_expected_counts_of_one_output_by_hand():
    """Chances 1, 1/2, 0 and 1 after the prefill's token, two drafts a verify, of which three begin or may begin."""
    logprob = np.log([1, 1, 0.5, 1e-300, 1])
    judged = Judged("a", np.zeros(5, np.int64), np.zeros(5), logprob)
    counts = replay(judged, 1, 2, 1.0, is_drawn=True)
    # A verify at 1 accepts 1 and goes on at 3 with one half, or accepts 2 and ends; that at 3 accepts none.
    assert counts.histogram == pytest.approx((0.5, 0.5, 0.5))
    assert (counts.verifies, counts.accepted) == (pytest.approx(1.5), pytest.approx(1.5))


def wrong(path, got, expected, because):
    return f"^{re.escape(f'BAD_CONFIGURATION: {path} is {got}, but should be {expected}, because {because}')}$"


@pytest.mark.parametrize(
    ("change", "got", "expected", "because"),
    [
        ({"0.draft": None}, "a file without 0.draft", "one of each prompt", "0.tokens or others are there"),
        (
            {"0.tokens": np.zeros((3, 1), np.int64)},
            "0.tokens of shape [3, 1]",
            "[token]",
            "there is one row a token",
        ),
        (
            {"0.target": np.zeros((8, VOCAB), np.float32)},
            f"0.target of shape [8, {VOCAB}]",
            "[9, vocabulary]",
            "there is one row a token",
        ),
        (
            {"0.draft": np.zeros((9, 5), np.float32)},
            "0.draft with rows of 5 entries",
            f"{VOCAB}, or hot_token_id",
            "both sides have one vocabulary",
        ),
        (
            {"0.draft": np.full((9, VOCAB), np.nan, np.float32)},
            "0.draft with NaN or infinity",
            "numbers, or -inf where a token is forbidden",
            "they are logits",
        ),
        (
            {"0.target": np.zeros((9, VOCAB), np.int64)},
            "0.target of I64",
            "float16 or bfloat16 or float32 or float64",
            "they are logits",
        ),
        (
            {"0.tokens": np.full(9, VOCAB)},
            f"0.tokens with {VOCAB}",
            f"0 to {VOCAB - 1}",
            "the target's rows have as many entries",
        ),
        (
            {"0.tokens": np.zeros(9, np.int64)},
            "an output of which 9 of 9 tokens are not the target's first choice",
            "at most 1%",
            "it is replayed greedily; a sampled one has a temperature",
        ),
    ],
)
def test_a_file_that_is_no_dump_is_refused_with_the_place(tmp_path, change, got, expected, because):
    path = tmp_path / "rows.safetensors"
    tensors = {f"0.{part}": value for part, value in greedy_prompt(3, 9).items()} | change
    save_file({name: value for name, value in tensors.items() if value is not None}, path, {"schema": SCHEMA})
    with pytest.raises(SpecRejection, match=wrong(path, got, expected, because)):
        list(Dump(path).judged(0))


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "rows.safetensors"
    save_file({"a": np.zeros(1)}, path)
    with pytest.raises(SpecRejection, match=wrong(path, "a file of schema None", SCHEMA, "no other form is known")):
        Dump(path)
    save_file({"a": np.zeros(1)}, path, {"schema": SCHEMA})
    message = wrong(path, "a file without prompts", "at least 0.tokens", "there is nothing to replay")
    with pytest.raises(SpecRejection, match=message):
        Dump(path)
    path.write_bytes(b"no tensors")
    with pytest.raises(SpecRejection, match="no safetensors file: "):
        Dump(path)


@pytest.mark.parametrize(
    ("sizes", "is_drawn", "message"),
    [
        (
            (2, 2, 4),
            False,
            "topk is 2, but should be 1, or 1 step, because a dump has rows along the output alone, and a tree of 2 "
            "levels needs those of its branches",
        ),
        (
            (2, 1, 3),
            True,
            "topk is 2, but should be 1, because candidates of a tree are the draft's first choices, and drafts are "
            "drawn",
        ),
        (
            (1, 9, 10),
            False,
            "steps is 9, but should be at most 8, because the first token is the prefill's, and the longest output has "
            "9 tokens",
        ),
    ],
)
def test_what_a_dump_cannot_replay_has_a_reason(sizes, is_drawn, message):
    judged = Judged("a", np.zeros(9, np.int64), np.zeros(9), np.zeros(9))
    with pytest.raises(SpecRejection, match=f"^BAD_CONFIGURATION: {re.escape(message)}$"):
        replayed([judged], *sizes, 1.0, is_drawn)
