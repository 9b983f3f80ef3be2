"""Faults in padding: what stands after live rows, and what is forgotten when it is taken off."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, Named, answering, mutants_of_operations

_REQUESTS = "num_requests = _padded_requests(batch, num_tokens)"
_FILLED = 'changed: dict[str, Any] = {"num_live_tokens": batch.num_tokens}'
_PADDED = "return replace(batch, **changed)"
_TRIMMED = "replace(padded, **restored, num_live_tokens=before.num_live_tokens)"
_HIDDEN = "output.hidden_states[:num_hidden]"


def _filling(statement: str) -> Callable[[Function], Function]:
    """Inject a fault in what fills the fields of padding."""
    return edited(_FILLED, f"{statement}\n{_FILLED}")


def _padding(statement: str) -> Callable[[Function], Function]:
    """Inject a fault in the fields of the padded batch."""
    return edited(_PADDED, f"{statement}\n{_PADDED}")


def _to(num_tokens: str) -> Callable[[Function], Function]:
    """Inject a padding to other rows, of which a request has a width."""
    width = "width = 1 if batch.mode is ForwardMode.EXTEND else batch.num_tokens_per_req or 1"
    return edited(_REQUESTS, f"{width}\nnum_tokens = {num_tokens}\n{_REQUESTS}")


def _trimmed(*left: str) -> Callable[[Function], Function]:
    """Inject a fault that leaves some fields as the forward read them; all of them where lengths would disagree."""

    def answer(correct: Function, arguments: Named) -> Any:
        batch, output = correct(**arguments)
        padded = arguments["padded"]
        with suppress(ValueError):
            return replace(batch, **{name: getattr(padded, name) for name in left}), output
        return padded, output

    return answering(answer)


def _forgotten(name: str, size: str) -> Callable[[Function], Function]:
    """Inject a fault that gives the forward's own entries of live rows back, written over, instead of the kept ones."""
    field = f"padded.{name}"
    return edited(_TRIMMED, f"replace({_TRIMMED}, {name}={field} if {field} is None else {field}[: before.{size}])")


def _output(rows: str) -> Callable[[Function], Function]:
    """Inject a fault that keeps other rows of the logits and of the hidden states."""
    return edited("output.logits[:kept]", f"output.logits[{rows}]", _HIDDEN, f"output.hidden_states[{rows}]")


_PAD = "pad_inputs_to_size"
_TRIM = "post_forward_mlp_sync_batch"

MUTANTS = mutants_of_operations(
    {
        ("X09", _PAD, "Tokens of padding have the slot of the last live one."): _filling(
            'fills["out_cache_loc"] = 0 if batch.out_cache_loc is None else [0, *batch.out_cache_loc][-1]'
        ),
        ("OWN-2300", _PAD, "Requests of padding have the row of their neighbour."): _filling(
            'fills["req_pool_indices"] = batch.req_pool_indices[-1:].sum()'
        ),
        ("G06", _PAD, "Rows are padded in front, everything else at the end."): _padding(
            'changed["req_pool_indices"] = np.roll(changed["req_pool_indices"], grown[Along.REQUEST])'
        ),
        ("OWN-2301", _PAD, "Requests of padding have no length."): _filling('fills["seq_lens"] = 0'),
        ("OWN-2302", _PAD, "The host's copies of their lengths are 0."): _filling('fills["seq_lens_cpu"] = 0'),
        ("OWN-2303", _PAD, "The sum of lengths stays that of live requests."): _padding(
            'changed["seq_lens_sum"] = batch.seq_lens_sum'
        ),
        ("OWN-2304", _PAD, "A sum that no one knows counts as 0."): _padding(
            'changed.setdefault("seq_lens_sum", seq_len_fill_value * grown[Along.REQUEST])'
        ),
        ("OWN-2305", _PAD, "An extend of fixed width has no row for padding."): _filling(
            'fills["extend_seq_lens"] = 0'
        ),
        ("OWN-2306", _PAD, "The two counts are padded with different values."): _filling(
            'fills["num_accepted_tokens"] += 1'
        ),
        ("G12", _PAD, "Rows of padding count as live."): _padding('changed["num_live_tokens"] = num_tokens'),
        ("OWN-2346", _PAD, "No row of a draft counts as live."): _padding(
            'changed["num_live_tokens"] *= batch.mode is not ForwardMode.DECODE'
        ),
        ("OWN-2307", _PAD, "An extend tells of its own rows only."): _padding(
            'changed["extend_num_tokens"] = batch.extend_num_tokens'
        ),
        ("OWN-2308", _PAD, "Hidden states appear where there are none."): _padding(
            'changed.setdefault("hidden_states", np.zeros((num_tokens, 2), dtype=np.int64))'
        ),
        ("OWN-2345", _PAD, "Requests of an extend have the rows of a path."): edited(
            _REQUESTS,
            f"""
                width = batch.num_tokens_per_req or 0
                if batch.mode is ForwardMode.DRAFT_EXTEND_V2 and width > 1 and batch.num_requests:
                    num_tokens = ceil_to(max(num_tokens // width * (width - 1), batch.num_tokens), width)
                {_REQUESTS}
                """,
        ),
        ("OWN-2309", _PAD, "Padding ends a request early."): _to(
            "max(num_tokens - width, batch.num_requests * width, batch.num_tokens)"
        ),
        ("OWN-2310", _PAD, "Padding ends a request late."): _to("num_tokens + width"),
        ("G14", _PAD, "Rows that make no request are rounded up, unsaid."): _to("ceil_to(num_tokens, width)"),
        ("OWN-2311", _TRIM, "Nothing but the output is trimmed."): edited(_TRIMMED, "padded"),
        ("OWN-2312", _TRIM, "Both counts stay padded."): _trimmed("num_accepted_drafts", "num_accepted_tokens"),
        ("OWN-2313", _TRIM, "Slots were kept after they had been padded."): _trimmed("out_cache_loc"),
        ("OWN-2314", _TRIM, "Token ids stay padded."): _trimmed("input_ids"),
        ("OWN-2315", _TRIM, "Candidates stay padded."): _trimmed("topk_p", "topk_index"),
        ("OWN-2316", _TRIM, "Names of adapters stay padded."): _trimmed("lora_ids"),
        ("OWN-2317", _TRIM, "The fill stays in the sum of lengths."): _trimmed("seq_lens_sum"),
        ("OWN-2318", _TRIM, "The number of live rows stays."): _trimmed("num_live_tokens"),
        ("OWN-2319", _TRIM, "An extend goes on with the padded number of rows."): _trimmed("extend_num_tokens"),
        ("OWN-2320", _TRIM, "Positions are those that the forward left."): _forgotten("positions", "num_tokens"),
        ("OWN-2321", _TRIM, "Lengths are those that the forward left."): _forgotten("seq_lens", "num_requests"),
        ("OWN-2322", _TRIM, "Hidden states are those that the forward left."): _forgotten(
            "hidden_states", "num_tokens"
        ),
        ("OWN-2323", _TRIM, "Counts are those that the forward left."): _forgotten(
            "num_accepted_tokens", "num_requests"
        ),
        ("OWN-2324", _TRIM, "A decode stays the extend that it was run as."): edited(
            _TRIMMED, f"replace({_TRIMMED}, mode=padded.mode)"
        ),
        ("X11", _TRIM, "Every forward yields one row a request."): _output(": before.num_requests"),
        ("OWN-2325", _TRIM, "The last rows are kept."): _output("len(output.logits) - before.num_tokens :"),
        ("OWN-2326", _TRIM, "The last live row is cut off."): _output(": max(before.num_tokens - 1, 0)"),
        ("OWN-2327", _TRIM, "A row of padding is kept."): _output(": before.num_tokens + 1"),
        ("OWN-2328", _TRIM, "Hidden states are cut to one a request."): edited(
            _HIDDEN, "output.hidden_states[: before.num_requests]"
        ),
        ("OWN-2329", _TRIM, "Forwards without hidden states crash."): edited("output.hidden_states is None", "False"),
    }
)
