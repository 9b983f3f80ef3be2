"""Faults in chains from raw logits."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, instead, with_arguments
from specsim.properties.operations.from_logits.faults_rounding import in_logarithms

Array = Any
_CHAIN = "chain_speculative_sampling_from_logits"
_CLAMP = 0.1


@dataclass(frozen=True)
class Faults:
    """A chain sampler from logits by the book, but for the faults that are switched on."""

    draft_temperature_left_out: bool = False
    draft_at_the_targets_temperature: bool = False
    sentinel_subtracts: bool = False
    certain_draft_takes_its_row: bool = False
    certain_draft_stays: bool = False
    common_columns_only: bool = False
    filters_before_temperature: bool = False
    filters_on_the_last_row_only: bool = False
    rest_without_filters: bool = False
    rest_of_weights: bool = False
    greedy_is_sampled: bool = False
    greedy_ties_by_value: bool = False
    greedy_takes_the_rest: bool = False
    temperature_is_clamped: bool = False
    rows_of_drafts: bool = False
    bonus_from_the_last_draft: bool = False
    nothing_left_draws_the_last: bool = False
    unlikely_is_impossible: bool = False
    draft_row_is_forbidden: bool = False
    impossible_draft_left_out: bool = False
    rest_from_logarithms: bool = False
    rounding_leaves_the_first: bool = False


def _sampled(faults: Faults) -> Callable[..., tuple[Array, Array]]:
    def call(**arguments: Any) -> tuple[Array, Array]:
        bounds = list(pairwise(arguments["cu_num_drafts"].tolist()))
        output = np.full((len(bounds), arguments["max_num_drafts"] + 1), -1, dtype=np.int32)
        counts = np.zeros(len(bounds), dtype=np.int32)
        with np.errstate(all="ignore"):
            for request, (first, last) in enumerate(bounds):
                tokens = _walk(arguments, request, first, last, faults)
                output[request, : len(tokens)] = tokens
                counts[request] = len(tokens) - 1
        return output, counts

    return call


def _walk(arguments: Named, request: int, first: int, last: int, faults: Faults) -> list[int]:
    target = arguments["target_logits"].astype(np.float64)
    vocab, output = target.shape[1], list[int]()
    coin = float(arguments["uniform_samples_for_final_sampling"][request])
    above = first if faults.rows_of_drafts else first + request
    is_greedy = arguments["temperature"][request] == 0 and not faults.greedy_is_sampled
    for place in range(first, last):
        token, row = int(arguments["draft_tokens"][place]), target[above + len(output)]
        if is_greedy:
            best = int(row.argmax())
            accepted = row[max(token, 0)] == row[best] if faults.greedy_ties_by_value else token == best
            if not accepted or token < 0:
                return [*output, _drawn(np.exp(row - row.max()), coin) if faults.greedy_takes_the_rest else best]
            output.append(token)
            continue
        p = target_law(arguments, request, row, faults, is_last=token < 0)
        if token < 0 and not faults.sentinel_subtracts:
            break
        q = draft_law(arguments, request, place, token, vocab, faults)
        test = float(arguments["uniform_samples"][place])
        log_p, log_q = np.log(p[token]), np.log(q[token])
        if faults.unlikely_is_impossible:
            log_p = log_p if p[token] > 1e-6 else -np.inf
        if faults.rounding_leaves_the_first:
            log_p, log_q = np.float32(log_p), np.float32(log_q) + np.float32(np.log(test))
            test = 1.0
        if token >= 0 and q[token] > 0 and log_p > np.log(test) + log_q:
            output.append(token)
            continue
        rest = _rest(p, q, token, row, faults, arguments, request, place)
        return [*output, _drawn(rest, coin)]
    row = target[above + len(output) - (faults.bonus_from_the_last_draft and bool(output))]
    if is_greedy:
        return [*output, int(row.argmax())]
    return [*output, _drawn(target_law(arguments, request, row, faults, is_last=True), coin)]


def _rest(
    p: Array, q: Array, token: int, row: Array, faults: Faults, arguments: Named, request: int, place: int
) -> Array:
    if faults.rest_without_filters:
        p = _softmax(row, _warmth(arguments["temperature"][request], faults))
    is_certain = arguments["draft_logits"] is None or arguments["draft_temperature"][request] == 0
    if faults.certain_draft_takes_its_row and is_certain and arguments["draft_logits"] is not None:
        q = _aligned(_softmax(arguments["draft_logits"][place].astype(np.float64), 1.0), len(p), faults)
    if faults.certain_draft_stays and is_certain:
        q = np.zeros_like(q)
    if faults.rest_of_weights:
        p = p / p.max()
    rest = in_logarithms(p, q) if faults.rest_from_logarithms else np.maximum(p - q, 0.0)
    if faults.impossible_draft_left_out and token >= 0:
        rest[token] = 0.0
    if not rest.any() and faults.rounding_leaves_the_first and q[token] > 0:
        return np.eye(len(p))[0]
    if not rest.any():
        return np.eye(len(p))[-1] if faults.nothing_left_draws_the_last else p
    return rest


def target_law(arguments: Named, request: int, row: Array, faults: Faults, is_last: bool) -> Array:
    """Return the law of a row of the target."""
    warmth = _warmth(arguments["temperature"][request], faults)
    top_k, top_p, min_p = (
        None if arguments[name] is None else arguments[name][request] for name in ("top_k", "top_p", "min_p")
    )
    if faults.filters_on_the_last_row_only and not is_last:
        return _softmax(row, warmth)
    p = _softmax(row, 1.0 if faults.filters_before_temperature else warmth)
    if top_k is not None and top_k < len(p):
        p = _kept(p, p >= np.sort(p)[::-1][top_k - 1])
    if top_p is not None and top_p < 1:
        order = np.sort(p)[::-1]
        mass = np.cumsum(order)
        p = _kept(p, p >= order[min(np.searchsorted(mass, top_p * mass[-1]), len(p) - 1)])
    if min_p is not None and min_p > 0:
        p = _kept(p, p >= min_p * p.max())
    if faults.filters_before_temperature:
        return _softmax(np.where(p > 0, row, -np.inf), warmth)
    return p


def draft_law(arguments: Named, request: int, place: int, token: int, vocab: int, faults: Faults) -> Array:
    """Return the law of a draft over the target's vocabulary."""
    warmth = float(arguments["draft_temperature"][request])
    if arguments["draft_logits"] is None or warmth == 0:
        return np.eye(vocab)[token]
    if faults.draft_at_the_targets_temperature:
        warmth = _warmth(arguments["temperature"][request], faults)
    if faults.draft_temperature_left_out:
        warmth = 1.0
    logits = arguments["draft_logits"][place].astype(np.float64)
    if faults.common_columns_only:
        logits = logits[:vocab]
    return _aligned(_softmax(logits, warmth), vocab, faults)


def _aligned(law: Array, vocab: int, faults: Faults) -> Array:
    """Return a law over the target's vocabulary."""
    filled = np.inf if faults.draft_row_is_forbidden else 0.0
    return np.concatenate([law, np.full(max(vocab - len(law), 0), filled)])[:vocab]


def _warmth(temperature: float, faults: Faults) -> float:
    warmth = float(temperature) or 1.0
    return max(warmth, _CLAMP) if faults.temperature_is_clamped else warmth


def _softmax(row: Array, temperature: float) -> Array:
    weights = np.exp((row - row.max()) / temperature)
    return weights / weights.sum()


def _kept(p: Array, is_kept: Array) -> Array:
    kept = np.where(is_kept, p, 0.0)
    return kept / kept.sum()


def _drawn(rest: Array, coin: float) -> int:
    prefix = np.cumsum(rest)
    beyond = np.flatnonzero(prefix > coin * prefix[-1])
    return int(beyond[0]) if len(beyond) else int(np.flatnonzero(rest)[-1])


def _fault(number: str, summary: str, **switched_on: bool) -> Mutant:
    return Mutant(number, _CHAIN, summary, instead(_sampled(Faults(**switched_on))))


def numbers_everywhere(arguments: Named) -> None:
    """Raise ValueError where any logit is NaN."""
    for name in ("target_logits", "draft_logits"):
        if arguments[name] is not None and np.isnan(arguments[name].astype(np.float32)).any():
            raise ValueError("a logit is NaN")


def next_rows(arguments: Named) -> None:
    """Give every draft the row of the next one."""
    if arguments["draft_logits"] is not None:
        arguments["draft_logits"] = np.roll(arguments["draft_logits"], -1, axis=0)


MUTANTS = (
    _fault("OWN-3200", "Draft logits are not divided by their temperature.", draft_temperature_left_out=True),
    _fault("OWN-3201", "Draft logits are divided by the target's.", draft_at_the_targets_temperature=True),
    _fault("OWN-3202", "A sentinel subtracts the draft's row.", sentinel_subtracts=True),
    _fault("OWN-3203", "The rest of a certain draft is that of its row.", certain_draft_takes_its_row=True),
    _fault("OWN-3204", "The rest of a certain draft has it in.", certain_draft_stays=True),
    _fault("OWN-3205", "Draft probabilities add up over common tokens.", common_columns_only=True),
    _fault("OWN-3206", "Filters come before the temperature.", filters_before_temperature=True),
    _fault("OWN-3207", "Only the last row is filtered.", filters_on_the_last_row_only=True),
    _fault("OWN-3208", "A rejection draws from the unfiltered row.", rest_without_filters=True),
    _fault("OWN-3209", "Weights of the target are not normalised in a rest.", rest_of_weights=True),
    _fault("OWN-3210", "Greedy requests are sampled at temperature 1.", greedy_is_sampled=True),
    _fault("OWN-3211", "A greedy draft with an equal logit is accepted.", greedy_ties_by_value=True),
    _fault("OWN-3212", "A greedy rejection draws by chance.", greedy_takes_the_rest=True),
    _fault("OWN-3213", "Low temperatures are raised.", temperature_is_clamped=True),
    _fault("OWN-3214", "Target rows are counted like drafts.", rows_of_drafts=True),
    _fault("OWN-3215", "The last token comes from the row of the last draft.", bonus_from_the_last_draft=True),
    _fault("OWN-3216", "Where nothing is left, the last token is drawn.", nothing_left_draws_the_last=True),
    _fault("OWN-3217", "A draft below a millionth counts as impossible.", unlikely_is_impossible=True),
    _fault("OWN-3218", "Tokens beyond the draft's row are never drawn.", draft_row_is_forbidden=True),
    Mutant("OWN-3219", _CHAIN, "Rows that no walk reads must be numbers as well.", given(numbers_everywhere)),
    Mutant("OWN-3220", _CHAIN, "A draft is judged by the row of the next one.", given(next_rows)),
    Mutant("OWN-3221", _CHAIN, "The draft's rows do not arrive.", with_arguments(draft_logits=None)),
    _fault("OWN-3222", "A draft that its row cannot choose is never drawn.", impossible_draft_left_out=True),
    _fault("OWN-5633", "What is left comes from logarithms, of zeros too.", rest_from_logarithms=True),
    _fault("OWN-3223", "A draft that rounding rejects leaves the first token.", rounding_leaves_the_first=True),
)
