"""Laws of chains from raw logits: they are softened, filtered and judged as their parts say, row by visited row."""

from functools import partial

import numpy as np
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend, Outcome
from specsim.properties.laws.checks import Case, arrangements, outputs_of, require, require_equal, state
from specsim.properties.laws.sampling_cells import CHAIN_SAMPLER
from specsim.properties.operations.acceptance.decided import chain_of
from specsim.properties.operations.acceptance.laws_chains import of_sampler
from specsim.properties.operations.acceptance.strategy_chains import shares_of_fronts
from specsim.properties.operations.from_logits import strategy_chains as logit_strategies
from specsim.properties.operations.from_logits.logit_chains import (
    BLOCK_FROM_LOGITS,
    CHAIN_FROM_LOGITS,
    FINAL,
    counts_of,
    depths_of,
    draft_laws,
    owners_of,
    padded,
    rows_of,
    taken,
    target_laws,
    warmed,
)
from specsim.properties.operations.generated.agreement import require_same_outputs

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
    laws = {
        "draft_probs": None if case["draft_logits"] is None else draft_laws(backend, case),
        "target_probs": target_laws(backend, case),
        "max_num_drafts": case["max_num_drafts"],
    }
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
    place = np.arange(len(tokens))
    logits = case["draft_logits"][place, np.minimum(tokens, width - 1)].astype(np.float32)
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
    count = len(case["draft_tokens"])
    garbage = np.full((count, 3), np.nan, dtype=np.float32)
    cold = {**case, "draft_logits": garbage, "draft_temperature": np.zeros_like(case["draft_temperature"])}
    require_same_outputs(sampler, absent, expected, backend.run(sampler, cold))
    vocab = case["target_logits"].shape[1]
    is_draft = np.arange(vocab) == np.maximum(case["draft_tokens"], 0)[:, None]
    sure = {
        **case,
        "draft_logits": np.where(is_draft, np.float32(3), np.float32(-np.inf)),
        "draft_temperature": np.full_like(case["draft_temperature"], 2),
    }
    require_same_outputs(sampler, sure, expected, backend.run(sampler, sure))


def greedy_chains_follow_the_largest_logits(sampler: str, backend: Backend, case: Case) -> None:
    """At temperature 0, whatever coins, filters and draft rows are, drafts have to be the first largest logit."""
    draft_logits = case["draft_logits"]
    cold = {
        **case,
        "temperature": np.zeros_like(case["temperature"]),
        "draft_logits": None if draft_logits is None else np.full_like(draft_logits, np.nan),
    }
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
        ("target_logits", "temperature", np.repeat(np.arange(len(case["temperature"])), counts_of(case) + 1)),
        ("draft_logits", "draft_temperature", owners_of(case)),
    ):
        if case[logits] is None:
            continue
        # NOTE: temperatures become 1 to 2, and then a 64th of that.
        for exponent in (1, -5):
            factor = np.ldexp(np.float32(1), exponent - np.frexp(case[temperature])[1]).astype(np.float32)
            scaled = {
                **case,
                logits: (case[logits].astype(np.float32) * factor[owner][:, None]).astype(case[logits].dtype),
                temperature: case[temperature] * factor,
            }
            after = outputs_of(backend, sampler, scaled)
            for name in before:
                require_equal(f"{name} at other scales of {logits}", after[name], before[name])


def possible_drafts_are_accepted_at_a_coin_of_0(sampler: str, backend: Backend, case: Case) -> None:
    """Without filters a coin of 0 accepts every draft that both sides can choose, however unlikely.

    Temperatures are such that the least likely tokens of each request are very unlikely.
    """
    owner, spread = owners_of(case), np.ones(len(case["temperature"]))
    depth = depths_of(case["target_logits"][np.arange(len(owner)) + owner])
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
    counts = outputs_of(backend, sampler, warm)["num_accepted_drafts"]
    expected = [int(np.cumprod(is_draft[first:last]).sum()) for first, last in rows_of(case)]
    require_equal("num_accepted_drafts at coins of 0", counts, expected)


def a_column_beyond_the_vocabulary_takes_its_share(sampler: str, backend: Backend, case: Case) -> None:
    """Where the draft's row nearly always chooses a token that the target lacks, its other drafts are accepted."""
    vocab, owner = case["target_logits"].shape[1], owners_of(case)
    best = case["target_logits"][np.arange(len(owner)) + owner].astype(np.float32).argmax(axis=1)
    tokens, warm = np.where(case["draft_tokens"] >= 0, best, -1), warmed(case)
    logits = np.where(np.arange(vocab + 1) == best[:, None], np.float32(0), np.float32(-np.inf))
    logits[:, vocab] = _DEEP * warm["draft_temperature"][owner]
    coins = np.full_like(case["uniform_samples"], 1 - 2.0**-24)
    beside = {**warm, "draft_tokens": tokens, "draft_logits": logits, "uniform_samples": coins}
    counts = outputs_of(backend, sampler, beside)["num_accepted_drafts"]
    expected = [int(np.cumprod(tokens[first:last] >= 0).sum()) for first, last in rows_of(case)]
    require_equal("num_accepted_drafts", counts, expected)


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
    before = backend.run(sampler, whole)
    require_same_outputs(sampler, short, before, backend.run(sampler, short))


def a_padded_tail_ends_the_draft(sampler: str, backend: Backend, case: Case) -> None:
    """Drafts padded with -1 give what ragged ones give, whatever stands beside the padding."""
    plain = outputs_of(backend, sampler, case)["output_tokens"]
    got = outputs_of(backend, sampler, padded(case, 2))["output_tokens"]
    require_equal("output_tokens of padded drafts", got[:, : plain.shape[1]], plain)
    require_equal("the rest", got[:, plain.shape[1] :], np.full((len(plain), got.shape[1] - plain.shape[1]), -1))


def rows_after_the_last_token_do_not_matter(backend: Backend, case: Case) -> None:
    """What stands in the rows after the one that the last token is drawn from changes nothing, be it no number."""
    whole = outputs_of(backend, CHAIN_FROM_LOGITS, case)
    unread = {**case, "target_logits": case["target_logits"].copy()}
    if case["draft_logits"] is not None:
        unread["draft_logits"] = case["draft_logits"].copy()
    for request, (first, last) in enumerate(rows_of(case)):
        count = int(whole["num_accepted_drafts"][request])
        unread["target_logits"][first + request + count + 1 : last + request + 1] = np.nan
        if case["draft_logits"] is not None:
            unread["draft_logits"][first + count + 1 : last] = np.nan
    got = outputs_of(backend, CHAIN_FROM_LOGITS, unread)
    for name in whole:
        require_equal(f"{name} beside rows of NaN", got[name], whole[name])


def chains_are_sampled_one_by_one(sampler: str, backend: Backend, case: Case) -> None:
    """A request's output is the same alone, and in any order of the batch."""
    whole = outputs_of(backend, sampler, case)
    for requests in arrangements(len(case["temperature"])):
        got = outputs_of(backend, sampler, taken(case, requests))
        for name in whole:
            require_equal(f"{name} of batch {requests}", got[name], whole[name][requests])


def final_coin_draws_the_token_after_the_drafts(backend: Backend, case: Case) -> None:
    """Another final coin accepts the same drafts; coins after the first rejection do not matter."""
    before = outputs_of(backend, CHAIN_FROM_LOGITS, case)
    flipped = (1 - 2.0**-24 - case[FINAL]).astype(np.float32)
    after = outputs_of(backend, CHAIN_FROM_LOGITS, {**case, FINAL: flipped})
    require_equal("num_accepted_drafts", after["num_accepted_drafts"], before["num_accepted_drafts"])
    coins = case["uniform_samples"].copy()
    for (first, last), count in zip(rows_of(case), before["num_accepted_drafts"].tolist(), strict=True):
        coins[first + count + 1 : last] = 0
    unused = outputs_of(backend, CHAIN_FROM_LOGITS, {**case, "uniform_samples": coins})
    require_equal("output_tokens under other unused coins", unused["output_tokens"], before["output_tokens"])


def equal_rows_accept_every_draft(sampler: str, backend: Backend, case: Case) -> None:
    """Where the draft's rows are the target's, at one temperature and without filters, possible drafts are accepted."""
    rows = [row + request for request, (first, last) in enumerate(rows_of(case)) for row in range(first, last)]
    logits = case["target_logits"][rows]
    tokens = np.where(case["draft_tokens"] >= 0, logits.astype(np.float32).argmax(axis=1), -1)
    agreed = {
        **case,
        "draft_tokens": tokens,
        "draft_logits": logits,
        "draft_temperature": case["temperature"],
        "uniform_samples": np.minimum(case["uniform_samples"], np.float32(_SURE)),
        **dict.fromkeys(("top_k", "top_p", "min_p")),
    }
    counts = outputs_of(backend, sampler, agreed)["num_accepted_drafts"]
    expected = [int(np.cumprod(tokens[first:last] >= 0).sum()) for first, last in rows_of(case)]
    require_equal("num_accepted_drafts", counts, expected)


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


_equal_rows = logit_strategies.rows_that_leave_nothing
_unlikely_drafts = logit_strategies.unlikely_drafts_of_equal_rows
_only_liked = logit_strategies.drafts_that_only_the_target_likes


def _chains() -> SearchStrategy[Case]:
    return logit_strategies.chain_speculative_sampling_from_logits()


def _whole_chains() -> SearchStrategy[Case]:
    return logit_strategies.chain_speculative_sampling_from_logits(is_whole=True)


_CHAIN = (CHAIN_FROM_LOGITS,)
_PARTS = (CHAIN_FROM_LOGITS, "target_probabilities", "chain_speculative_sampling")
_state = partial(state, "chains_from_logits")
_of_chains = partial(of_sampler, CHAIN_FROM_LOGITS)

PROPERTIES = (
    _state(chains_are_softmax_filters_and_chain, _whole_chains, _PARTS, "P13"),
    _state(_of_chains(drafts_and_one_possible_token_come_out), _chains, _CHAIN, "P07"),
    _state(_of_chains(a_draft_that_its_own_row_forbids_is_rejected), _whole_chains, _CHAIN, "P07"),
    _state(a_draft_that_only_the_target_likes_is_drawn, _only_liked, _CHAIN, "P07"),
    _state(_of_chains(a_rejection_that_leaves_nothing_draws_a_possible_token), _equal_rows, _CHAIN, "P07"),
    _state(_of_chains(equal_rows_emit_a_possible_token), _unlikely_drafts, _CHAIN, "P07"),
    _state(_of_chains(equal_rows_accept_every_draft), _whole_chains, _CHAIN, "P06"),
    _state(_of_chains(certain_drafts_need_no_rows), _whole_chains, _CHAIN, "P63"),
    _state(_of_chains(greedy_chains_follow_the_largest_logits), _whole_chains, _CHAIN, "P12"),
    _state(_of_chains(possible_drafts_are_accepted_at_a_coin_of_0), _whole_chains, _CHAIN, "P06"),
    _state(_of_chains(a_column_beyond_the_vocabulary_takes_its_share), _whole_chains, _CHAIN, "P13"),
    _state(_of_chains(a_temperature_divides_its_own_rows), _chains, _CHAIN, "P13"),
    _state(_of_chains(forbidden_columns_change_nothing), _chains, _CHAIN, "P37"),
    _state(_of_chains(tokens_that_the_draft_lacks_are_forbidden_ones), _whole_chains, _CHAIN, "P37"),
    _state(_of_chains(a_padded_tail_ends_the_draft), _chains, _CHAIN, "P37"),
    _state(rows_after_the_last_token_do_not_matter, _whole_chains, _CHAIN, "P09"),
    _state(_of_chains(chains_are_sampled_one_by_one), _chains, _CHAIN, "P31"),
    _state(final_coin_draws_the_token_after_the_drafts, _chains, _CHAIN, "P09"),
)
