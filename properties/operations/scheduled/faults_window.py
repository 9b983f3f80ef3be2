"""Faults of ragged verification: windows and padding, metadata, the cut of an acceptance, and commits."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import (
    Function,
    Named,
    answering,
    given,
    mutants_of,
    of_the_neighbour,
    returning,
    with_arguments,
    with_outputs,
)
from specsim.properties.mutants.tables import rows_of_the_batch, slots_for_pages


def _live(arguments: Named) -> int:
    return int(arguments["verify_lens"].sum())


def _slot_of_the_first(outputs: Named, arguments: Named) -> None:
    outputs["out_cache_loc"][_live(arguments) :] = outputs["out_cache_loc"][:1]


def _dense_positions(outputs: Named, arguments: Named) -> None:
    """Row g is read from the positions of whole chains, at place g."""
    width, live = arguments["candidates"].shape[1], _live(arguments)
    dense = np.repeat(arguments["seq_lens"].astype(np.int64), width) + np.tile(
        np.arange(width), len(arguments["seq_lens"])
    )
    outputs["positions"][:live] = dense[:live]


def _dense_tokens(outputs: Named, arguments: Named) -> None:
    live = _live(arguments)
    outputs["input_ids"][:live] = arguments["candidates"].reshape(-1)[:live]


def _dense_nodes(outputs: Named, arguments: Named) -> None:
    live = _live(arguments)
    outputs["window_index"][:live] = np.arange(live)


def _padding_of_the_last(outputs: Named, arguments: Named) -> None:
    """Rows that are left are the next ones of the last request, as far as its row goes."""
    live, lens = _live(arguments), arguments["verify_lens"]
    if not len(lens):
        return
    first = int(arguments["seq_lens"][-1]) + int(lens[-1])
    slots = arguments["req_to_token"][arguments["req_pool_indices"][-1]][first:]
    count = min(len(slots), arguments["num_tokens"] - live)
    outputs["positions"][live : live + count] = first + np.arange(count)
    outputs["out_cache_loc"][live : live + count] = slots[:count]


def _window_with(name: str, change: Any) -> Any:
    def edit(outputs: Named, arguments: Named) -> None:
        live = slice(0, _live(arguments))
        outputs[name][live] = change(outputs[name][live])

    return edit


def _shares(outputs: Named, arguments: Named, order: slice) -> None:
    count = len(arguments["verify_lens"])
    outputs["padded_verify_lens"][count:] = outputs["padded_verify_lens"][count:][order]


def _extra_rows_at_the_end(outputs: Named, arguments: Named) -> None:
    _shares(outputs, arguments, slice(None, None, -1))


def _extra_rows_are_lost(outputs: Named, arguments: Named) -> None:
    count = len(arguments["verify_lens"])
    padding = outputs["padded_verify_lens"][count:]
    padding[:] = padding.min(initial=2**31 - 1)


def _all_left_to_the_first(outputs: Named, arguments: Named) -> None:
    lens = outputs["padded_verify_lens"][len(arguments["verify_lens"]) :]
    if len(lens):
        total, most = int(lens.sum(dtype=np.int64)), arguments["max_verify_len"]
        lens[:] = [min(total, most), *[0] * (len(lens) - 1)]


def _full_batch_stays(correct: Function, arguments: Named) -> Any:
    is_full = arguments["num_padded_requests"] == len(arguments["verify_lens"])
    total = _live(arguments) if is_full else arguments["num_tokens"]
    return correct(**{**arguments, "num_tokens": total})


def _rows_go_on(correct: Function, arguments: Named) -> Any:
    """Every block is read whole from where its request starts."""
    values, width = arguments["values"], arguments["num_draft_tokens"]
    starts = np.cumsum([0, *arguments["verify_lens"]])[:-1]
    strided = np.zeros_like(correct(**arguments))
    for request, start in enumerate(starts.tolist()):
        read = values[start : start + width]
        strided[request * width : request * width + len(read)] = read
    return strided


def _stays_compact(correct: Function, arguments: Named) -> Any:
    strided, live = np.zeros_like(correct(**arguments)), _live(arguments)
    strided[:live] = arguments["values"][:live]
    return strided


def _rest_is_the_last_row(correct: Function, arguments: Named) -> Any:
    strided = np.array(correct(**arguments))
    width = arguments["num_draft_tokens"]
    for request, own in enumerate(arguments["verify_lens"].tolist()):
        if own:
            strided[request * width + own : (request + 1) * width] = strided[request * width + own - 1]
    return strided


def _queries_of_whole_chains(outputs: Named, arguments: Named) -> None:
    most = int(arguments["verify_lens"].max(initial=0))
    outputs["cu_seqlens_q"] = (np.arange(len(arguments["verify_lens"]) + 1) * most).astype(np.int32)


def _keys_of_whole_chains(outputs: Named, arguments: Named) -> None:
    lens = arguments["seq_lens"].astype(np.int64) + int(arguments["verify_lens"].max(initial=0))
    outputs["cache_seqlens"] = lens.astype(np.int32)
    outputs["cu_seqlens_k"] = np.cumsum([0, *lens]).astype(np.int32)


def _keys_of_the_text(outputs: Named, arguments: Named) -> None:
    lens = arguments["seq_lens"].astype(np.int64)
    outputs["cache_seqlens"] = lens.astype(np.int32)
    outputs["cu_seqlens_k"] = np.cumsum([0, *lens]).astype(np.int32)


def _not_cut(outputs: Named, arguments: Named) -> None:
    outputs["num_kept_drafts"] = arguments["num_accepted_drafts"].copy()
    outputs["cut_tokens"] = arguments["bonus_tokens"].astype(np.int64)


def _token_of_the_walk(outputs: Named, arguments: Named) -> None:
    outputs["cut_tokens"] = arguments["bonus_tokens"].astype(np.int64)


def _token_of_a_zero_row(outputs: Named, arguments: Named) -> None:
    """At the cut the token is the largest logit of the row after it, which is all 0."""
    is_cut = arguments["num_accepted_drafts"] >= arguments["verify_lens"]
    outputs["cut_tokens"] = np.where(is_cut, 0, outputs["cut_tokens"])


def _last_kept_draft(outputs: Named, arguments: Named) -> None:
    is_cut = arguments["num_accepted_drafts"] >= arguments["verify_lens"]
    again = arguments["candidates"][np.arange(len(is_cut)), outputs["num_kept_drafts"]]
    outputs["cut_tokens"] = np.where(is_cut, again, outputs["cut_tokens"])


def _one_draft_more(correct: Function, arguments: Named) -> Any:
    width = arguments["candidates"].shape[1]
    lens = np.minimum(arguments["verify_lens"] + 1, width).astype(np.int32)
    return correct(**{**arguments, "verify_lens": lens})


def _drafts_alone(arguments: Named) -> None:
    arguments["commit_lens"] = np.maximum(arguments["commit_lens"] - 1, 0).astype(np.int32)


def _whole_gate(arguments: Named) -> None:
    if arguments["verify_lens"] is not None:
        arguments["commit_lens"] = arguments["verify_lens"].copy()


def _dump_slot(outputs: Named, arguments: Named) -> None:
    outputs["inject_loc"] = np.maximum(outputs["inject_loc"], 0)


def _positions_of_commits(outputs: Named, arguments: Named) -> None:
    outputs["positions"] = np.where(outputs["inject_loc"] < 0, 0, outputs["positions"])


def _without_rows(correct: Function, arguments: Named) -> Any:
    if not arguments["ring_size"]:
        return correct(**arguments)
    layout = correct(**arguments)
    places = np.where(layout.inject_loc < 0, -1, layout.inject_loc % arguments["ring_size"])
    return places.astype(np.int32), layout.positions


def _ring_of_the_window(correct: Function, arguments: Named) -> Any:
    if not arguments["ring_size"]:
        return correct(**arguments)
    layout = correct(**arguments)
    shifted = correct(**{**arguments, "seq_lens": np.zeros_like(arguments["seq_lens"])})
    return shifted.inject_loc, layout.positions


def _without_map(correct: Function, arguments: Named) -> Any:
    return correct(**{**arguments, "slot_map": None})


def _ungated(correct: Function, arguments: Named) -> Any:
    """Slots of rows that the gate keeps out are read as far as the row goes."""
    room = arguments["req_to_token"].shape[1] - arguments["seq_lens"].astype(np.int64)
    most = 2**31 - 1 if arguments["ring_size"] else np.maximum(room, 0)
    commit = np.minimum(arguments["commit_lens"], most).astype(np.int32)
    return correct(**{**arguments, "verify_lens": None, "commit_lens": commit})


MUTANTS = (
    *mutants_of(
        "ragged_verify_window",
        ("OWN-4010", "Padding names node 0.", with_outputs(window_index=lambda index: np.maximum(index, 0))),
        ("OWN-4011", "Positions are those of whole chains.", returning(_dense_positions)),
        ("OWN-4013", "Rows that are left are further rows of the last request.", returning(_padding_of_the_last)),
        ("OWN-4015", "Padding writes the slot of the first row.", returning(_slot_of_the_first)),
        ("OWN-4032", "Tokens are those of whole chains.", returning(_dense_tokens)),
        ("OWN-4033", "Nodes are numbered by row.", returning(_dense_nodes)),
        (
            "OWN-4034",
            "Positions have already advanced.",
            returning(_window_with("positions", lambda positions: positions + 1)),
        ),
        ("OWN-4035", "The row is the place in the batch.", given(rows_of_the_batch)),
        ("OWN-4036", "Lengths are those of the neighbour.", of_the_neighbour("seq_lens")),
    ),
    *mutants_of(
        "pad_verify_lens_to_bucket",
        ("OWN-4040", "Rows that do not divide go to the last padding.", returning(_extra_rows_at_the_end)),
        ("OWN-4041", "Rows that do not divide are lost.", returning(_extra_rows_are_lost)),
        ("OWN-4042", "A full batch keeps its lengths.", answering(_full_batch_stays)),
        ("OWN-4043", "Lengths are not cut.", with_arguments(max_verify_len=2**31 - 1)),
        ("OWN-4044", "The first padding gets all rows that are left.", returning(_all_left_to_the_first)),
    ),
    *mutants_of(
        "scatter_compact_to_strided",
        ("OWN-4045", "A block reads on into the next request.", answering(_rows_go_on)),
        ("OWN-4046", "Rows stay where they are.", answering(_stays_compact)),
        ("OWN-4047", "Rows that were not verified repeat the last one.", answering(_rest_is_the_last_row)),
    ),
    *mutants_of(
        "ragged_verify_metadata",
        ("OWN-4016", "Query offsets are those of whole chains.", returning(_queries_of_whole_chains)),
        ("OWN-4048", "Keys are those of whole chains.", returning(_keys_of_whole_chains)),
        ("OWN-4049", "Keys are those of the text alone.", returning(_keys_of_the_text)),
        ("OWN-4050", "Slots stand where pages should.", returning(slots_for_pages)),
        ("OWN-4051", "The row is the place in the batch.", given(rows_of_the_batch)),
    ),
    *mutants_of(
        "cap_accepted_drafts",
        ("OWN-4006", "Nothing is cut.", returning(_not_cut)),
        ("OWN-4007", "Drafts are cut, and the token is that of the whole walk.", returning(_token_of_the_walk)),
        ("OWN-4008", "The token at the cut is that of the row after it.", returning(_token_of_a_zero_row)),
        ("OWN-4014", "Drafts that were never computed are counted as lost.", with_arguments(is_compact=False)),
        ("OWN-4055", "The token at the cut is the last draft that was kept.", returning(_last_kept_draft)),
        ("OWN-4056", "The cut is one draft late.", answering(_one_draft_more)),
        (
            "OWN-4057",
            "No draft is counted as lost.",
            with_outputs(cap_trim_lens=np.zeros_like),
        ),
    ),
    *mutants_of(
        "commit_inject_layout",
        ("OWN-4012", "Rows are injected whatever the gate says.", answering(_ungated)),
        ("OWN-4017", "The drafts are injected without their root.", given(_drafts_alone)),
        ("OWN-4058", "All verified rows are injected.", given(_whole_gate)),
        (
            "OWN-4059",
            "Rows that are not injected go to slot 0.",
            returning(_dump_slot),
        ),
        ("OWN-4090", "Rows that are not injected have no position.", returning(_positions_of_commits)),
        ("OWN-4091", "All requests share a ring.", answering(_without_rows)),
        ("OWN-4092", "A ring starts with the window.", answering(_ring_of_the_window)),
        ("OWN-4093", "Slots are those of the target.", answering(_without_map)),
    ),
)
