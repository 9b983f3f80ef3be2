# Written by python -m specsim.conformance.stub; edit the catalogue instead.

import specsim.algorithms
import specsim.algorithms.builtin
import specsim.host.adaptive
import specsim.host.budget
import specsim.host.dflash
import specsim.host.exporting
import specsim.host.grammar
import specsim.host.metrics
import specsim.host.ngram.corpus
import specsim.host.ngram.merging
import specsim.host.ngram.store
import specsim.host.noise
import specsim.host.positions
import specsim.host.processors
import specsim.host.proposals
import specsim.host.ranks
import specsim.host.schedules
import specsim.host.scheduling
import specsim.host.simulated
import specsim.host.stages
import specsim.host.stopping
import specsim.host.streams
import specsim.host.truncation
import specsim.phases.extend
import specsim.phases.frozen_kv_mtp
import specsim.phases.joining
import specsim.phases.kinds
import specsim.phases.padding
import specsim.rules.order

class HostFunctions:
    """The functions of the host."""

    adapt_num_steps = staticmethod(specsim.host.adaptive.adapt_num_steps)
    route_batch_size = staticmethod(specsim.host.adaptive.route_batch_size)
    check_registration = staticmethod(specsim.algorithms.check_registration)
    find_algorithm = staticmethod(specsim.algorithms.builtin.find_algorithm)
    target_verify_width = staticmethod(specsim.algorithms.builtin.target_verify_width)
    target_feature_layers = staticmethod(specsim.host.dflash.target_feature_layers)
    exportable_pages = staticmethod(specsim.host.exporting.exportable_pages)
    loadable_positions = staticmethod(specsim.host.exporting.loadable_positions)
    traverse_tree = staticmethod(specsim.host.grammar.traverse_tree)
    count_batch = staticmethod(specsim.host.metrics.count_batch)
    count_verify = staticmethod(specsim.host.metrics.count_verify)
    count_positions = staticmethod(specsim.host.positions.count_positions)
    drafts_per_round = staticmethod(specsim.host.metrics.drafts_per_round)
    interval_rates = staticmethod(specsim.host.metrics.interval_rates)
    meta_info = staticmethod(specsim.host.metrics.meta_info)
    report_decode_stats = staticmethod(specsim.host.metrics.report_decode_stats)
    update_spec_metrics = staticmethod(specsim.host.metrics.update_spec_metrics)
    NgramStore = staticmethod(specsim.host.ngram.store.NgramStore)
    NgramCorpus = staticmethod(specsim.host.ngram.corpus.NgramCorpus)
    share_draft_nodes = staticmethod(specsim.host.ngram.merging.share_draft_nodes)
    merge_drafts = staticmethod(specsim.host.ngram.merging.merge_drafts)
    draft_with_corpora = staticmethod(specsim.host.ngram.merging.draft_with_corpora)
    stream_key = staticmethod(specsim.host.noise.stream_key)
    stream_uniform = staticmethod(specsim.host.noise.stream_uniform)
    as_one_token_extend = staticmethod(specsim.phases.padding.as_one_token_extend)
    get_draft_extend_lens = staticmethod(specsim.phases.extend.get_draft_extend_lens)
    pad_inputs_to_size = staticmethod(specsim.phases.padding.pad_inputs_to_size)
    plan_mlp_sync_batch = staticmethod(specsim.phases.padding.plan_mlp_sync_batch)
    post_forward_mlp_sync_batch = staticmethod(specsim.phases.padding.post_forward_mlp_sync_batch)
    expect_phase = staticmethod(specsim.phases.kinds.expect_phase)
    filter_batch = staticmethod(specsim.phases.joining.filter_batch)
    get_spec_adjust_token_coefficient = staticmethod(specsim.phases.kinds.get_spec_adjust_token_coefficient)
    get_spec_adjusted_global_num_tokens = staticmethod(specsim.phases.kinds.get_spec_adjusted_global_num_tokens)
    is_draft_input = staticmethod(specsim.phases.kinds.is_draft_input)
    is_verify_input = staticmethod(specsim.phases.kinds.is_verify_input)
    merge_batch = staticmethod(specsim.phases.joining.merge_batch)
    to_frozen_kv_mtp_draft_extend_input = staticmethod(specsim.phases.frozen_kv_mtp.to_frozen_kv_mtp_draft_extend_input)
    apply_logit_processors = staticmethod(specsim.host.processors.apply_logit_processors)
    walk_markov_drafts = staticmethod(specsim.host.proposals.walk_markov_drafts)
    walk_selector_drafts = staticmethod(specsim.host.proposals.walk_selector_drafts)
    sample_draft_chains = staticmethod(specsim.host.proposals.sample_draft_chains)
    broadcast_decision = staticmethod(specsim.host.ranks.broadcast_decision)
    resolve = staticmethod(specsim.rules.order.resolve)
    verify_token_budget = staticmethod(specsim.host.budget.verify_token_budget)
    verify_graph_tier = staticmethod(specsim.host.budget.verify_graph_tier)
    agree_on_tier = staticmethod(specsim.host.budget.agree_on_tier)
    align_verify_budget = staticmethod(specsim.host.budget.align_verify_budget)
    choose_verify_lens = staticmethod(specsim.host.schedules.choose_verify_lens)
    should_verify = staticmethod(specsim.host.schedules.should_verify)
    chunk_length = staticmethod(specsim.host.scheduling.chunk_length)
    is_late = staticmethod(specsim.host.scheduling.is_late)
    stream_edges = staticmethod(specsim.host.streams.stream_edges)
    waits_for_result = staticmethod(specsim.host.scheduling.waits_for_result)
    simulated_num_tokens = staticmethod(specsim.host.simulated.simulated_num_tokens)
    PipelineStage = staticmethod(specsim.host.stages.PipelineStage)
    append_run = staticmethod(specsim.host.stopping.append_run)
    clip_drafts = staticmethod(specsim.host.stopping.clip_drafts)
    find_stop = staticmethod(specsim.host.stopping.find_stop)
    play_runs = staticmethod(specsim.host.stopping.play_runs)
    advance_grammar = staticmethod(specsim.host.grammar.advance_grammar)
    truncate_at_stop = staticmethod(specsim.host.truncation.truncate_at_stop)
