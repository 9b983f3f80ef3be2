"""Faults of pipeline stages: one trims otherwise than the others, takes rows of others, or goes on too early."""

from collections.abc import Callable, Iterator
from typing import Any

from specsim.host.stages import NO_DRAFT, Relay
from specsim.properties.mutants.record import Function, Mutant, overriding

_STAGE = "PipelineStage"


def _on_others(fault: Callable[..., Any]) -> Callable[..., Any]:
    """Let a fault happen on every stage but the last."""

    def faulty(correct: Function, stage: Any, *args: Any) -> Any:
        is_last = stage.stage == stage.num_stages - 1
        return correct(stage, *args) if is_last else fault(correct, stage, *args)

    return faulty


def _keeping(*names: str) -> Callable[..., Any]:
    """Let a record change nothing in some fields of what is kept of a request."""

    def take(correct: Function, stage: Any, held: Any, row: Any) -> None:
        before = {name: getattr(held, name) for name in names}
        correct(stage, held, row)
        for name, value in before.items():
            setattr(held, name, value)

    return take


def _ready(correct: Function, stage: Any, request: Any) -> bool:
    correct(stage, request)
    return True


def _ready_between(correct: Function, stage: Any, request: Any) -> bool:
    return bool(correct(stage, request)) or 0 < stage.stage < stage.num_stages - 1


def _ready_after_one(correct: Function, stage: Any, request: Any) -> bool:
    """Wait for the first record of a request alone."""
    return bool(correct(stage, request)) or stage.state(request).bonus_token != NO_DRAFT


def _by_position(correct: Function, stage: Any, relay: Relay) -> None:
    """Give the rows of a record to the requests in flight, one after another as their rows stand."""
    waiting = [held.request for _, held in sorted(stage._rows.items()) if held.is_in_flight]
    rows = [row._replace(request=request) for row, request in zip(relay.rows, waiting, strict=False)]
    correct(stage, Relay(relay.round_number, tuple(rows)))


def _by_row(correct: Function, stage: Any, relay: Relay) -> None:
    """Give the rows of a record to those that own their rows by now."""
    rows = [
        row._replace(request=stage._rows[row.request.row].request)
        for row in relay.rows
        if row.request.row in stage._rows
    ]
    correct(stage, Relay(relay.round_number, tuple(rows)))


def _dropping(correct: Function, stage: Any, relay: Relay) -> None:
    """Drop a record as soon as one of its requests has ended."""
    owners = [held.request for held in stage._rows.values()]
    if all(row.request in owners for row in relay.rows):
        correct(stage, relay)


def _drafts_kept(correct: Function, stage: Any, held: Any, row: Any) -> None:
    """Take the bonus token and keep the drafts of the round before."""
    drafts = held.tokens[1:]
    correct(stage, held, row)
    held.tokens = (row.tokens[0], *drafts)


def _widest(correct: Function, stage: Any, held: Any, row: Any) -> None:
    """Take a record as wide as the widest so far."""
    before = held.tokens, held.parents
    correct(stage, held, row)
    width = len(row.tokens)
    held.tokens, held.parents = (*row.tokens, *before[0][width:]), (*row.parents, *before[1][width:])


def _zeros(correct: Function, stage: Any, held: Any, row: Any) -> None:
    correct(stage, held, row._replace(tokens=tuple(max(token, 0) for token in row.tokens)))


def _as_chain(correct: Function, stage: Any, held: Any, row: Any) -> None:
    correct(stage, held, row._replace(parents=tuple(range(-1, len(row.parents) - 1))))


def _one_too_many(correct: Function, stage: Any, held: Any, row: Any) -> None:
    """Count accepted drafts where the root stays too."""
    correct(stage, held, row._replace(num_committed=row.num_committed - 1, num_rejected=row.num_rejected + 1))


def _trimmed_twice(correct: Function, stage: Any, held: Any, row: Any) -> None:
    correct(stage, held, row)
    held.seq_len -= row.num_rejected


def _bonus_after_prefill_alone(correct: Function, stage: Any, held: Any, row: Any) -> None:
    """Miss the token that a prefill has chosen."""
    is_fresh = held.tokens == (NO_DRAFT,)
    correct(stage, held, row)
    if is_fresh:
        held.tokens = (0, *held.tokens[1:])


def _inherited(correct: Function, stage: Any, request: Any) -> None:
    """Keep the length of the last owner of a row for its next."""
    left = vars(stage).setdefault("_left", {})
    correct(stage, request)
    stage._rows[request.row].seq_len = left.get(request.row, 0)


def _remembered(correct: Function, stage: Any, request: Any) -> None:
    vars(stage).setdefault("_left", {})[request.row] = stage._rows[request.row].seq_len
    correct(stage, request)


def _condensed(correct: Function, stage: Any, request: Any) -> None:
    """Close the gap that a request leaves with the tokens of the last row, and let that row have those of the gap."""
    tokens = stage._rows[request.row].tokens
    correct(stage, request)
    if stage._rows:
        stage._rows[max(stage._rows)].tokens = tokens


def _mutants() -> Iterator[tuple[str, dict[str, Callable[..., Any]]]]:
    untrimmed = _keeping("seq_len", "num_placeholders")
    yield "Only the last stage trims what a launch has counted.", {"_trim": _on_others(untrimmed)}
    yield "Only the last stage trims lengths.", {"_trim": _on_others(_keeping("seq_len"))}
    yield "Only the last stage trims placeholders.", {"_trim": _on_others(_keeping("num_placeholders"))}
    yield "No stage trims what a launch has counted.", {"_trim": untrimmed}
    yield "Every stage trims twice.", {"_trim": _trimmed_twice}
    yield "The accepted drafts are counted where the root stays too.", {"_trim": _one_too_many}
    yield "A stage builds the next round before the bonus token of the last one is there.", {"is_ready": _ready}
    yield "The same on stages before the last.", {"is_ready": _on_others(_ready)}
    yield "The same on stages between the first and the last.", {"is_ready": _ready_between}
    yield "A stage waits for the token of the prefill alone.", {"is_ready": _ready_after_one}
    yield "Rows of a record are matched by position.", {"apply": _by_position}
    yield "Rows of a record go to the new owner of their row.", {"apply": _by_row}
    yield "A record with a request that has ended is dropped.", {"apply": _dropping}
    yield "Only the last stage gets drafts.", {"_take": _on_others(_drafts_kept)}
    yield "Only the last stage gets bonus tokens and drafts.", {"_take": _on_others(_keeping("tokens"))}
    yield "Only the last stage gets the tree of the drafts.", {"_take": _on_others(_keeping("parents"))}
    yield "A record has the width of the configuration.", {"_take": _widest}
    yield "Places without a draft hold token 0.", {"_take": _zeros}
    yield "Every draft is a chain.", {"_take": _as_chain}
    yield "Stages before the last miss the token after a prefill.", {"_take": _on_others(_bonus_after_prefill_alone)}
    yield (
        "Stages before the last take tokens from a row that was left for those of another.",
        {"leave": _on_others(_condensed)},
    )
    yield "A row's next owner begins at the length of the last one.", {"join": _inherited, "leave": _remembered}


FIRST_NUMBER = 5100

MUTANTS = tuple(
    Mutant(f"OWN-{number}", _STAGE, summary, overriding(**faults))
    for number, (summary, faults) in enumerate(_mutants(), FIRST_NUMBER)
)
