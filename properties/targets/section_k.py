"""K.1 to K.12: worked examples, each computed by tests on every layer that has what it needs."""

from specsim.properties.targets.target import Target

_HERE = "worked_examples"

TARGETS = (
    Target(
        "K.1",
        "two trees, from the first candidates to links, positions and masks",
        tests=(
            f"{_HERE}/test_draft_and_tree.py::test_k1_select",
            f"{_HERE}/test_draft_and_tree.py::test_k1_scores",
            f"{_HERE}/test_draft_and_tree.py::test_k1_organised",
            f"{_HERE}/test_draft_and_tree.py::test_k1_tree",
            f"{_HERE}/test_draft_and_tree.py::test_k1_full_mask_is_laid_out_request_after_request",
            f"{_HERE}/test_iterations.py::test_k1_to_k3_v2",
            f"{_HERE}/test_iterations.py::test_k1_to_k3_v1",
        ),
    ),
    Target(
        "K.2",
        "their greedy acceptance, and what is output",
        tests=(
            f"{_HERE}/test_verify.py::test_k2_greedy",
            f"{_HERE}/test_verify.py::test_k2_output_and_bonus_tokens",
            f"{_HERE}/test_iterations.py::test_k1_to_k3_v2",
            f"{_HERE}/test_iterations.py::test_k1_to_k3_v1",
        ),
    ),
    Target(
        "K.3",
        "what moves, what is freed and what the draft model extends, also where a token ends a request",
        tests=(
            f"{_HERE}/test_compact.py::test_k3_source_and_target_slots",
            f"{_HERE}/test_compact.py::test_k3_move_reads_every_source_before_it_writes_a_target",
            f"{_HERE}/test_compact.py::test_k3_compacted",
            f"{_HERE}/test_compact.py::test_k3_past_the_path_the_reference_holds_what_engines_hold",
            f"{_HERE}/test_compact.py::test_k3_select_index",
            f"{_HERE}/test_compact.py::test_k3_v1_slots_are_mapped_and_freed",
            f"{_HERE}/test_compact.py::test_k3_v1_slots_behind_a_stop_are_freed",
            f"{_HERE}/test_compact.py::test_k3_v1_extend",
            f"{_HERE}/test_iterations.py::test_k1_to_k3_v2",
            f"{_HERE}/test_iterations.py::test_k1_to_k3_v1",
            f"{_HERE}/test_iterations.py::test_k3_v1_with_a_stop",
            f"{_HERE}/test_iterations.py::test_k3_v1_with_a_stop_advances_both_lengths",
            "specsim/host/test_truncation.py::test_k3_with_a_stop",
            "specsim/host/test_metrics.py::test_k3_with_a_stop_counts_twice",
        ),
    ),
    Target("K.4", "a sampled tree under given coins", tests=(f"{_HERE}/test_verify.py::test_k4_sampled",)),
    Target(
        "K.5",
        "the slots of trees on pages: what is written, copied and read",
        tests=(
            f"{_HERE}/test_paged_draft.py::test_k5_slots_and_copies",
            f"{_HERE}/test_paged_draft.py::test_k5_what_a_beam_reads",
            f"{_HERE}/test_paged_draft.py::test_k5_the_same_in_pages",
            f"{_HERE}/test_paged_draft.py::test_k5_these_and_other_sizes",
            f"{_HERE}/test_metadata.py::test_k5_slots_by_step",
            f"{_HERE}/test_paged_iterations.py::test_k5_and_k6_v2",
        ),
    ),
    Target(
        "K.6",
        "what V1 keeps of pages behind chains and trees",
        tests=(
            f"{_HERE}/test_pages.py::test_k6_chains_free_from_the_next_page_on",
            f"{_HERE}/test_pages.py::test_k6_trees_move_to_the_front_and_free_behind",
            f"{_HERE}/test_pages.py::test_k6_who_goes_on",
            f"{_HERE}/test_paged_iterations.py::test_k5_and_k6_v2",
            f"{_HERE}/test_paged_iterations.py::test_k6_v1_moves_before_it_frees_and_one_request_has_ended",
            f"{_HERE}/test_paged_iterations.py::test_k6_v1_advances_every_length_whoever_has_ended",
            "gpu/worker/test_pages.py::test_k6_the_host_knows_what_chains_free",
        ),
    ),
    Target("K.7", "a tree from its matrix", tests=(f"{_HERE}/test_metadata.py::test_k7_reconstruction",)),
    Target(
        "K.8", "metadata of six and of five tokens a request", tests=(f"{_HERE}/test_metadata.py::test_k8_metadata",)
    ),
    Target(
        "K.9",
        "an extend of fixed width, and three requests in a bucket of four",
        tests=(
            f"{_HERE}/test_metadata.py::test_k9_select_index",
            f"{_HERE}/test_metadata.py::test_k9_three_requests_fill_a_bucket_of_four",
            f"{_HERE}/test_metadata.py::test_k9_lengths_positions_and_counts_of_the_padding_row",
        ),
    ),
    Target(
        "K.10",
        "rates and lengths of acceptance, and the old rate",
        tests=(
            "specsim/host/test_metrics.py::test_rates_of_one_batch",
            "properties/laws/test_metric_bias.py::test_k10_old_rates",
        ),
    ),
    Target(
        "K.11",
        "lengths of a request in step and overlapped, and what is left of it at its end",
        tests=(
            f"{_HERE}/test_lengths.py::test_k11_in_step",
            f"{_HERE}/test_lengths.py::test_k11_under_overlap",
            f"{_HERE}/test_lengths.py::test_k11_a_result_behind_the_end_changes_nothing",
            f"{_HERE}/test_release.py::test_k11_an_end_leaves_ten_pairs_and_frees_the_rest",
            f"{_HERE}/test_release.py::test_k11_engines_that_claim_the_root_hand_over_a_pair_too_many",
            "specsim/simulation/memory/test_requests.py::test_lengths_in_step",
            "specsim/simulation/memory/test_requests.py::test_lengths_under_overlap",
            "specsim/simulation/test_scheduler.py::test_k11_synchronous_ledger",
        ),
    ),
    Target(
        "K.12",
        "simulated lengths, and the fifteenth decision of the controller",
        tests=(
            f"{_HERE}/test_simulated.py::test_k12_everybody_has_three_tokens",
            "specsim/host/test_simulated.py::test_k12_two_of_three_tenths",
            "specsim/host/test_adaptive.py::test_thresholds_of_three_steps",
            "specsim/host/test_adaptive.py::test_worked_example_first_average",
            "specsim/host/test_adaptive.py::test_worked_example_rises_at_the_fifteenth_batch",
        ),
    ),
    Target(
        "E.4",
        "windows of layers that grow, which rows propose, and what waits for the next ones",
        tests=(
            f"{_HERE}/test_multi_layer.py::test_e4_first_window_grows",
            f"{_HERE}/test_multi_layer.py::test_e4_second_window_grows",
            f"{_HERE}/test_multi_layer.py::test_e4_rows_that_propose",
            f"{_HERE}/test_multi_layer.py::test_e4_pool_takes_what_was_committed",
            f"{_HERE}/test_multi_layer.py::test_e4_rotation_of_a_chunk",
            f"{_HERE}/test_multi_layer.py::test_e4_rotation_at_a_told_row_keeps_the_last_cell",
        ),
    ),
)
