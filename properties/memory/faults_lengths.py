"""Faults in how many positions a request reserves, needs and gives back."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specsim.counts import ceil_to, floor_to
from specsim.properties.mutants.record import Function, Mutant, Named, answering, with_arguments, with_fields
from specsim.simulation.memory.release import Release
from specsim.simulation.memory.reserve import DecodeSizes


def _with_sizes(**changed: Callable[[DecodeSizes], Any]) -> Callable[[Function], Function]:
    """Inject a fault in the sizes that are seen."""
    return with_arguments(sizes=lambda sizes: replace(sizes, **{name: of(sizes) for name, of in changed.items()}))


def _beams_begin_with_a_page(correct: Function, named: Named) -> Any:
    sizes, size = named["sizes"], named["page_size"]
    if size == 1 or sizes.topk <= 1:
        return correct(**named)
    return max(sizes.topk * ceil_to(sizes.num_steps, size), sizes.num_draft_tokens)


def _unaligned(correct: Function, named: Named) -> Any:
    return max(named["num_allocated"], named["num_committed"] + _reserve(named))


def _one_iteration(correct: Function, named: Named) -> Any:
    end = named["num_committed"] + _reserve(named) // 2
    return ceil_to(max(named["num_allocated"], end), named["page_size"])


def _one_short(correct: Function, named: Named) -> Any:
    end = named["num_committed"] + _reserve(named) - 1
    return ceil_to(max(named["num_allocated"], end), named["page_size"])


def _from_the_allocated(correct: Function, named: Named) -> Any:
    return correct(**{**named, "num_committed": max(named["num_allocated"], named["num_committed"])})


def _page_more(correct: Function, named: Named) -> Any:
    return correct(**named) + named["page_size"]


def _reserve(named: Named) -> int:
    sizes: DecodeSizes = named["sizes"]
    size: int = named["page_size"]
    if not sizes.num_draft_tokens:
        return 2
    beam = sizes.num_steps if size == 1 or sizes.topk == 1 else ceil_to(size - 1 + sizes.num_steps, size)
    return 2 * max(sizes.topk * beam, sizes.num_draft_tokens)


def _head_room_of_a_verify(correct: Function, named: Named) -> Any:
    return named["longest_text"] + 4 + named["sizes"].num_draft_tokens


def _without_the_page(correct: Function, named: Named) -> Any:
    return correct(**named) - (named["page_size"] - 1)


def _one_wider(correct: Function, named: Named) -> Any:
    return correct(**named) + 1


def _v2_alone(fault: Callable[[Function, Named], Any]) -> Callable[[Function], Function]:
    return answering(
        lambda correct, named: (fault if named["sizes"].allocates_ahead else lambda one, named: one(**named))(
            correct, named
        )
    )


def _as_if_in_whole_pages(correct: Function, named: Named) -> Any:
    size = named["page_size"]
    return correct(
        **{**named, "batch": [replace(one, num_allocated=floor_to(one.num_allocated, size)) for one in named["batch"]]}
    )


def _one_less(correct: Function, named: Named) -> Any:
    return max(correct(**named) - named["page_size"], 0)


def _v1_alone(fault: Callable[[Function, Named], Any]) -> Callable[[Function], Function]:
    def ask(correct: Function, named: Named) -> Any:
        sizes = named["sizes"]
        return correct(**named) if sizes.allocates_ahead or not sizes.num_draft_tokens else fault(correct, named)

    return answering(ask)


def _drafts_without_a_partial_page(correct: Function, named: Named) -> Any:
    sizes, size = named["sizes"], named["page_size"]
    drafts, nodes = sizes.topk * ceil_to(sizes.num_steps, size), ceil_to(sizes.num_draft_tokens, size)
    return len(named["batch"]) * max(drafts, nodes)


def _nodes_alone(correct: Function, named: Named) -> Any:
    return len(named["batch"]) * ceil_to(named["sizes"].num_draft_tokens, named["page_size"])


def _without_rounding(correct: Function, named: Named) -> Any:
    sizes = named["sizes"]
    return len(named["batch"]) * max(sizes.topk * sizes.num_steps, sizes.num_draft_tokens)


def _a_slot_a_request(correct: Function, named: Named) -> Any:
    return correct(**named) if named["sizes"].num_draft_tokens else len(named["batch"])


def _all_that_is_committed(correct: Function, named: Named) -> Any:
    return named["num_committed"]


def _all_that_was_output(correct: Function, named: Named) -> Any:
    finished = named["finished_length"]
    return named["num_committed"] if finished is None else named["num_prompt"] + finished


def _without_the_last(correct: Function, named: Named) -> Any:
    return max(correct(**named) - (named["finished_length"] is not None), 0)


def _output_alone(correct: Function, named: Named) -> Any:
    finished = named["finished_length"]
    return correct(**named) if finished is None else min(named["num_committed"], finished)


def _page_later(plan: Release, named: Named) -> Named:
    size = named["page_size"]
    return {"num_key": max(floor_to(plan.num_owned, size), plan.num_key)}


def _page_earlier(plan: Release, named: Named) -> Named:
    return {"num_key": max(plan.num_key - named["page_size"], plan.num_protected)}


def _scratch_from_the_text(plan: Release, named: Named) -> Named:
    return {"scratch": (plan.num_owned, plan.scratch[1])}


def _scratch_from_the_page(plan: Release, named: Named) -> Named:
    size = named["page_size"]
    return {"scratch": (floor_to(plan.num_owned, size) + size, max(plan.scratch[1], plan.num_owned))}


_RESERVE, _NEXT, _WIDTH = "alloc_len_per_decode", "next_allocated_length", "required_row_width"
_DEMAND, _OWNED, _PLAN = "new_tokens_required_next_decode", "owned_length", "plan_release"

MUTANTS = (
    Mutant("K02", _NEXT, "The recorded length is not that of whole pages.", answering(_unaligned)),
    Mutant("K18", _NEXT, "One iteration is reserved while another is in flight.", answering(_one_iteration)),
    Mutant(
        "S16",
        _NEXT,
        "What a deeper draft has allocated is forgotten by a flatter one.",
        with_arguments(num_allocated=0),
    ),
    Mutant("OWN-1110", _RESERVE, "Beams begin with a page of their own.", answering(_beams_begin_with_a_page)),
    Mutant(
        "OWN-1111",
        _RESERVE,
        "The nodes of a verify are left out.",
        _with_sizes(num_draft_tokens=lambda one: min(one.num_draft_tokens, 1)),
    ),
    Mutant("OWN-1112", _RESERVE, "Steps alone are counted.", _with_sizes(topk=lambda one: min(one.topk, 1))),
    Mutant("OWN-1113", _RESERVE, "Pages are counted as slots.", with_arguments(page_size=1)),
    Mutant("OWN-1114", _NEXT, "The reserve is one position short.", answering(_one_short)),
    Mutant("OWN-1115", _NEXT, "The reserve begins after what is allocated.", answering(_from_the_allocated)),
    Mutant("OWN-1116", _NEXT, "A page more is allocated than is reserved.", answering(_page_more)),
    Mutant("OWN-1117", _WIDTH, "A row has room for a verify after its text alone.", answering(_head_room_of_a_verify)),
    Mutant("OWN-1118", _WIDTH, "A row has no room for the rest of a page.", answering(_without_the_page)),
    Mutant("OWN-1119", _WIDTH, "A row is wider than anything needs.", answering(_one_wider)),
    Mutant("OWN-1120", _DEMAND, "The first request alone is counted.", with_arguments(batch=lambda batch: batch[:1])),
    Mutant("OWN-1121", _DEMAND, "V2 counts the last page as unused.", _v2_alone(_as_if_in_whole_pages)),
    Mutant("OWN-1122", _DEMAND, "V2 needs a page less.", _v2_alone(_one_less)),
    Mutant(
        "OWN-1123",
        _DEMAND,
        "V1 leaves out that beams begin in a partial page.",
        _v1_alone(_drafts_without_a_partial_page),
    ),
    Mutant("OWN-1124", _DEMAND, "V1 counts nodes and no drafts.", _v1_alone(_nodes_alone)),
    Mutant("OWN-1125", _DEMAND, "V1 counts slots and no pages.", _v1_alone(_without_rounding)),
    Mutant("OWN-1126", _DEMAND, "A token each is a slot each.", answering(_a_slot_a_request)),
    Mutant("OWN-1127", _OWNED, "Positions after the end count as text.", answering(_all_that_is_committed)),
    Mutant("OWN-1128", _OWNED, "Text counts before it is committed.", answering(_all_that_was_output)),
    Mutant("OWN-1129", _OWNED, "The last position of a text that ended is left out.", answering(_without_the_last)),
    Mutant("OWN-1130", _OWNED, "The prompt is left out of a text that ended.", answering(_output_alone)),
    Mutant(
        "OWN-1131",
        _PLAN,
        "A position is cached without the token after it.",
        with_arguments(has_pair_keys=False),
    ),
    Mutant("OWN-1132", _PLAN, "The last page is never cached.", with_fields(_page_earlier)),
    Mutant("OWN-1133", _PLAN, "The last page is cached although it is not resolved.", with_fields(_page_later)),
    Mutant(
        "OWN-1134",
        _PLAN,
        "The page of the last text is freed with the scratch, too.",
        with_fields(_scratch_from_the_text),
    ),
    Mutant("OWN-1135", _PLAN, "A page of scratch is never freed.", with_fields(_scratch_from_the_page)),
    Mutant("OWN-1136", _PLAN, "The scratch is not freed.", with_fields(lambda plan, _: {"scratch": (0, 0)})),
    Mutant(
        "OWN-1137",
        _PLAN,
        "Cached slots are freed with the request's own.",
        with_fields(lambda plan, _: {"num_protected": 0}),
    ),
)
