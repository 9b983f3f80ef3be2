"""P01 to P24 and P63: what is output, by which law, and the trees that it is drafted on."""

from specsim.properties.targets.target import Target

TARGETS = (
    Target(
        "P01",
        "greedy output is that of autoregressive decoding",
        properties=(
            "scheduled_engine.schedules_change_no_token",
            "swa_engine.windows_change_no_token",
            "worker_pages.requests_on_pages_keep_what_is_theirs",
            "from_logits.greedy_acceptance_is_argmax_and_walk",
        ),
        tests=(
            "properties/matrix/test_faults.py::test_a_fault_is_found_in_its_cell",
            "properties/test_soak.py::test_faults_are_found_in_few_steps",
            "reference/worker/test_ngram.py::test_requests_of_one_batch_draft_another_number_each",
        ),
    ),
    Target(
        "P02",
        "the exact law of the chain sampler",
        properties=(
            "sampling_chain_law.last_token_of_a_chain_is_independent_of_other_coins",
            "sampling_chain_law.acceptance_is_the_overlap",
        ),
        tests=(
            "properties/laws/test_sampling_law.py::test_every_length_of_chain_of_the_reference_has_the_exact_law",
            "properties/laws/test_sampling_law.py::test_a_planted_fault_breaks_the_law_of_the_chain",
        ),
        note="The law enumerates the draws of the draft from the proposal itself; no operation draws them.",
    ),
    Target(
        "P03",
        "the exact law of the tree sampler",
        properties=(
            "sampling_logits_law.logits_emit_the_filtered_law",
            "sampling_logits_law.half_precision_emits_the_same_law",
        ),
        tests=(
            "properties/laws/test_sampling_law.py::test_every_tree_of_the_reference_has_the_exact_law",
            "properties/laws/test_sampling_law.py::test_a_planted_fault_breaks_the_law_of_the_tree",
        ),
        note="Conditional on the drafted tree: the one rule that the table has asks the target alone.",
    ),
    Target(
        "P04",
        "frequencies of samplers that draw their own coins",
        tests=(
            "properties/laws/test_frequencies.py::test_frequencies_tell_an_honest_tree_sampler_from_a_biased_one",
            "properties/laws/test_frequencies.py::test_frequencies_tell_an_honest_chain_sampler_from_a_biased_one",
            "properties/laws/test_frequencies.py::test_the_power_is_that_of_the_noncentral_distribution",
        ),
    ),
    Target(
        "P05",
        "the draft changes neither output nor law",
        properties=(
            "engine.output_equals_autoregressive_decoding",
            "sampling_law.tree_emits_the_targets_law",
            "sampling_chain_law.chain_emits_the_targets_law",
            "sampled_engine.engine_emits_the_autoregressive_law",
        ),
        tests=("properties/laws/test_sampled_engine.py::test_neither_a_hostile_nor_a_perfect_draft_changes_the_law",),
        note="Each compares every draft with something that knows of none.",
    ),
    Target(
        "P06",
        "a perfect draft is accepted whole",
        properties=("sampling_chain_law.first_draft_is_accepted_by_the_overlap",),
        tests=("gpu/test_acceptance.py::test_a_draft_of_the_targets_own_law_leaves_no_residual",),
    ),
    Target(
        "P07",
        "a hostile draft is never accepted, and an impossible token never output",
        properties=("engine.acceptance_is_what_the_draft_promises",),
    ),
    Target(
        "P08",
        "coins on a boundary fall as stated",
        tests=("gpu/test_acceptance.py::test_a_coin_on_the_boundary_rejects",),
    ),
    Target(
        "P09",
        "coins are used once, and independently",
        properties=("acceptance.coins_depend_on_seed_and_length_only",),
        tests=("properties/laws/test_sampling_law.py::test_a_planted_fault_breaks_the_law_of_the_chain",),
    ),
    Target(
        "P10",
        "a seeded request depends on nothing but its seed and its prompt",
        tests=("properties/laws/test_sampled_engine.py::test_coins_that_depend_on_neighbours_are_found",),
    ),
    Target(
        "P12",
        "thresholds below 1 accept more, each request by its own",
        properties=("acceptance.trees_are_sampled_one_by_one", "sampling_law.tree_emits_the_targets_law"),
    ),
    Target(
        "P13",
        "every row has the distribution of its own request's filters",
        properties=("target_rows.requests_are_filtered_one_by_one", "probabilities.rows_are_filtered_one_by_one"),
    ),
    Target(
        "P14",
        "logits are prepared for the request of their row",
        properties=("constrained_engine.constrained_output_is_that_of_plain_decoding",),
    ),
    Target(
        "P15",
        "what is kept of a request is a fold over its committed tokens, however they were cut",
        properties=(
            "stops.cutting_into_runs_changes_nothing",
            "stops.committed_tokens_advance_a_matcher",
            "stops.grammars_follow_the_run_and_end_it",
            "constrained_engine.matchers_read_the_output_and_nothing_else",
            "metrics.histogram_adds_up",
            "metrics.zombies_count_for_the_batch_alone",
            "acceptance.coins_depend_on_seed_and_length_only",
            "pool_kinds.recurrent_state_is_behind_the_last_token",
            "following.nodes_are_roots_of_committed_paths",
        ),
    ),
    Target(
        "P16",
        "the mask is the reflexive ancestor closure, in every layout",
        properties=(
            "tree.recovered_links_have_the_given_closure",
            "ngram.a_mask_row_is_its_parents_row_and_itself",
            "swa_engine.windows_change_no_token",
        ),
        tests=("gpu/test_tree.py::test_prefix_columns_of_any_alignment",),
        note="What a window hides is masked inside of a model, by depths.",
    ),
    Target(
        "P17",
        "a position is the committed length plus the depth",
        properties=(
            "tree.recovered_links_have_the_given_closure",
            "extend.extend_positions_are_consecutive",
            "draft_cache.beams_follow_one_another",
            "worker.draft_starts_from_the_committed_length",
            "worker.draft_cache_is_that_of_a_fresh_prefill",
        ),
    ),
    Target(
        "P18",
        "links and parents say the same, and every walk ends",
        properties=("tree.parents_precede_children", "rejection.build_tree", "rejection.verify_tree_greedy"),
        tests=(
            "gpu/test_tree.py::test_malformed_candidates_neither_hang_nor_leave_the_request",
            "gpu/test_verify.py::test_malformed_links_neither_hang_nor_leave_the_request",
        ),
    ),
    Target(
        "P19",
        "another order of siblings, and other numbers of nodes, change names alone",
        properties=(
            "verify.numbers_of_nodes_do_not_matter",
            "grammar.rows_follow_their_nodes",
            "sampling_law.tree_emits_the_targets_law",
        ),
        note="The law of a sampled tree is compared with one that knows no order.",
    ),
    Target("P20", "the kept candidates are the best ones, closed under parents"),
    Target(
        "P21",
        "a chain is a tree with topk 1",
        properties=(
            "tree.chains_and_stars_have_their_shape",
            "pages.both_rules_free_the_same_positions",
            "metrics.a_round_proposes_all_nodes_but_the_root",
        ),
    ),
    Target("P22", "an accepted path is a path, the longest the target allows"),
    Target("P23", "a larger tree accepts no less"),
    Target(
        "P24",
        "shapes at the end of a word, a tile, a block",
        tests=(
            "gpu/test_tree.py::test_trees_of_several_words",
            "gpu/test_acceptance.py::test_more_siblings_than_a_warp_has_threads",
            "gpu/test_from_logits.py::test_sizes_of_vocabularies",
            "reference/worker/test_ngram.py::test_requests_of_one_batch_draft_another_number_each",
        ),
    ),
    Target("P63", "acceptance has the rate that its rule promises"),
)
