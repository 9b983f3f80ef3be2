"""Rules of all algorithms: names, draft window, pipeline stages, recurrent states (semantics F.1)."""

import math

from specsim.algorithms import ALIAS_OF_EAGLE, DRAFTERS
from specsim.rejection import contradiction
from specsim.rules.config import ServerConfig
from specsim.rules.plan import Code, Resolution

MODES = ("auto", "v1", "v2")
STATE_STRATEGIES = ("no_buffer", "extra_buffer")
PLATFORMS = ("cuda", "rocm")
WITH_DRAFT_WINDOW = tuple(name for name, one in DRAFTERS.items() if one.has_draft_window)
(OF_TARGET_KV,) = (name for name, one in DRAFTERS.items() if one.reads_target_kv)
ASSISTANT = "Gemma4Assistant"
"""Start of the architecture names of drafts that read the target's cache."""

DEFAULT_MAX_RUNNING_REQUESTS = 48


def require_ranges(config: ServerConfig) -> None:
    """Reject settings that no rule can make sense of."""
    choices = (("mode", MODES), ("state_strategy", STATE_STRATEGIES), ("platform", PLATFORMS))
    for what, allowed in choices:
        if vars(config)[what] not in allowed:
            raise contradiction(what, vars(config)[what], " or ".join(allowed), "there is no other")
    for what in ("page_size", "pp_size", "snapshot_interval", "ngram_max_bfs_breadth"):
        if vars(config)[what] < 1:
            raise contradiction(what, vars(config)[what], "at least 1", "it is a size")
    if config.max_running_requests is not None and config.max_running_requests < 1:
        raise contradiction("max_running_requests", config.max_running_requests, "at least 1", "it is a size")
    for what in ("threshold_single", "threshold_acc"):
        threshold = vars(config)[what]
        if math.isnan(threshold) or not 0.0 <= threshold <= 1.0:
            raise contradiction(what, threshold, "0 to 1", "it is compared with a probability")


def fill_draft_defaults(state: Resolution) -> None:
    """Fill in the draft model's revision and expert kernels."""
    config = state.config
    if config.draft_model_path is not None and config.draft_revision is None:
        state.decide(Code.DRAFT_REVISION, "It is main.", draft_revision="main")
    if config.draft_moe_runner_backend is None:
        state.decide(Code.DRAFT_MOE_RUNNER, draft_moe_runner_backend=config.moe_runner_backend)


def resolve_name(state: Resolution) -> None:
    """Write the name in capitals and replace aliases."""
    name = state.config.algorithm
    if name is None:
        return
    if name != name.upper():
        state.decide(Code.NAME_IN_CAPITALS, f"{name} is {name.upper()}.", algorithm=name.upper())
    if state.config.algorithm == ALIAS_OF_EAGLE:
        state.decide(Code.ALIAS_REPLACED, algorithm="EAGLE")
    if not state.config.draft_architecture.startswith(ASSISTANT):
        return
    if state.config.algorithm == "EAGLE":
        state.decide(Code.FROZEN_KV_CHOSEN, f"EAGLE becomes {OF_TARGET_KV}.", algorithm=OF_TARGET_KV)
    elif state.config.algorithm == "EAGLE3":
        because = f"a draft of architecture {state.config.draft_architecture} reads the target's cache"
        raise contradiction("algorithm", "EAGLE3", f"EAGLE or {OF_TARGET_KV}, or another draft model", because)


def check_draft_window(state: Resolution) -> None:
    """Reject an empty draft window, and say where one is ignored."""
    window, algorithm = state.config.draft_window, state.config.algorithm
    if window is None:
        return
    if window <= 0:
        raise contradiction("draft_window", window, "at least 1, or unset", "a query sees itself")
    if algorithm not in WITH_DRAFT_WINDOW:
        state.warn(Code.DRAFT_WINDOW_IGNORED, f"{algorithm} ignores the draft window of {window}.")


def check_skip_dp_sync(state: Resolution) -> None:
    """Reject drafts without synchronisation of ranks for algorithms that need it."""
    if state.config.skip_dp_mlp_sync and state.config.algorithm != "EAGLE":
        because = f"{state.config.algorithm} synchronises its ranks in every draft"
        raise contradiction("skip_dp_mlp_sync", True, "False, or the algorithm EAGLE", because)


def check_pipeline(state: Resolution) -> None:
    """Reject pipeline stages."""
    if state.config.pp_size > 1:
        because = "drafts and verifies run on one pipeline stage"
        raise contradiction("pp_size", state.config.pp_size, "1, or no speculative algorithm", because)


def check_recurrent_buffer(state: Resolution) -> None:
    """Reject shared prefixes of recurrent states that have no buffer, or switch the sharing off on ROCm."""
    config = state.config
    if not (config.recurrent and config.radix_cache and config.state_strategy == "no_buffer"):
        return
    if config.platform == "rocm":
        state.warn(Code.RADIX_CACHE_OFF, radix_cache=False)
        return
    because = "a rejected draft overwrites a recurrent state that a cached prefix shares"
    raise contradiction("state_strategy", "no_buffer", "extra_buffer, or the radix cache switched off", because)


def check_snapshots(state: Resolution) -> None:
    """Reject buffered snapshots of a recurrent state that are closer than one verify, or lie inside a page."""
    config = state.config
    if not (config.recurrent and config.state_strategy == "extra_buffer"):
        return
    interval = config.snapshot_interval
    if config.num_draft_tokens is not None and interval < config.num_draft_tokens:
        expected = f"at least num_draft_tokens, {config.num_draft_tokens}"
        because = "one verify may pass at most one snapshot"
        raise contradiction("snapshot_interval", interval, expected, because)
    if interval % config.page_size:
        because = "a prefix is shared by whole pages, and its state is that of its end"
        raise contradiction("snapshot_interval", interval, f"a multiple of page_size, {config.page_size}", because)


def bound_running_requests(state: Resolution) -> None:
    """Bound the batch if the user did not."""
    if state.config.max_running_requests is None:
        state.warn(
            Code.MAX_RUNNING_REQUESTS,
            f"It is {DEFAULT_MAX_RUNNING_REQUESTS} requests.",
            max_running_requests=DEFAULT_MAX_RUNNING_REQUESTS,
        )


def switch_mixed_chunk_off(state: Resolution) -> None:
    """Keep prefill chunks out of batches that verify."""
    if state.config.mixed_chunk:
        state.warn(Code.MIXED_CHUNK_OFF, "Mixed chunks are switched off.", mixed_chunk=False)
