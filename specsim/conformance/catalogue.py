"""Functions that run on the host and take no arrays of a device: rules, figures, stops, hand-overs.

They stand beside the table: an implementation may define functions of these names, and the laws then hold of its own.
A module that says ``HOST = "package.module"`` takes those it does not define itself from there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specsim.algorithms import check_registration, find_algorithm, target_verify_width
from specsim.host.adaptive import adapt_num_steps, route_batch_size
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
from specsim.host.processors import apply_logit_processors
from specsim.host.simulated import simulated_num_tokens
from specsim.host.stopping import append_run, clip_drafts, find_stop, play_runs
from specsim.host.truncation import truncate_at_stop
from specsim.phases import (
    expect_phase,
    filter_batch,
    get_spec_adjust_token_coefficient,
    get_spec_adjusted_global_num_tokens,
    is_draft_input,
    is_verify_input,
    merge_batch,
    to_frozen_kv_mtp_draft_extend_input,
)
from specsim.rules import resolve


@dataclass(frozen=True)
class HostFunction:
    """One function of the host.

    ``group`` names the laws module; ``source`` says where the meaning comes from.
    """

    function: Callable[..., Any]
    group: str
    source: str

    @property
    def name(self) -> str:
        """Return the name in every implementation."""
        return self.function.__name__


_FUNCTIONS: tuple[HostFunction, ...] = (
    HostFunction(adapt_num_steps, "adaptive", "semantics F.6"),
    HostFunction(route_batch_size, "adaptive", "semantics F.6"),
    HostFunction(check_registration, "algorithms", "semantics G.3"),
    HostFunction(find_algorithm, "algorithms", "semantics G.1"),
    HostFunction(target_verify_width, "algorithms", "semantics G.4"),
    HostFunction(traverse_tree, "grammar", "semantics B.5"),
    HostFunction(count_batch, "metrics", "semantics H.1, I.3"),
    HostFunction(count_verify, "metrics", "semantics H.3"),
    HostFunction(drafts_per_round, "metrics", "semantics H.1"),
    HostFunction(interval_rates, "metrics", "semantics H.1"),
    HostFunction(meta_info, "metrics", "semantics H.3"),
    HostFunction(report_decode_stats, "metrics", "semantics H.1"),
    HostFunction(update_spec_metrics, "metrics", "semantics H.1"),
    HostFunction(expect_phase, "phases", "semantics D.1"),
    HostFunction(filter_batch, "phases", "semantics D.8"),
    HostFunction(get_spec_adjust_token_coefficient, "phases", "semantics D.9, G.5"),
    HostFunction(get_spec_adjusted_global_num_tokens, "phases", "semantics D.9, G.5"),
    HostFunction(is_draft_input, "phases", "semantics G.5"),
    HostFunction(is_verify_input, "phases", "semantics G.5"),
    HostFunction(merge_batch, "phases", "semantics D.8"),
    HostFunction(to_frozen_kv_mtp_draft_extend_input, "phases", "semantics D.11"),
    HostFunction(apply_logit_processors, "processors", "semantics B.4"),
    HostFunction(resolve, "rules", "semantics F.1, F.2, F.3, F.4, F.5, F.6"),
    HostFunction(simulated_num_tokens, "simulated", "semantics B.10"),
    HostFunction(append_run, "stops", "semantics B.11"),
    HostFunction(clip_drafts, "stops", "semantics B.11"),
    HostFunction(find_stop, "stops", "semantics B.11"),
    HostFunction(play_runs, "stops", "semantics B.11"),
    HostFunction(advance_grammar, "stops", "semantics B.11"),
    HostFunction(truncate_at_stop, "stops", "semantics B.11"),
)

HOST_TABLE: dict[str, HostFunction] = {entry.name: entry for entry in _FUNCTIONS}
"""Every host function by its name."""
