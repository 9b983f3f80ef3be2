"""M.1 to M.30: what is asked of the operations one by one, and of whole runs."""

from specsim.properties.targets.target import GRAPHS, Target

TARGETS = (
    Target(
        "M.1",
        "links, positions and all layouts of the mask describe one tree, whose parents come first",
        properties=(
            "tree.mask_is_the_ancestor_closure",
            "tree.mask_layouts_encode_one_matrix",
            "tree.links_visit_each_node_once",
            "tree.links_follow_the_flat_ids",
            "tree.parents_precede_children",
            "tree.positions_are_length_plus_depth",
        ),
    ),
    Target(
        "M.2",
        "what is kept of a draft is closed under parents and has the largest sum of scores",
        properties=("draft.kept_candidates_are_the_best", "draft.kept_paths_are_whole"),
    ),
    Target(
        "M.3",
        "the short path of chains is the general one, and the mask of a chain a triangle",
        properties=("draft.chain_path_equals_the_general_path", "tree.chains_and_stars_have_their_shape"),
    ),
    Target(
        "M.4",
        "a mask alone gives back the links and positions that were built with it",
        properties=("tree.mask_alone_recovers_the_tree", "tree.recovered_links_have_the_given_closure"),
    ),
    Target(
        "M.5",
        "the greedy path is the longest that follows the target, and its tokens are the output",
        properties=(
            "verify.accepted_nodes_are_the_longest_match",
            "verify.output_is_the_drafts_and_the_bonus",
            "compact.gathered_tokens_stop_at_the_sentinel",
        ),
        note="Of equal siblings the one that is linked first counts, which in a built tree is the lowest.",
    ),
    Target(
        "M.6",
        "a target that is sure makes sampled acceptance greedy",
        properties=("acceptance.one_hot_rows_decide_like_greedy", "from_logits.greedy_requests_are_verified_greedily"),
    ),
    Target(
        "M.7",
        "a row of accepted nodes starts at the root, goes from parent to child, and ends in sentinels",
        properties=(
            "verify.accepted_nodes_are_a_path",
            "acceptance.sampled_nodes_are_a_path",
            "tree.parents_precede_children",
        ),
        note="Nodes ascend because children have larger numbers where a tree was built; walks do not need it.",
    ),
    Target(
        "M.8",
        "integrated over the coins, a sampled tree emits the law of its rows",
        properties=(
            "sampling_law.tree_emits_the_targets_law",
            "sampling_law.equal_siblings_leave_the_law_alone",
            "sampling_law.every_tree_of_a_batch_emits_its_own_law",
        ),
    ),
    Target(
        "M.9",
        "on a chain lower thresholds never accept less",
        properties=("sampling_law.lower_thresholds_never_shorten_a_chain",),
    ),
    Target(
        "M.10",
        "afterwards the draft's array holds the rejected children's probabilities, and nothing else",
        properties=("acceptance.rejected_children_are_remembered", "acceptance.many_siblings_are_all_tried"),
    ),
    Target(
        "M.11",
        "filters keep the most probable tokens, in their ratios, with sum 1, and where a count decides once is enough",
        properties=(
            "probabilities.top_k_keeps_the_most_probable",
            "probabilities.top_p_keeps_the_least_mass_that_suffices",
            "probabilities.kept_tokens_keep_their_ratios",
            "probabilities.top_k_is_idempotent",
        ),
        tests=("reference/test_probabilities.py::test_top_p_of_what_it_kept_may_keep_less",),
        note="Top-p is another matter: of .4 .35 .25 half the mass keeps two tokens, and of these again one.",
    ),
    Target(
        "M.12",
        "tokens are drafts and one more wherever both are counted, and flat arrays are as long as their counts",
        properties=(
            "engine.counts_are_drafts_and_drafts_plus_bonus",
            "worker_v1.segments_are_what_was_accepted",
            "verify.count_excludes_the_root",
            "extend.selected_row_is_the_last_output_token",
            "extend_v1.queries_and_keys_are_cut_by_their_counts",
            "pages.tokens_of_ended_requests_are_not_counted",
            "pages.every_length_grows_by_what_was_output",
        ),
    ),
    Target(
        "M.13",
        "after compaction and move the committed positions hold the accepted path, and other slots what they held",
        properties=(
            "compact.kv_moves_like_its_companions",
            "compact.move_leaves_other_slots_alone",
            "worker.committed_kv_is_that_of_a_fresh_prefill",
        ),
    ),
    Target(
        "M.14",
        "a move gives what gathering and then scattering gives",
        properties=("compact.move_reads_before_it_writes", "compact.move_back_restores", "agreement.move_kv_cache"),
        tests=(
            "gpu/test_move.py::test_a_move_is_a_snapshot",
            "gpu/test_move.py::test_one_long_cycle_through_the_scratch_buffer",
        ),
    ),
    Target(
        "M.15",
        "V1 keeps whole pages for what was accepted and gives the rest back once, whoever has ended",
        properties=(
            "pages.kept_slots_end_with_their_page",
            "pages.the_page_that_kept_entries_reach_is_kept",
            "pages.freed_slots_lie_on_pages_of_their_own",
            "pages.what_is_kept_ends_with_a_page",
            "pages.windows_are_kept_in_front_and_freed_behind",
            "pages.slots_follow_the_filter",
            "slots.window_is_kept_or_freed",
            "worker_v1.slots_have_one_owner",
            "worker_pages.requests_on_pages_keep_what_is_theirs",
        ),
    ),
    Target(
        "M.16",
        "V1 and V2 have the same texts, last tokens, next drafts and entries",
        properties=(
            "worker_v1.both_workers_decode_alike",
            "worker_v1.committed_kv_is_that_of_a_fresh_prefill",
            "worker.committed_kv_is_that_of_a_fresh_prefill",
        ),
    ),
    Target(
        "M.17",
        "greedy speculation outputs what plain decoding does, on any tree, pages and worker, and in graphs",
        properties=(
            "engine.output_equals_autoregressive_decoding",
            "worker_v1.output_equals_autoregressive_decoding",
            "worker_pages.requests_on_pages_keep_what_is_theirs",
        ),
        tests=("gpu/worker/test_v2.py::test_graphs_equal_eager_and_reference_in_every_phase",),
    ),
    Target(
        "M.18",
        "the extend has the positions of what was accepted, and V2 selects the row that is V1's last",
        properties=(
            "extend_v1.ragged_positions_end_at_the_length",
            "extend_v1.next_root_is_the_last_output_token",
            "extend.selected_row_is_the_last_output_token",
            "worker_v1.both_workers_decode_alike",
        ),
    ),
    Target(
        "M.19",
        "a small padded batch replays as it runs alone, whatever was replayed before",
        tests=(
            "gpu/worker/test_v2.py::test_graphs_equal_eager_and_reference_at_every_batch_size",
            "gpu/worker/test_v2.py::test_replay_does_not_depend_on_what_was_replayed_before",
        ),
        open=(("runners whose static buffers can be poisoned between replays", GRAPHS),),
    ),
    Target(
        "M.20",
        "both counts are copied before a replay",
        open=(("static buffers of both counts", GRAPHS),),
    ),
    Target(
        "M.21",
        "metadata are those of the tokens that came, also where a tree usually has others",
        properties=(
            "verify.keys_are_the_prefix_and_the_new_tokens",
            "verify.query_offsets_share_the_tokens",
            "verify.key_offsets_add_up",
            "verify.pages_are_those_of_the_page_starts",
            "agreement.target_verify_metadata",
        ),
        open=(("the same under capture and replay", GRAPHS),),
    ),
    Target(
        "M.22",
        "nothing leaks, lengths are in order, and the reserve covers every launch",
        properties=(
            "scheduled_engine.schedules_lose_no_slot",
            "memory.every_slot_has_one_owner_and_holds_its_text",
            "memory.a_ledger_notices_whatever_is_wrong",
            "memory_books.two_iterations_stay_within_the_reserve",
            "memory_books.a_row_holds_the_longest_text_and_its_reserve",
            "memory_books.a_result_counts_for_the_time_it_was_launched_in",
        ),
        tests=("properties/test_soak.py::test_leaks_are_failures",),
    ),
    Target(
        "M.23",
        "batches merge in any grouping, filtering and merging commute, and an idle batch is neutral",
        properties=(
            "phases.merge_is_associative",
            "phases.filter_after_merge_is_merge_of_filters",
            "phases.an_idle_batch_is_neutral",
            "phases.merge_appends_every_field",
        ),
    ),
    Target(
        "M.24",
        "padding a batch and trimming it again changes no field",
        properties=(
            "padding.padding_and_trimming_change_no_field",
            "padding.outputs_are_those_of_live_rows",
            "padding.beside_prompts_a_decode_is_an_extend_of_one_token",
        ),
    ),
    Target(
        "M.25",
        "rates have their bounds, histograms their sums, and the old rate its bias",
        properties=("metrics.rates_have_their_bounds", "metrics.histogram_adds_up"),
        tests=("properties/laws/test_metric_bias.py::test_the_old_rate_is_the_true_one_and_a_share_of_the_rest",),
    ),
    Target(
        "M.26",
        "the registry names what a class lacks, and refuses reserved and taken names in any case",
        properties=(
            "algorithms.registrations_are_checked_in_order",
            "algorithms.lacking_predicates_are_named",
            "algorithms.built_in_names_are_reserved",
            "algorithms.names_are_found_in_any_case",
        ),
        tests=("specsim/algorithms/test_algorithms.py::test_each_predicate_is_asked_for",),
    ),
    Target(
        "M.27",
        "every row of the rules has its effect, and applying them again none",
        properties=("rules.rows_have_their_effects", "rules.resolving_again_changes_nothing"),
        tests=("specsim/rules/test_rules.py::test_row",),
    ),
    Target(
        "M.28",
        "a node's mask is that of a fresh grammar behind its path, and the grammar stays as it is",
        properties=("grammar.rows_are_those_of_a_fresh_grammar", "grammar.walks_leave_the_grammar_as_it_is"),
    ),
    Target(
        "M.29",
        "simulated lengths meet their mean, cut to what a path holds, and are equal in all rows",
        properties=(
            "simulated.match_expected_meets_the_mean",
            "simulated.multinomial_rounds_to_a_path",
            "acceptance.everybody_pretends_the_same_length",
        ),
    ),
    Target(
        "M.30",
        "an idle rank runs as many forwards as a live one",
        properties=(
            "padded_engine.ranks_in_step_are_plain_runs",
            "padded_engine.an_idle_batch_runs_every_forward_for_nobody",
        ),
        tests=(
            "gpu/worker/test_v1.py::test_an_idle_extend_runs_where_other_ranks_wait_for_it",
            "gpu/worker/test_ranks.py::test_ranks_in_processes_output_what_each_would_alone",
        ),
    ),
)
