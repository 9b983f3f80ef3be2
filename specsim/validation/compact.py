"""Structural rules of compact operations."""

from specsim.validation.common import PATHS, TARGETS

RULES = {
    "gather_accept_tokens": PATHS,
    "fill_accept_out_cache_loc": PATHS,
    "compact_accepted_to_front": PATHS,
    "move_kv_cache": TARGETS,
}
