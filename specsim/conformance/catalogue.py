"""Everything that an implementation may define under a name of ours, and what kind of callable it is.

Operations have a record in one of the tables. Host functions run on the host and take no arrays of a device: rules,
figures, stops, hand-overs; the laws hold of an implementation's own as well. A module that says
``HOST = "package.module"`` takes those that it does not define itself from there. Parts are what an engine is built
from, classes and functions: they stand above this floor, so that an entry says where; ``PARTS = "package.module"``.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from specsim.algorithms import check_registration, find_algorithm, target_verify_width
from specsim.host.adaptive import adapt_num_steps, route_batch_size
from specsim.host.budget import agree_on_tier, align_verify_budget, verify_graph_tier, verify_token_budget
from specsim.host.dflash import target_feature_layers
from specsim.host.exporting import exportable_pages, loadable_positions
from specsim.host.grammar import advance_grammar, traverse_tree
from specsim.host.metrics import (
    count_batch,
    count_verify,
    drafts_per_round,
    interval_rates,
    meta_info,
    report_decode_stats,
    update_spec_metrics,
)
from specsim.host.ngram import NgramCorpus, NgramStore, draft_with_corpora, merge_drafts, share_draft_nodes
from specsim.host.noise import stream_key, stream_uniform
from specsim.host.positions import count_positions
from specsim.host.processors import apply_logit_processors
from specsim.host.proposals import sample_draft_chains, walk_markov_drafts, walk_selector_drafts
from specsim.host.ranks import broadcast_decision
from specsim.host.schedules import choose_verify_lens, should_verify
from specsim.host.scheduling import chunk_length, is_late, waits_for_result
from specsim.host.simulated import simulated_num_tokens
from specsim.host.stages import PipelineStage
from specsim.host.stopping import append_run, clip_drafts, find_stop, play_runs
from specsim.host.streams import stream_edges
from specsim.host.truncation import truncate_at_stop
from specsim.operations import MODEL_TABLE, TABLE
from specsim.operations.derived.signature import nearest
from specsim.operations.record import Operation
from specsim.operations.without_coins import WITHOUT_COINS
from specsim.phases import (
    as_one_token_extend,
    expect_phase,
    filter_batch,
    get_draft_extend_lens,
    get_spec_adjust_token_coefficient,
    get_spec_adjusted_global_num_tokens,
    is_draft_input,
    is_verify_input,
    merge_batch,
    pad_inputs_to_size,
    plan_mlp_sync_batch,
    post_forward_mlp_sync_batch,
    to_frozen_kv_mtp_draft_extend_input,
)
from specsim.rejection import Reason, SpecRejection
from specsim.rules import resolve


class Kind(StrEnum):
    """What a callable is."""

    OPERATION = "operation"
    MODEL_OPERATION = "model operation"
    HOST_FUNCTION = "host function"
    PART = "part of an engine"
    SAMPLER_WITHOUT_COINS = "sampler without coins"


@dataclass(frozen=True)
class Entry:
    """One callable.

    Parameters
    ----------
    name : str
        The name in every implementation.
    kind : Kind
        What it is.
    group : str
        The module of its laws.
    source : str
        Where the meaning comes from.
    record : Operation or None
        Its contract; None for a function of the host.
    function : callable or None
        A function of the host; None where layers implement it.
    is_conformance_only : bool
        Whether nothing in specsim calls it: it is there for engines that are checked.
    home : str or None
        The module of a part, as in an import; None for everything else.
    outside_runs : str
        Why no engine calls it in its runs; nothing of what an engine asks for.
    """

    name: str
    kind: Kind
    group: str
    source: str
    record: Operation | None = None
    function: Callable[..., Any] | None = None
    is_conformance_only: bool = False
    home: str | None = None
    outside_runs: str = ""

    @property
    def on_host(self) -> Callable[..., Any] | None:
        """Our host function, or our part, which is imported; None where layers implement it."""
        return self.function if self.home is None else vars(importlib.import_module(self.home))[self.name]


_OUTSIDE_RUNS = {
    "algorithms": "it chooses a worker before a run",
    "metrics": "it makes figures for reports, which an engine counts by itself",
    "rules": "it chooses a worker before a run",
    "required_row_width": "it sizes pools before a run",
    "committed": "an engine exports where somebody asks it to",
    "export_text": "an engine exports where somebody asks it to",
}
"""Why no engine calls a callable, by its name or by the group of a host function."""


def _host(function: Callable[..., Any], group: str, source: str, *, conformance_only: bool = False) -> Entry:
    return Entry(
        function.__name__,
        Kind.HOST_FUNCTION,
        group,
        source,
        function=function,
        is_conformance_only=conformance_only,
        outside_runs=_OUTSIDE_RUNS.get(group, ""),
    )


_HOST_FUNCTIONS = (
    _host(adapt_num_steps, "adaptive", "semantics F.6"),
    _host(route_batch_size, "adaptive", "semantics F.6"),
    _host(check_registration, "algorithms", "semantics G.3"),
    _host(find_algorithm, "algorithms", "semantics G.1"),
    _host(target_verify_width, "algorithms", "semantics G.4", conformance_only=True),
    _host(target_feature_layers, "dflash", "semantics A.14b", conformance_only=True),
    _host(exportable_pages, "committed", "semantics Q.7"),
    _host(loadable_positions, "committed", "semantics Q.7"),
    _host(traverse_tree, "grammar", "semantics B.5"),
    _host(count_batch, "metrics", "semantics H.1, I.3"),
    _host(count_verify, "metrics", "semantics H.3"),
    _host(count_positions, "metrics", "semantics H.5"),
    _host(drafts_per_round, "metrics", "semantics H.1"),
    _host(interval_rates, "metrics", "semantics H.1"),
    _host(meta_info, "metrics", "semantics H.3"),
    _host(report_decode_stats, "metrics", "semantics H.1"),
    _host(update_spec_metrics, "metrics", "semantics H.1"),
    _host(NgramStore, "ngram", "semantics A.13b"),
    _host(NgramCorpus, "ngram", "semantics A.13b"),
    _host(share_draft_nodes, "ngram", "semantics A.13b"),
    _host(merge_drafts, "ngram", "semantics A.13b"),
    _host(draft_with_corpora, "ngram", "semantics A.13b"),
    _host(stream_key, "noise", "semantics Q.3", conformance_only=True),
    _host(stream_uniform, "noise", "semantics Q.3", conformance_only=True),
    _host(as_one_token_extend, "padding", "semantics D.9", conformance_only=True),
    _host(get_draft_extend_lens, "padding", "semantics D.6", conformance_only=True),
    _host(pad_inputs_to_size, "padding", "semantics D.9, E.1"),
    _host(plan_mlp_sync_batch, "padding", "semantics D.9"),
    _host(post_forward_mlp_sync_batch, "padding", "semantics D.9"),
    _host(expect_phase, "phases", "semantics D.1"),
    _host(filter_batch, "phases", "semantics D.8"),
    _host(get_spec_adjust_token_coefficient, "phases", "semantics D.9, G.5", conformance_only=True),
    _host(get_spec_adjusted_global_num_tokens, "phases", "semantics D.9, G.5", conformance_only=True),
    _host(is_draft_input, "phases", "semantics G.5", conformance_only=True),
    _host(is_verify_input, "phases", "semantics G.5", conformance_only=True),
    _host(merge_batch, "phases", "semantics D.8"),
    _host(to_frozen_kv_mtp_draft_extend_input, "phases", "semantics D.11"),
    _host(apply_logit_processors, "processors", "semantics B.4"),
    _host(walk_markov_drafts, "proposals", "semantics Q.5", conformance_only=True),
    _host(walk_selector_drafts, "proposals", "semantics Q.5", conformance_only=True),
    _host(sample_draft_chains, "proposals", "semantics Q.5", conformance_only=True),
    _host(broadcast_decision, "ranks", "semantics Q.8.1"),
    _host(resolve, "rules", "semantics F.1, F.2, F.3, F.4, F.5, F.6"),
    _host(verify_token_budget, "scheduled", "semantics Q.1.4", conformance_only=True),
    _host(verify_graph_tier, "scheduled", "semantics Q.1.4", conformance_only=True),
    _host(agree_on_tier, "scheduled", "semantics Q.1.4", conformance_only=True),
    _host(align_verify_budget, "scheduled", "semantics Q.1.4", conformance_only=True),
    _host(choose_verify_lens, "schedules", "semantics Q.1.1", conformance_only=True),
    _host(should_verify, "schedules", "semantics Q.1.1", conformance_only=True),
    _host(chunk_length, "scheduling", "semantics I.8"),
    _host(is_late, "scheduling", "semantics I.3, I.4"),
    _host(stream_edges, "scheduling", "semantics I.4, J.2"),
    _host(waits_for_result, "scheduling", "semantics J.2"),
    _host(simulated_num_tokens, "simulated", "semantics B.10", conformance_only=True),
    _host(PipelineStage, "stages", "semantics Q.8.2", conformance_only=True),
    _host(append_run, "stops", "semantics B.11"),
    _host(clip_drafts, "stops", "semantics B.11"),
    _host(find_stop, "stops", "semantics B.11"),
    _host(play_runs, "stops", "semantics B.11", conformance_only=True),
    _host(advance_grammar, "stops", "semantics B.11"),
    _host(truncate_at_stop, "stops", "semantics B.11"),
)

_MODELS, _RANKS = "specsim.simulation.models.padded", "specsim.simulation.ranks"
_REPLICATED_MODEL, _MEMORY = "specsim.simulation.replicated_model", "specsim.simulation.memory"
_PARTS = tuple(
    Entry(name, Kind.PART, group, source, home=home, outside_runs=_OUTSIDE_RUNS.get(name, ""))
    for group, home, parts in (
        (
            "memory",
            _MEMORY,
            (
                ("SlotAllocator", "semantics I.6"),
                ("PageAllocator", "semantics I.6"),
                ("SwaAllocator", "semantics C.6, I.6, I.10"),
                ("RowAllocator", "semantics I.6"),
                ("RadixCache", "semantics I.7"),
                ("Books", "semantics I.1, I.3, I.4"),
                ("alloc_len_per_decode", "semantics I.2"),
                ("required_row_width", "semantics I.2"),
                ("next_allocated_length", "semantics I.2"),
                ("prepare_for_decode", "semantics I.2"),
                ("new_tokens_required_next_decode", "semantics I.5"),
                ("make_room", "semantics I.5"),
                ("admit_request", "semantics I.7"),
                ("allocate_chunk", "semantics I.8"),
                ("publish_prefix", "semantics I.7"),
                ("key_units", "semantics E.4, I.4, I.7"),
                ("num_behind_window", "semantics I.10"),
                ("evict_behind_window", "semantics I.10, J.1, J.2"),
                ("owned_length", "semantics I.4"),
                ("plan_release", "semantics I.4"),
                ("release_finished", "semantics I.4, I.9"),
                ("release_retracted", "semantics I.4"),
                ("Ledger", "semantics I.1, I.6"),
            ),
        ),
        ("committed", _MEMORY, (("Exports", "semantics Q.7"), ("export_text", "semantics Q.7"))),
        ("padded_engine", _MODELS, (("PaddedModel", "semantics D.9, D.10, J.3"),)),
        ("padded_engine", _RANKS, (("Meeting", "semantics D.9, J.3"),)),
        ("one_voice_engine", _REPLICATED_MODEL, (("OneVoiceModel", "semantics B.8"),)),
    )
    for name, source in parts
)

CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        *(Entry(one.name, Kind.OPERATION, one.group, one.source, one) for one in TABLE.values()),
        *(Entry(one.name, Kind.MODEL_OPERATION, one.group, one.source, one) for one in MODEL_TABLE.values()),
        *_HOST_FUNCTIONS,
        *_PARTS,
        *(Entry(one.name, Kind.SAMPLER_WITHOUT_COINS, one.group, one.source, one) for one in WITHOUT_COINS.values()),
    )
}
"""Every callable by its name: operations in pipeline order, of the toy models, host functions, parts, samplers."""


def names_of(*kinds: Kind) -> tuple[str, ...]:
    """Return the names of the callables of some kinds."""
    return tuple(name for name, entry in CATALOGUE.items() if entry.kind in kinds)


def find_entry(name: str) -> Entry:
    """Return what stands under a name.

    Raises
    ------
    SpecRejection
        UNKNOWN_NAME, with the names that are spelt nearly like it.
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    what, expected = "name of the callable", " or ".join(nearest(name, CATALOGUE)) or "one of specsim list operations"
    raise SpecRejection(Reason.UNKNOWN_NAME, what, name, expected, "the catalogue lists operations and host functions")


def record_of(name: str) -> Operation:
    """Return the record of an operation or of a sampler without coins.

    Raises
    ------
    SpecRejection
        UNKNOWN_NAME: nothing stands under that name, or a host function, which has no contract.
    """
    entry = find_entry(name)
    if entry.record is not None:
        return entry.record
    raise SpecRejection(
        Reason.UNKNOWN_NAME, "name of the operation", name, "an operation", "a host function has no contract"
    )


def unknown_name(name: str) -> str:
    """Return the end of a sentence that says what was perhaps meant by a name, or nothing."""
    near = nearest(name, CATALOGUE)
    return f"; did you mean {' or '.join(near)}?" if near else ""
