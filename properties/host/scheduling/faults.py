"""Faults in what a scheduler decides: chunks, late results, and the order of streams."""

from dataclasses import replace

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ chunk_length
    OWN-601 A chunk ends inside a page.
    - budget // page_size * page_size => budget
    OWN-602 The last token of a prompt waits for a turn.
    - return num_left => return num_left - (num_left > 1)
    @@ is_late
    S11 A result reaches a request that was retracted since.
    - num_retractions != num_retractions_at_launch => False
    OWN-603 A zombie's tokens are counted and appended.
    - has_finished => False
    OWN-604 A resumed request never gets a result again.
    - num_retractions != num_retractions_at_launch => num_retractions > 0
    @@ stream_edges
    OWN-609 KV is not written in the order of the launches.
    - _waits(event, other)
    + _waits(event, other) and not (event.writes_slots and other.writes_slots and event.launch != other.launch)
    S19 Rows change owners before queued iterations read them.
    - _waits(event, other) => _waits(event, other) and not (event.writes_map and other.reads_map)
    OWN-610 A forward reads rows before they are written.
    - _waits(event, other) => _waits(event, other) and not (event.reads_map and other.writes_map)
    OWN-611 Two writes of the map change places.
    - _waits(event, other) => _waits(event, other) and not (event.writes_map and other.writes_map)
    @@ waits_for_result
    OWN-617 The next masks are built before the grammar went on.
    - any(is_constrained) => False
    @@ truncate_at_stop
    OWN-612 V1 does not look at aborts.
    - rules[request] => replace(rules[request], is_aborted=False)
    OWN-613 V1 ends an aborted request a verify late.
    - rules[request]
    + StopRules(len(outputs[request]) + len(row) + 1) if rules[request].is_aborted else rules[request]
    """,
    replace=replace,
)
