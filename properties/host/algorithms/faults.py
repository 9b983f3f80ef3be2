"""Faults in the registry: names that are forgotten, checks that check nothing."""

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import mutants_of_operations

_CHECK = "check_registration"
_FIND = "find_algorithm"
_WIDTH = "target_verify_width"

MUTANTS = mutants_of_operations(
    {
        ("OWN-152", _CHECK, "The reserved names are a list that lacks FROZEN_KV_MTP."): edited(
            "reserved_names()", 'reserved_names() - {"FROZEN_KV_MTP"}'
        ),
        ("OWN-153", _CHECK, "The predicates come from dir() of the enum: none."): edited(
            "{name for base in SpeculativeAlgorithm.__mro__ for name in vars(base)}",
            "dir(SpeculativeAlgorithm)",
            within="missing_predicates",
        ),
        ("OWN-154", _CHECK, "A name is taken only in the case it was written in."): edited(
            "capitals in taken", "name in taken"
        ),
        ("OWN-155", _CHECK, "The class is checked before the name."): edited(
            "capitals = name.upper()",
            """
                capitals = name.upper()
                if missing_predicates(spec_class):
                    raise TypeError(f"the class lacks {', '.join(missing_predicates(spec_class))}")
                """,
        ),
        ("OWN-156", _FIND, "A plug-in hides a built-in algorithm."): edited(
            "capitals in SpeculativeAlgorithm.__members__",
            "capitals in SpeculativeAlgorithm.__members__ and capitals not in plugins",
        ),
        ("OWN-157", _FIND, "An unknown name drafts nothing."): edited(
            'known = ", ".join([*SpeculativeAlgorithm.__members__, *plugins])', "return SpeculativeAlgorithm.NONE"
        ),
        ("OWN-158", _WIDTH, "Any draft worker runs a target verify."): edited(
            "is_draft_worker and not algorithm.supports_target_verify_for_draft()", "False"
        ),
        ("OWN-386", _WIDTH, "Support is asked of the name, not of the row."): edited(
            "algorithm.supports_target_verify_for_draft()", "algorithm.is_dflash()"
        ),
        ("OWN-159", _WIDTH, "The width is that of the configuration."): edited(
            "algorithm.get_num_tokens_per_bs_for_target_verify(num_draft_tokens, is_draft_worker)",
            "num_draft_tokens",
        ),
    }
)
