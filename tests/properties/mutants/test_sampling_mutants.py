"""Known faults of sampled verification are found by the exact laws, by name."""

import pytest

from specsim.properties.operations.acceptance import faults as acceptance
from specsim.properties.operations.acceptance import faults_chain_blocks as chain_blocks
from specsim.properties.operations.acceptance import faults_chains as chains
from specsim.properties.operations.acceptance import faults_of_the_law as sampling
from specsim.properties.operations.from_logits import faults_chains as chains_from_logits
from specsim.properties.suite.catalogue import all_properties, group_of
from specsim.properties.suite.hunt.hunt import Hunt, Options

MODULES = (acceptance, chains, chain_blocks, sampling, chains_from_logits)
MUTANTS = {one.id: one for module in MODULES for one in module.MUTANTS}
GROUPS = (
    "sampling_law",
    "sampling_chain_law",
    "sampling_logits_law",
    "sampling_chain_logits_law",
    "sampling_block_law",
)
LAWS = [one for one in all_properties() if group_of(one) in GROUPS]
TREE, CHAIN, LOGITS, CHAIN_LOGITS, BLOCK = (f"{group}." for group in GROUPS)

KILLERS = {
    "V01": (TREE + "tree_emits_the_targets_law", TREE + "last_token_is_independent_of_other_coins"),
    "V02": (TREE + "tree_emits_the_targets_law", TREE + "impossible_tokens_are_never_emitted"),
    "V05": (CHAIN + "chain_emits_the_targets_law",),
    "V06": (CHAIN + "chain_emits_the_targets_law", CHAIN + "acceptance_is_the_overlap"),
    "V08": (CHAIN + "chain_emits_the_targets_law", CHAIN + "acceptance_is_the_overlap"),
    "V11": (CHAIN + "chain_emits_the_targets_law", CHAIN + "last_token_of_a_chain_is_independent_of_other_coins"),
    "V13": (CHAIN + "acceptance_is_the_overlap",),
    "V28": (TREE + "tree_emits_the_targets_law", TREE + "acceptance_is_the_mass_of_the_children"),
    "V29": (CHAIN + "acceptance_is_the_overlap",),
    "SYN5": (TREE + "tree_emits_the_targets_law",),
    "SYN6": (TREE + "tree_emits_the_targets_law",),
    "SYN7": (TREE + "lower_thresholds_only_raise_acceptance",),
    "OWN-252": (TREE + "tree_emits_the_targets_law",),
    "OWN-272": (CHAIN + "chain_emits_the_targets_law",),
    "OWN-273": (CHAIN + "every_chain_of_a_batch_emits_its_own_law",),
    "OWN-275": (TREE + "tree_emits_the_targets_law", TREE + "last_token_is_independent_of_other_coins"),
    "OWN-280": (TREE + "repeated_siblings_count_again_upstream",),
    "OWN-281": (TREE + "lower_thresholds_never_shorten_a_chain",),
    "OWN-282": (TREE + "tree_emits_the_targets_law",),
    "OWN-283": (LOGITS + "greedy_requests_are_certain_in_a_mixed_batch",),
    "OWN-284": (LOGITS + "logits_emit_the_filtered_law",),
    "OWN-285": (LOGITS + "half_precision_emits_the_same_law",),
    "OWN-290": (TREE + "coins_of_one_verify_are_all_different",),
    "OWN-292": (TREE + "equal_siblings_leave_the_law_alone",),
    "OWN-3200": (CHAIN_LOGITS + "chains_from_logits_emit_the_targets_law",),
    "OWN-3202": (CHAIN_LOGITS + "chains_from_logits_emit_the_targets_law",),
    "OWN-3204": (CHAIN_LOGITS + "chains_from_logits_emit_the_targets_law",),
    "OWN-3207": (CHAIN_LOGITS + "chains_from_logits_emit_the_targets_law",),
    "OWN-3209": (CHAIN_LOGITS + "last_token_is_independent_of_other_coins",),
    "OWN-3215": (CHAIN_LOGITS + "chains_from_logits_emit_the_targets_law",),
    "OWN-4300": (BLOCK + "block_emits_the_targets_law", BLOCK + "no_fewer_drafts_are_kept_than_one_by_one"),
    "OWN-4303": (BLOCK + "block_emits_the_targets_law",),
    "OWN-4304": (BLOCK + "fronts_are_kept_by_their_share",),
    "OWN-4305": (BLOCK + "block_emits_the_targets_law",),
    "OWN-4307": (BLOCK + "every_block_of_a_batch_emits_its_own_law",),
    "OWN-4309": (BLOCK + "fronts_are_kept_by_their_share",),
    "OWN-4310": (BLOCK + "block_emits_the_targets_law",),
    "OWN-4311": (BLOCK + "block_emits_the_targets_law",),
    "OWN-4312": (BLOCK + "block_emits_the_targets_law", BLOCK + "fronts_are_kept_by_their_share"),
    "OWN-4313": (BLOCK + "block_emits_the_targets_law",),
    "OWN-4314": (BLOCK + "last_token_of_a_block_is_independent_of_other_coins",),
    "OWN-4317": (BLOCK + "last_token_of_a_block_is_independent_of_other_coins",),
}


@pytest.fixture(scope="module")
def hunt():
    return Hunt([MUTANTS[name] for name in KILLERS], LAWS, Options(40, True, {}))


@pytest.mark.parametrize("name", KILLERS)
def test_a_fault_is_found_by_the_laws_that_it_breaks(hunt, name):
    missing = [law for law in KILLERS[name] if hunt.show(name, law, 1) is None]
    assert not missing, f"{name} should be found by {missing} too"


def test_every_law_finds_a_fault(hunt):
    named = {law for laws in KILLERS.values() for law in laws}
    powerless = [law.name for law in LAWS if law.name not in named and hunt.first_victim(law.name, [1]) is None]
    assert powerless == []
