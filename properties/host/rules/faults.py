"""Faults in the rules: checks that are dropped, choices that are undone, changes without a message."""

from dataclasses import replace

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ resolve in specsim.rules.worker.choose_worker
    OWN-130 The worker is chosen without a look at the page size.
    - topk > 1 and config.page_size > 1 => False
    OWN-131 The worker is chosen without a look at recurrent layers.
    - topk > 1 and config.recurrent => False
    OWN-142 The worker that is asked for is ignored.
    - config.mode == "v1" => False
    - config.mode == "v2" => False
    OWN-132 V2 runs no trees at all.
    - topk > 1 and config.page_size > 1 => topk > 1
    OWN-135 The worker suits a chain, and then a tree is chosen.
    - topk = expected_topk(config) => topk = config.topk or 1
    @@ resolve in resolve_adaptive
    OWN-138 The adaptive controller stays on where it cannot run.
    - state.warn(Code.ADAPTIVE_DISABLED, f"It does not work with {', '.join(obstacles)}.", adaptive=False)
    @@ resolve in specsim.rules.worker.choose_without_overlap
    OWN-141 V2 is asked for what nothing overlaps, and V1 runs.
    - config.mode == "v2" => False
    @@ resolve in specsim.rejection.contradiction
    OWN-143 A refusal does not say what to change.
    - expected => ""
    @@ resolve
    OWN-133 A fallback to V1 gives no reason.
    - return state.plan()
    + silent = (Code.PAGED_TREE, Code.RECURRENT_TREE, Code.ALGORITHM_WITHOUT_V2)
    + state.decisions = [one for one in state.decisions if one.code not in silent]
    + return state.plan()
    OWN-134 Overlap that the user switched off is on again.
    - return state.plan()
    + is_overlapped = state.worker == "v1" and config.disable_overlap
    + state.config = replace(state.config, disable_overlap=state.config.disable_overlap and not is_overlapped)
    + return state.plan()
    OWN-136 Mixed chunks are switched off in silence.
    - return state.plan()
    + state.decisions = [one for one in state.decisions if one.code != Code.MIXED_CHUNK_OFF]
    + return state.plan()
    OWN-137 A chain keeps more nodes than it has levels.
    - return state.plan()
    + if state.plan().sizes is not None and config.topk == 1:
    +     state.config = replace(state.config, num_draft_tokens=config.num_draft_tokens)
    +     state.decisions = [one for one in state.decisions if one.code != Code.CHAIN_LENGTH]
    + return state.plan()
    OWN-139 The default bound of a batch replaces the user's.
    - return state.plan()
    + if state.worker is not None:
    +     state.config = replace(state.config, max_running_requests=48)
    + return state.plan()
    OWN-140 The bound of a batch is halved every time.
      check_steps(state.config)
    + bound = state.config.max_running_requests or 1
    + if bound > 1:
    +     state.warn(Code.MAX_RUNNING_REQUESTS, "Drafts need room.", max_running_requests=bound // 2)
    OWN-470 A snapshot may lie inside a page.
    - common.check_snapshots(state)
    + own = state.config
    + if own.snapshot_interval % own.page_size:
    +     state.config = replace(own, snapshot_interval=own.snapshot_interval * own.page_size)
    + common.check_snapshots(state)
    + state.config = own
    """,
    replace=replace,
)
