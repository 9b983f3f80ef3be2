"""Small runs of which there is a page each, and what is timed on a GPU that is not there."""

PROPERTIES = (
    "agreement.verify_tree_greedy",
    "verify.order_of_siblings_changes_no_path",
    "sampled_verify.a_draft_is_accepted_as_often_as_it_is_drawn",
)
KNOWN = """
[[failure]]
operation = "verify_tree_greedy"
property = "sampled_verify.a_draft_is_accepted_as_often_as_it_is_drawn"
link = "https://example.org/1"
expires = 2999-12-31
"""
CUTTING = """
from specsim.properties.mutants import all_mutants
from specsim.reference import build_tree, fill_bonus_tokens

SCHEDULER = next(one.scheduler for one in all_mutants() if one.id == "OWN-1193")
"""
CELL = "v2-page4-topk1-mha-chunks"
RUNS = {
    "check": (
        *("check", "one_short", "--examples", "8", "--seed", "1", "--known", "known.toml"),
        *(word for name in PROPERTIES for word in ("--property", name)),
    ),
    "soak": ("soak", "cutting", "--steps", "60", "--seed", "2", "--replays", "3"),
    "scopes": ("soak", "--exhaustive", "--max-states", "40"),
    "matrix": ("matrix", "cutting", "--cell", CELL, "--histories", "1", "--seed", "7", "--replays", "3"),
    "mutants": ("mutants", "PV07", "B03", "--seed", "1"),
}
"""Of each page a run; that of ``bench`` is of a GPU that takes 3 µs for everything."""


def timed():
    """Return what ``bench`` prints of two operations at three sizes, one of which could not be timed."""
    sizes = (1, 64, 1024)

    def row(operation, size, us):
        times = {"median_us": us, "low_us": us * 0.9, "high_us": us * 1.2, "floor_us": 1.7, "eager_us": us + 9}
        others = {"torch_us": None, "peer_us": us * 3, "times_floor": us / 1.7, "num_launches": 1, "num_bytes": 1234}
        return {"operation": operation, "shape": f"{size} requests", **times, **others, "share_of_copy": 0.5}

    names = ("build_tree", "verify_tree_greedy")
    return {
        "command": "bench",
        "conclusion": "6 rows were timed, and 1 could not be",
        "again": "specsim bench --operation build_tree --grow batch --seed 0",
        "verdict": "fails",
        "reasons": ["extend, 64 requests: out of memory"],
        "device": "a GPU",
        "seed": 0,
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "launch_us": 1.7,
        "copy_bandwidth": 3e12,
        "growth": [
            {"axis": "batch", "operation": name, "kind": "", "sizes": sizes, "shapes": [f"{n} requests" for n in sizes]}
            for name in names
        ],
        "rows": [row(name, size, 2.0 + size / 64) for name in names for size in sizes],
        "unmeasured": [{"operation": "extend", "shape": "64 requests", "error": "out of memory"}],
    }
