"""Laws of chains from raw logits: they are softened, filtered and judged as their parts say, row by visited row."""

from collections.abc import Callable
from functools import partial

import numpy as np
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend, Outcome
from specsim.properties.laws.checks import Case, outputs_of, require, require_equal, state
from specsim.properties.laws.sampling_cells import CHAIN_SAMPLER
from specsim.properties.operations.acceptance.chains import FINAL, owners_of, rows_of, rows_of_drafts
from specsim.properties.operations.acceptance.decided import chain_of
from specsim.properties.operations.acceptance.laws_chains import (
    a_padded_tail_ends_the_draft,
    chains_are_sampled_one_by_one,
    final_coin_draws_the_token_after_the_drafts,
    of_sampler,
    require_all_accepted,
    rows_after_the_last_token_do_not_matter,
)
from specsim.properties.operations.acceptance.strategy_chains import shares_of_fronts
from specsim.properties.operations.from_logits import strategy_chains as logit_strategies
from specsim.properties.operations.from_logits.logit_chains import (
    BLOCK_FROM_LOGITS,
    CHAIN_FROM_LOGITS,
    depths_of,
    draft_laws,
    owners_of_rows,
    target_laws,
    warmed,
)
from specsim.properties.operations.generated.agreement import require_same_outputs
from specsim.properties.property import Property

Strategy = Callable[[], SearchStrategy[Case]]

_SURE = 1 - 2.0**-10
"""A coin below it accepts a draft of equal laws, however their logarithms are rounded."""
_DEEP = 40.0
"""An exponent so far below the largest of a row is that of a very small probability."""

_UNLIKELY = 30.0
"""So far below the largest, or twice as far, an exponent is that of a probability in any format."""


def chains_are_softmax_filters_and_chain(backend: Backend, case: Case) -> None:
    """The outputs are those of the distributions of all rows, each with its own temperature, and the chain sampler.

    Where nothing is left to draw from, the chain sampler takes the last token, and a chain from logits a possible one.
    """
    require_composed(backend, case, CHAIN_FROM_LOGITS, CHAIN_SAMPLER)


def require_composed(backend: Backend, case: Case, sampler: str, of_probabilities: str) -> None:
    """Raise AssertionError unless the outputs are those of a sampler of probabilities, on the laws of all rows."""
    parts = {name: case[name] for name in ("draft_tokens", "cu_num_drafts", "uniform_samples", FINAL)}
    draft_probs = None if case["draft_logits"] is None else draft_laws(backend, case)
    target_probs = target_laws(backend, case)
    laws = {"draft_probs": draft_probs, "target_probs": target_probs, "max_num_drafts": case["max_num_drafts"]}
    composed = outputs_of(backend, of_probabilities, {**parts, **laws})
    sampled = backend.run(sampler, case)
    for request in range(len(rows_of(case))):
        count = int(composed["num_accepted_drafts"][request])
        tokens, target, proposal = chain_of({**parts, **laws}, request)
        share = shares_of_fronts(tokens, target, proposal)[count] if sampler == BLOCK_FROM_LOGITS else 1.0
        if count < len(tokens) and not (share * target[count] > proposal[count]).any():
            composed["output_tokens"][request, count] = sampled.outputs["output_tokens"][request, count]
    require_same_outputs(sampler, case, Outcome(composed, {}), sampled)


def drafts_and_one_possible_token_come_out(sampler: str, backend: Backend, case: Case) -> None:
    """The output is a prefix of the drafts before any -1, and one token; no forbidden one is accepted or drawn."""
    outputs = outputs_of(backend, sampler, case)
    for request, (first, _) in enumerate(rows_of(case)):
        count, output = int(outputs["num_accepted_drafts"][request]), outputs["output_tokens"][request]
        require_equal("the drafts", output[:count], case["draft_tokens"][first : first + count])
        require_equal("the padding", output[count + 1 :], np.full(len(output) - count - 1, -1))
        for place, token in enumerate(output[: count + 1].tolist()):
            row = case["target_logits"][first + request + place].astype(np.float32)
            require(0 <= token < len(row), f"token {place} of request {request}", token, f"0 to {len(row) - 1}")
            require(row[token] > -np.inf, f"the logit of token {place} of request {request}", row[token], "finite")


def a_draft_that_its_own_row_forbids_is_rejected(sampler: str, backend: Backend, case: Case) -> None:
    """A draft whose row has no such token, or forbids it, is accepted at no coin where drafts are drawn."""
    if case["draft_logits"] is None or not len(case["draft_tokens"]):
        return
    warm = {**warmed(case), "uniform_samples": np.zeros_like(case["uniform_samples"])}
    tokens, width = case["draft_tokens"], case["draft_logits"].shape[1]
    logits = case["draft_logits"][np.arange(len(tokens)), np.minimum(tokens, width - 1)].astype(np.float32)
    is_forbidden = (tokens >= width) | np.isneginf(logits)
    counts = outputs_of(backend, sampler, warm)["num_accepted_drafts"]
    for request, ((first, last), count) in enumerate(zip(rows_of(case), counts.tolist(), strict=True)):
        allowed = int(np.cumprod(~is_forbidden[first:last]).sum())
        require(count <= allowed, f"accepted drafts of request {request}", count, f"at most {allowed}")


def a_draft_that_only_the_target_likes_is_drawn(backend: Backend, case: Case) -> None:
    """A draft that its own row forbids is rejected, and what is left of the target's row, most of it, is that draft."""
    outputs = outputs_of(backend, CHAIN_FROM_LOGITS, case)
    require_equal("num_accepted_drafts", outputs["num_accepted_drafts"], np.zeros(len(case["temperature"])))
    require_equal("the tokens drawn", outputs["output_tokens"][:, 0], case["draft_tokens"])


def certain_drafts_need_no_rows(sampler: str, backend: Backend, case: Case) -> None:
    """Without rows, at draft temperature 0 whatever they hold, and with all mass on the draft, drafts are certain."""
    absent = {**case, "draft_logits": None}
    expected = backend.run(sampler, absent)
    garbage = np.full((len(case["draft_tokens"]), 3), np.nan, dtype=np.float32)
    cold = {**case, "draft_logits": garbage, "draft_temperature": np.zeros_like(case["draft_temperature"])}
    require_same_outputs(sampler, absent, expected, backend.run(sampler, cold))
    is_draft = np.arange(case["target_logits"].shape[1]) == np.maximum(case["draft_tokens"], 0)[:, None]
    draft_logits = np.where(is_draft, np.float32(3), np.float32(-np.inf))
    sure = {**case, "draft_logits": draft_logits, "draft_temperature": np.full_like(case["draft_temperature"], 2)}
    require_same_outputs(sampler, sure, expected, backend.run(sampler, sure))


def greedy_chains_follow_the_largest_logits(sampler: str, backend: Backend, case: Case) -> None:
    """At temperature 0, whatever coins, filters and draft rows are, drafts have to be the first largest logit."""
    draft_logits = case["draft_logits"]
    garbage = None if draft_logits is None else np.full_like(draft_logits, np.nan)
    cold = {**case, "temperature": np.zeros_like(case["temperature"]), "draft_logits": garbage}
    outputs = outputs_of(backend, sampler, cold)
    chosen = case["target_logits"].astype(np.float32).argmax(axis=1)
    for request, (first, last) in enumerate(rows_of(case)):
        best = chosen[first + request : last + request + 1]
        agreed = int(np.cumprod(case["draft_tokens"][first:last] == best[:-1]).sum())
        require_equal("num_accepted_drafts", outputs["num_accepted_drafts"][request], agreed)
        require_equal("the output", outputs["output_tokens"][request][: agreed + 1], best[: agreed + 1])


def a_temperature_divides_its_own_rows(sampler: str, backend: Backend, case: Case) -> None:
    """Logits and temperature times the same power of 2 give the same, on either side and for each request."""
    before = outputs_of(backend, sampler, case)
    for logits, temperature, owner in (
        ("target_logits", "temperature", owners_of_rows(case)),
        ("draft_logits", "draft_temperature", owners_of(case)),
    ):
        if case[logits] is None:
            continue
        # NOTE: temperatures become 1 to 2, and then a 64th of that.
        for exponent in (1, -5):
            factor = np.ldexp(np.float32(1), exponent - np.frexp(case[temperature])[1]).astype(np.float32)
            rows = (case[logits].astype(np.float32) * factor[owner][:, None]).astype(case[logits].dtype)
            after = outputs_of(backend, sampler, {**case, logits: rows, temperature: case[temperature] * factor})
            for name in before:
                require_equal(f"{name} at other scales of {logits}", after[name], before[name])


def possible_drafts_are_accepted_at_a_coin_of_0(backend: Backend, case: Case) -> None:
    """Without filters a coin of 0 accepts every draft that both sides can choose, however unlikely.

    Temperatures are such that the least likely tokens of each request are very unlikely.
    """
    owner, spread = owners_of(case), np.ones(len(case["temperature"]))
    depth = depths_of(case["target_logits"][rows_of_drafts(case)])
    np.maximum.at(spread, owner, np.where(np.isfinite(depth), depth, 0).max(axis=1, initial=0))
    warm = {
        **case,
        "temperature": (spread / _UNLIKELY).astype(np.float32),
        "draft_temperature": np.where(case["draft_temperature"] > 0, spread / _UNLIKELY, 0).astype(np.float32),
        "uniform_samples": np.zeros_like(case["uniform_samples"]),
        **dict.fromkeys(("top_k", "top_p", "min_p")),
    }
    depth[~np.isfinite(depth)] = -1
    if case["draft_logits"] is not None:
        common = min(depth.shape[1], case["draft_logits"].shape[1])
        beside = depths_of(case["draft_logits"])[:, :common] / spread[owner][:, None]
        depth = np.where(beside < 2, depth[:, :common], -1)
    is_draft = (depth.max(axis=1, initial=-1) >= 0) & (case["draft_tokens"] >= 0)
    warm["draft_tokens"] = np.where(is_draft, depth.argmax(axis=1), -1)
    require_all_accepted(CHAIN_FROM_LOGITS, backend, warm)


def a_column_beyond_the_vocabulary_takes_its_share(sampler: str, backend: Backend, case: Case) -> None:
    """Where the draft's row nearly always chooses a token that the target lacks, its other drafts are accepted."""
    vocab, owner = case["target_logits"].shape[1], owners_of(case)
    best = case["target_logits"][rows_of_drafts(case)].astype(np.float32).argmax(axis=1)
    tokens, warm = np.where(case["draft_tokens"] >= 0, best, -1), warmed(case)
    logits = np.where(np.arange(vocab + 1) == best[:, None], np.float32(0), np.float32(-np.inf))
    logits[:, vocab] = _DEEP * warm["draft_temperature"][owner]
    coins = np.full_like(case["uniform_samples"], 1 - 2.0**-24)
    beside = {**warm, "draft_tokens": tokens, "draft_logits": logits, "uniform_samples": coins}
    require_all_accepted(sampler, backend, beside)


def forbidden_columns_change_nothing(sampler: str, backend: Backend, case: Case) -> None:
    """Columns of -inf at the end of either side's rows change no output."""
    before = backend.run(sampler, case)
    for name in ("target_logits", "draft_logits"):
        if case[name] is not None:
            beside = np.full((len(case[name]), 9), -np.inf).astype(case[name].dtype)
            wider = {**case, name: np.concatenate([case[name], beside], axis=1)}
            require_same_outputs(sampler, case, before, backend.run(sampler, wider))


def tokens_that_the_draft_lacks_are_forbidden_ones(sampler: str, backend: Backend, case: Case) -> None:
    """A draft of half the vocabulary gives what one gives that forbids the other half, after many rejections too."""
    vocab, count = case["target_logits"].shape[1], len(case["draft_tokens"])
    half = -(-vocab // 2)
    rows = np.zeros((count, half), dtype=np.float32)
    if case["draft_logits"] is not None:
        given = case["draft_logits"][:, :half].astype(np.float32)
        rows[:, : given.shape[1]] = np.where(np.isneginf(given).all(axis=1, keepdims=True), np.float32(0), given)
    coins = np.maximum(case["uniform_samples"], np.float32(0.75))
    short = {**warmed(case), "uniform_samples": coins, "draft_logits": rows}
    beside = np.full((count, vocab - half), -np.inf, dtype=np.float32)
    whole = {**short, "draft_logits": np.concatenate([rows, beside], axis=1)}
    require_same_outputs(sampler, short, backend.run(sampler, whole), backend.run(sampler, short))


def equal_rows_accept_every_draft(sampler: str, backend: Backend, case: Case) -> None:
    """Where the draft's rows are the target's, at one temperature and without filters, possible drafts are accepted."""
    logits = case["target_logits"][rows_of_drafts(case)]
    agreed = {
        **case,
        "draft_tokens": np.where(case["draft_tokens"] >= 0, logits.astype(np.float32).argmax(axis=1), -1),
        "draft_logits": logits,
        "draft_temperature": case["temperature"],
        "uniform_samples": np.minimum(case["uniform_samples"], np.float32(_SURE)),
        **dict.fromkeys(("top_k", "top_p", "min_p")),
    }
    require_all_accepted(sampler, backend, agreed)


def a_rejection_that_leaves_nothing_draws_a_possible_token(sampler: str, backend: Backend, case: Case) -> None:
    """Where an impossible draft is rejected and p and q are the same, what is drawn has a chance all the same."""
    outputs = outputs_of(backend, sampler, case)
    require_equal("num_accepted_drafts", outputs["num_accepted_drafts"], np.zeros(len(case["temperature"])))
    _require_possible(case, outputs)


def equal_rows_emit_a_possible_token(sampler: str, backend: Backend, case: Case) -> None:
    """Where p and q are the same and the coin is next to 1, rounding may reject the draft, which leaves nothing."""
    _require_possible(case, outputs_of(backend, sampler, case))


def _require_possible(case: Case, outputs: Case) -> None:
    for request, token in enumerate(outputs["output_tokens"][:, 0].tolist()):
        row = case["target_logits"][2 * request].astype(np.float32)
        require(0 <= token < len(row), f"the token of request {request}", token, f"0 to {len(row) - 1}")
        require(row[token] > -np.inf, f"the logit of the token of request {request}", row[token], "finite")


def shared_laws(group: str, sampler: str, chains: Strategy, whole_chains: Strategy) -> tuple[Property, ...]:
    """Return what holds of every sampler of chains from logits, of chains of its strategies."""
    laws = (
        (drafts_and_one_possible_token_come_out, chains, "P07"),
        (a_draft_that_its_own_row_forbids_is_rejected, whole_chains, "P07"),
        (a_rejection_that_leaves_nothing_draws_a_possible_token, logit_strategies.rows_that_leave_nothing, "P07"),
        (equal_rows_emit_a_possible_token, logit_strategies.unlikely_drafts_of_equal_rows, "P07"),
        (equal_rows_accept_every_draft, whole_chains, "P06"),
        (certain_drafts_need_no_rows, whole_chains, "P63"),
        (greedy_chains_follow_the_largest_logits, whole_chains, "P12"),
        (a_column_beyond_the_vocabulary_takes_its_share, whole_chains, "P13"),
        (a_temperature_divides_its_own_rows, chains, "P13"),
        (forbidden_columns_change_nothing, chains, "P37"),
        (tokens_that_the_draft_lacks_are_forbidden_ones, whole_chains, "P37"),
        (a_padded_tail_ends_the_draft, chains, "P37"),
        (chains_are_sampled_one_by_one, chains, "P31"),
    )
    return tuple(state(group, of_sampler(sampler, law), drawn, (sampler,), number) for law, drawn, number in laws)


_chains = logit_strategies.chain_speculative_sampling_from_logits
_whole_chains = partial(_chains, is_whole=True)
_only_liked = logit_strategies.drafts_that_only_the_target_likes

_GROUP = "chains_from_logits"
_CHAIN = (CHAIN_FROM_LOGITS,)
_PARTS = (CHAIN_FROM_LOGITS, "target_probabilities", CHAIN_SAMPLER)
_of_chains = partial(of_sampler, CHAIN_FROM_LOGITS)

PROPERTIES = (
    state(_GROUP, chains_are_softmax_filters_and_chain, _whole_chains, _PARTS, "P13"),
    *shared_laws(_GROUP, CHAIN_FROM_LOGITS, _chains, _whole_chains),
    state(_GROUP, a_draft_that_only_the_target_likes_is_drawn, _only_liked, _CHAIN, "P07"),
    state(_GROUP, possible_drafts_are_accepted_at_a_coin_of_0, _whole_chains, _CHAIN, "P06"),
    state(_GROUP, _of_chains(rows_after_the_last_token_do_not_matter), _whole_chains, _CHAIN, "P09"),
    state(_GROUP, _of_chains(final_coin_draws_the_token_after_the_drafts), _chains, _CHAIN, "P09"),
)
