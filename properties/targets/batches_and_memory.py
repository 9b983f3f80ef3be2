"""P25 to P46: what is counted, what a batch may not change, and what slots hold."""

from specsim.properties.targets.target import GRAPHS, Target

TARGETS = (
    Target(
        "P25",
        "counts of drafts and of tokens",
        properties=("engine.acceptance_is_what_the_draft_promises", "chains.chains_output_drafts_and_one_token"),
        tests=("quality/test_one_place.py::test_tokens_are_made_of_drafts_in_one_place",),
    ),
    Target(
        "P26",
        "figures are counted from what was accepted",
        tests=(
            "specsim/host/test_metrics.py::test_rates_of_one_batch",
            "properties/laws/test_metric_bias.py::test_the_old_rate_is_the_true_one_and_a_share_of_the_rest",
            "specsim/host/test_positions.py::test_every_step_counts_with_the_depth_that_it_drafted",
        ),
    ),
    Target(
        "P27",
        "as many tokens, scores and pieces of text are told as were output",
        properties=(
            "logprobs_engine.tokens_are_told_of_as_plain_decoding_would",
            "states_engine.hidden_states_are_those_of_plain_decoding",
            "metrics.meta_info_is_counted_from_the_log",
            "stops.a_run_ends_where_its_tokens_do",
            "stops.cutting_into_runs_changes_nothing",
            "stops.truncation_ends_rows_at_the_stop",
        ),
        note="Tokens have no categories here, so there are none to count.",
    ),
    Target(
        "P28",
        "what is told of a token is told of its own row",
        tests=("specsim/simulation/test_logprobs.py::test_what_comes_late_or_behind_an_end_is_not_told",),
    ),
    Target(
        "P29",
        "requests in another order give the same in that order",
        properties=(
            "acceptance.trees_are_sampled_one_by_one",
            "attention.passes_are_made_one_by_one",
            "chains.chains_are_sampled_one_by_one",
            "draft.requests_are_selected_one_by_one",
            "draft.requests_are_organized_one_by_one",
            "draft_cache.draft_slots_do_not_depend_on_the_batch",
            "draft_cache.kv_lists_do_not_depend_on_the_batch",
            "draft_cache.passes_do_not_depend_on_the_batch",
            "extend.prompts_rotate_one_by_one",
            "extend.requests_are_prepared_one_by_one",
            "extend_v1.segments_are_laid_out_one_by_one",
            "from_logits.requests_are_accepted_one_by_one",
            "grammar.masks_are_made_one_by_one",
            "logprobs.requests_are_scored_one_by_one",
            "pages.windows_are_moved_and_freed_one_by_one",
            "penalties.requests_are_penalised_one_by_one",
            "probabilities.requests_are_prepared_one_by_one",
            "probabilities.rows_are_filtered_one_by_one",
            "target_rows.requests_are_filtered_one_by_one",
            "tree.requests_do_not_see_each_other",
            "verify.requests_are_verified_one_by_one",
            "verify.metadata_does_not_depend_on_the_batch",
            "phases.filter_keeps_whole_requests_in_order",
            "sampled_engine.sampled_output_follows_its_seed",
        ),
        note="Each plays the batch reversed and rotated too.",
    ),
    Target(
        "P30",
        "padding changes nothing",
        properties=("poison.*",),
        tests=(
            "gpu/worker/test_v2.py::test_padding_reaches_the_bucket_and_leaves_the_padding_row_as_it_was",
            "gpu/worker/test_v2.py::test_graphs_equal_eager_and_reference_at_every_batch_size",
        ),
    ),
    Target("P31", "a request depends neither on its neighbours nor on its place"),
    Target(
        "P32",
        "an empty batch has a defined result",
        properties=(
            "empty.*",
            "phases.an_idle_batch_is_neutral",
            "chains.chains_output_drafts_and_one_token",
            "pages.tokens_of_ended_requests_are_not_counted",
        ),
        tests=("gpu/worker/test_v2.py::test_empty_batch_decodes_nothing",),
    ),
    Target(
        "P33",
        "what a batch carries follows its requests",
        properties=("worker_v1.ended_requests_carry_nothing_on", "engine.request_does_not_depend_on_its_neighbours"),
    ),
    Target(
        "P34",
        "a replayed graph knows nothing of what was replayed before",
        tests=(
            "gpu/worker/test_v2.py::test_replay_does_not_depend_on_what_was_replayed_before",
            "gpu/worker/test_v2.py::test_graphs_equal_eager_and_reference_in_every_phase",
            "gpu/test_scale.py::test_a_graph_replays_on_other_inputs",
        ),
        open=(("runners whose static buffers can be poisoned between replays", GRAPHS),),
    ),
    Target(
        "P35",
        "addresses have 64 bits",
        properties=("tree.mask_is_the_ancestor_closure", "verify.greedy_choice_is_the_largest_logit"),
        tests=(
            "gpu/test_draft.py::test_rows_beyond_31_bits_are_read",
            "gpu/test_probabilities.py::test_rows_lie_beyond_32_bits",
            "gpu/test_scale.py::test_more_than_2_to_the_32_logits",
            "gpu/test_scale.py::test_more_than_2_to_the_32_probabilities",
        ),
        note="The two laws find offsets that wrap early; that real ones do not is for the tests.",
    ),
    Target(
        "P36",
        "nothing is read or written beside a buffer",
        properties=("apart.*",),
        tests=(
            "gpu/test_out_of_range.py::test_no_operation_leaves_its_memory_whatever_its_entries",
            "gpu/worker/test_v2.py::test_every_call_of_an_iteration_stays_inside_its_contract",
        ),
        open=(("static buffers at the widths that runners declare", GRAPHS),),
    ),
    Target(
        "P37",
        "no index leaves its array and no sentinel is followed",
        properties=("poison.*", "rejection.*", "anything.*", "engine.counts_are_drafts_and_drafts_plus_bonus"),
        tests=("gpu/test_out_of_range.py::test_no_operation_leaves_its_memory_whatever_its_entries",),
    ),
    Target(
        "P38",
        "a slot has one owner",
        properties=("memory.every_swa_slot_has_one_owner_and_holds_its_window",),
        tests=(
            "properties/test_small_scopes.py::test_a_small_scope_is_exhausted",
            "properties/test_memory_machine.py::test_memory_survives_any_order_of_events",
        ),
    ),
    Target(
        "P39",
        "what is committed is allocated, and what is allocated has room in its row",
        properties=(
            "memory.a_ledger_notices_whatever_is_wrong",
            "memory.every_slot_has_one_owner_and_holds_its_text",
            "memory_books.two_iterations_stay_within_the_reserve",
            "memory_books.a_row_holds_the_longest_text_and_its_reserve",
            "memory_books.a_result_counts_for_the_time_it_was_launched_in",
            "scheduled_engine.schedules_lose_no_slot",
            "worker.draft_starts_from_the_committed_length",
        ),
    ),
    Target(
        "P40",
        "a slot holds the tag of its own token",
        properties=(
            "worker.draft_cache_is_that_of_a_fresh_prefill",
            "scheduled_engine.committed_kv_outlives_every_schedule",
        ),
    ),
    Target("P41", "a move is a snapshot, and all that belongs together moves together"),
    Target(
        "P42",
        "page sizes agree",
        properties=(
            "worker_pages.requests_on_pages_keep_what_is_theirs",
            "memory.pages_come_from_the_front_and_return_before",
        ),
        tests=(
            "specsim/simulation/test_schedules.py::test_pages_change_no_count",
            "properties/matrix/test_faults.py::test_a_fault_is_found_in_its_cell",
        ),
        note="Every phase on pages is that of the reference, which is shown to count alike whatever a page holds.",
    ),
    Target(
        "P43",
        "what the prefix cache has under a text is what a fresh prefill would leave there",
        properties=(
            "memory.every_slot_has_one_owner_and_holds_its_text",
            "scheduled_engine.schedules_change_no_token",
            "scheduled_engine.committed_kv_outlives_every_schedule",
            "swa_engine.a_prompt_can_be_hit_where_it_was_left",
        ),
        tests=(
            "properties/test_small_scopes.py::test_five_thousand_states_conform",
            "properties/test_soak.py::test_faults_are_found_in_few_steps",
        ),
    ),
    Target("P44", "a verify leaves of recurrent state what plain decoding of the accepted tokens leaves"),
    Target("P45", "what a sliding window still reaches is there, and what lies behind it gives its slot back"),
    Target(
        "P46",
        "what may be written next is reserved",
        properties=("scheduled_engine.schedules_lose_no_slot",),
    ),
)
