"""Faults in the registry: names that are forgotten, checks that check nothing."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ check_registration
    OWN-152 The reserved names are a list that lacks FROZEN_KV_MTP.
    - reserved_names() => reserved_names() - {"FROZEN_KV_MTP"}
    OWN-154 A name is taken only in the case it was written in.
    - capitals in taken => name in taken
    OWN-155 The class is checked before the name.
      capitals = name.upper()
    + if missing_predicates(spec_class):
    +     raise TypeError(f"the class lacks {', '.join(missing_predicates(spec_class))}")
    @@ check_registration in missing_predicates
    OWN-153 The predicates come from dir() of the enum: none.
    - {name for base in SpeculativeAlgorithm.__mro__ for name in vars(base)} => dir(SpeculativeAlgorithm)
    @@ find_algorithm
    OWN-156 A plug-in hides a built-in algorithm.
    - capitals in SpeculativeAlgorithm.__members__
    + capitals in SpeculativeAlgorithm.__members__ and capitals not in plugins
    OWN-157 An unknown name drafts nothing.
    - known = ", ".join([*SpeculativeAlgorithm.__members__, *plugins]) => return SpeculativeAlgorithm.NONE
    @@ target_verify_width
    OWN-158 Any draft worker runs a target verify.
    - is_draft_worker and not algorithm.supports_target_verify_for_draft() => False
    OWN-386 Support is asked of the name, not of the row.
    - algorithm.supports_target_verify_for_draft() => algorithm.is_dflash()
    OWN-159 The width is that of the configuration.
    - algorithm.get_num_tokens_per_bs_for_target_verify(num_draft_tokens, is_draft_worker) => num_draft_tokens
    """
)
