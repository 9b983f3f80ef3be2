"""Faults in what ranks agree on before a forward: rows of every rank, and lengths that the host lacks."""

from dataclasses import replace
from typing import Any

import numpy as np

from specsim.phases import ExtendLens, ForwardBatch, PaddingMode, SyncPlan
from specsim.properties.mutants.record import Function, Mutant, Named, answering, with_arguments, with_fields

_PLAN, _LENS, _TURN = "plan_mlp_sync_batch", "get_draft_extend_lens", "as_one_token_extend"


def _planned(change: Any) -> Any:
    def answer(correct: Function, arguments: Named) -> SyncPlan:
        plan: SyncPlan = correct(**arguments)
        return replace(plan, **change(correct, arguments))

    return answering(answer)


def _plan_of(rows: list[int], is_longest: bool) -> Named:
    if is_longest:
        rows = [max(rows)] * len(rows)
    mode = PaddingMode.MAX_LEN if is_longest else PaddingMode.SUM_LEN
    return {"mode": mode, "num_tokens": tuple(rows), "buffer_len": sum(rows)}


def _own_rows(correct: Function, arguments: Named) -> list[int]:
    """Return the rows of each rank as it has them alone."""
    alone = [{**arguments, "global_num_tokens": [count]} for count in arguments["global_num_tokens"]]
    return [correct(**one).num_tokens[0] for one in alone]


def _always_the_longest(correct: Function, arguments: Named) -> Named:
    return _plan_of(_own_rows(correct, arguments), True)


def _never_the_longest(correct: Function, arguments: Named) -> Named:
    return _plan_of(_own_rows(correct, arguments), False)


def _half_is_too_little(correct: Function, arguments: Named) -> Named:
    rows = _own_rows(correct, arguments)
    return _plan_of(rows, correct(**arguments).mode is PaddingMode.MAX_LEN and 2 * sum(rows) > max(rows) * len(rows))


def _prompts_padded_to_the_longest(correct: Function, arguments: Named) -> Named:
    plan = correct(**{**arguments, "is_extend_in_batch": False})
    return {"mode": plan.mode, "num_tokens": plan.num_tokens, "buffer_len": plan.buffer_len}


def _buffer_of_the_longest(correct: Function, arguments: Named) -> Named:
    plan = correct(**arguments)
    return {"buffer_len": max(plan.num_tokens) * len(plan.num_tokens)}


def _decodes_turn_beside_anybody(_: Function, arguments: Named) -> Named:
    return {"turns_into_extend": arguments["is_extend_in_batch"]}


def _decodes_stay_decodes(_: Function, __: Named) -> Named:
    return {"turns_into_extend": False}


def _waited_for(correct: Function, arguments: Named) -> ExtendLens:
    known = arguments["seq_lens_cpu"]
    lengths = tuple(arguments["seq_lens"].tolist()) if known is None else known
    lens: ExtendLens = correct(**{**arguments, "seq_lens_cpu": lengths})
    return lens


def _width_of_the_path(lens: ExtendLens, arguments: Named) -> Named:
    width = max(arguments["num_draft_tokens"] - 1, 1)
    return {"extend_lens_cpu": (width,) * len(lens.extend_lens_cpu)}


def _lengths_after_the_verify(lens: ExtendLens, arguments: Named) -> Named:
    if isinstance(lens.prefix_lens, tuple):
        return {"prefix_lens": tuple(length + arguments["num_draft_tokens"] for length in lens.prefix_lens)}
    return {"prefix_lens": lens.prefix_lens + np.int32(arguments["num_draft_tokens"])}


def _wide_lengths(lens: ExtendLens, _: Named) -> Named:
    return {} if isinstance(lens.prefix_lens, tuple) else {"prefix_lens": lens.prefix_lens.astype(np.int64)}


def _sum_before_the_extend(lens: ExtendLens, _: Named) -> Named:
    return {} if lens.forward_lens_sum is None else {"forward_lens_sum": sum(lens.prefix_lens)}


def _prefix_with_the_new_token(correct: Function, arguments: Named) -> ForwardBatch:
    batch: ForwardBatch = correct(**arguments)
    return replace(batch, extend_prefix_lens=arguments["batch"].seq_lens)


MUTANTS = (
    Mutant("OWN-2330", _PLAN, "Every rank runs as many rows as the busiest.", _planned(_always_the_longest)),
    Mutant("OWN-2331", _PLAN, "Every rank runs its own rows.", _planned(_never_the_longest)),
    Mutant("OWN-2332", _PLAN, "Exactly twice the rows are too many.", _planned(_half_is_too_little)),
    Mutant("OWN-2333", _PLAN, "Prompts beside other ranks are padded.", _planned(_prompts_padded_to_the_longest)),
    Mutant("OWN-2334", _PLAN, "Rows are rounded up to groups, not to requests.", with_arguments(num_tokens_per_req=1)),
    Mutant("OWN-2335", _PLAN, "Only one of two groups shares the rows.", with_arguments(attn_cp_size=1)),
    Mutant("OWN-2336", _PLAN, "The buffer is always that of the longest.", _planned(_buffer_of_the_longest)),
    Mutant("OWN-2337", _PLAN, "Decodes beside prompts stay decodes.", _planned(_decodes_stay_decodes)),
    Mutant("OWN-2347", _PLAN, "Decodes turn beside anybody's prompts.", _planned(_decodes_turn_beside_anybody)),
    Mutant("OWN-2338", _LENS, "Lengths that the host lacks are waited for.", answering(_waited_for)),
    Mutant(
        "OWN-2339",
        _LENS,
        "A sum that no one knows is 0.",
        with_fields(lambda lens, _: {"forward_lens_sum": lens.forward_lens_sum or 0}),
    ),
    Mutant("OWN-2340", _LENS, "The host's copy has the width of a path.", with_fields(_width_of_the_path)),
    Mutant("OWN-2341", _LENS, "The prefix ends after the verify.", with_fields(_lengths_after_the_verify)),
    Mutant("OWN-2342", _LENS, "Lengths of the device have 64 bits.", with_fields(_wide_lengths)),
    Mutant("OWN-2343", _LENS, "The sum is that before the extend.", with_fields(_sum_before_the_extend)),
    Mutant("OWN-2344", _TURN, "The prefix counts the new token.", answering(_prefix_with_the_new_token)),
)
