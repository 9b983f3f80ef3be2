"""P47 to P62: what the draft knows, where outputs end, what schedules may not change, and tests of the tests."""

from specsim.properties.targets.target import Target

TARGETS = (
    Target(
        "P47",
        "the draft at a position receives the next token and the hidden state of its own",
        properties=(
            "worker.proposals_depend_on_the_committed_tokens_only",
            "worker_v1.segments_are_what_was_accepted",
            "extend.selected_row_is_the_last_output_token",
            "scheduled_engine.committed_kv_outlives_every_schedule",
        ),
    ),
    Target(
        "P48",
        "the draft cache is that of a fresh prefill",
        properties=(
            "scheduled_engine.committed_kv_outlives_every_schedule",
            "worker_pages.requests_on_pages_keep_what_is_theirs",
            "pool_kinds.all_of_an_entry_moves",
        ),
    ),
    Target(
        "P49",
        "proposals depend on the committed tokens only",
        properties=("worker_v1.both_workers_decode_alike",),
        tests=("properties/test_soak.py::test_faults_are_found_in_few_steps",),
    ),
    Target("P50", "the map of the draft vocabulary"),
    Target("P51", "lengths and positions advance with the accepted tokens"),
    Target(
        "P52",
        "a run ends where its tokens, one by one, would end",
        properties=("constrained_engine.constrained_output_is_that_of_plain_decoding",),
        tests=(
            "quality/test_discovery_stops.py::test_each_stop_is_found_at_each_offset",
            "quality/test_discovery_stops.py::test_each_pair_is_found_in_one_run_in_this_order",
            "specsim/simulation/test_engine_stops.py::test_each_stop_at_each_place",
        ),
    ),
    Target(
        "P53",
        "a mask is that of a fresh grammar which read the path",
        properties=(
            "constrained_engine.constrained_output_is_that_of_plain_decoding",
            "sampled_engine.engine_emits_the_law_of_its_grammar",
            "probabilities.logits_are_prepared_step_by_step",
        ),
    ),
    Target(
        "P54",
        "drafts stop at the context limit, and the output reaches it",
        properties=("stops.a_run_ends_where_its_tokens_do",),
        tests=(
            "specsim/simulation/test_engine_stops.py::test_each_stop_at_each_place",
            "specsim/simulation/test_clipping.py::test_results_that_are_out_count_in_whole_runs",
        ),
    ),
    Target(
        "P55",
        "the worker and the schedule change no output",
        properties=("constrained_engine.constrained_output_is_that_of_plain_decoding",),
        tests=("specsim/simulation/test_schedules.py::test_a_pool_that_runs_out_costs_time_and_no_token",),
    ),
    Target(
        "P56",
        "what is queued has a legal order, and every such order one outcome",
        properties=("memory_books.a_result_counts_for_the_time_it_was_launched_in",),
        tests=("specsim/simulation/test_streams.py::test_seeds_draw_every_legal_order_and_no_other",),
    ),
    Target(
        "P57",
        "ranks agree on tokens and on what they exchange",
        properties=("phases.ranks_count_tokens_by_their_phase",),
        tests=(
            "gpu/worker/test_v1.py::test_an_idle_extend_runs_where_other_ranks_wait_for_it",
            "gpu/worker/test_ranks.py::test_ranks_in_processes_output_what_each_would_alone",
            "gpu/worker/test_ranks.py::test_ranks_of_one_batch_commit_the_same",
            "gpu/worker/test_ranks.py::test_a_rank_that_disappears_is_named_and_the_others_go_on",
            "gpu/worker/test_ranks.py::test_a_silent_rank_is_given_up_after_a_time_limit",
        ),
    ),
    Target(
        "P58",
        "rows that are no numbers are refused or left alone, and change no neighbour",
        properties=("chains.rows_behind_the_last_token_do_not_matter", "rejection.*"),
        tests=(
            "gpu/worker/test_v2.py::test_nan_drafts_cost_acceptance_but_no_token",
            "gpu/test_draft.py::test_topk_takes_nan_for_the_smallest_value",
            "reference/worker/test_v2.py::test_nan_drafts_are_refused_before_anything_is_carried_over",
        ),
        note="The reference refuses such drafts; kernels take them for the smallest, which costs acceptance alone.",
    ),
    Target(
        "P59",
        "a phase takes its own class, and leaves it as it is",
        properties=("mutation.*",),
        tests=("specsim/phases/test_hand_overs.py::test_phases_and_operations_say_the_same_of_an_array",),
    ),
    Target(
        "P60",
        "widths are those of the call, not those of the configuration",
        properties=("adaptive_engine.adapting_steps_change_no_output", "verify.row_width_cuts_the_path"),
        tests=(
            "properties/test_changing_engines.py::test_engines_of_several_widths_take_turns_on_the_same_pools",
            "reference/worker/test_ngram.py::test_requests_of_one_batch_draft_another_number_each",
        ),
    ),
    Target(
        "P61",
        "every property finds a planted fault, or is called powerless",
        tests=(
            "properties/mutants/test_mutants.py::test_no_property_is_powerless",
            "properties/mutants/test_mutants.py::test_no_mutant_survives",
            "properties/mutants/test_mutants.py::test_an_equivalent_mutant_survives_and_finds_its_laws_powerless",
        ),
    ),
    Target(
        "P62",
        "a failure names the first divergence",
        tests=(
            "specsim/simulation/test_lockstep.py::test_a_difference_is_found_in_its_iteration",
            "specsim/conformance/test_cases.py::test_replays",
            "test_docs.py::test_the_broken_example_fails_and_its_case_replays",
        ),
    ),
)
