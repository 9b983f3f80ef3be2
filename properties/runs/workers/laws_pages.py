"""Laws of whole runs on pages: nothing is lost, nothing leaks, and every beam finds the end of its text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specsim.conformance.arrays import Array
from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.reach.conditions import Condition, tags_of
from specsim.properties.reach.counting import reached
from specsim.properties.runs.histories import paged_scenarios
from specsim.properties.runs.play import Play, Wrap, require_in_step, side_by_side
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.workers.laws_state import check_texts
from specsim.properties.runs.workers.laws_tokens import check_map, require_all_free
from specsim.simulation.models.batches import DraftOutput, DraftStepBatch
from specsim.simulation.models.protocol import Model

Buffers = Mapping[str, Sequence[Array]]


@dataclass(frozen=True)
class PageOfBeam:
    """The slots in front of the own entries of a beam on their page, and those of the same positions of the text.

    ``place`` is that of the beam in the batch, ``start`` where the keys of these positions stand in its list of keys.
    """

    place: int
    start: int
    copies: list[int]
    text: list[int]


def pages_of_beams(batch: DraftStepBatch[Array], page_size: int) -> list[PageOfBeam]:
    """Return, of each beam, what attention that reads whole pages finds in front of the first entry of its own."""
    indices, starts = batch.keys.kv_indices.tolist(), batch.keys.kv_indptr.tolist()
    num_own, found = batch.depth - 1, []
    for place in range(len(batch.input_ids)):
        keys = indices[starts[place] : starts[place + 1]]
        length = len(keys) - num_own
        first, start = keys[length], length // page_size * page_size
        copies = list(range(first // page_size * page_size, first))
        found.append(PageOfBeam(place, starts[place] + start, copies, keys[start:length]))
    return found


Observer = Callable[[DraftStepBatch[Array], Buffers, Sequence[PageOfBeam]], None]
"""Sees a step before it runs: its batch, the draft cache, and the pages of its beams."""


class WatchedModel:
    """A model whose draft steps read whole pages of their beams, and show them to an observer before they run.

    What is looked at cannot be captured.
    """

    def __init__(self, model: Model[Array], page_size: int, observer: Observer) -> None:
        self.model, self.page_size, self.observer = model, page_size, observer
        self.prefill, self.verify, self.draft_extend = model.prefill, model.verify, model.draft_extend
        self.description = replace(model.description, is_capturable=False)

    def draft_step(self, batch: DraftStepBatch[Array], kv: Buffers) -> DraftOutput[Array]:
        """Show a step, then run it on the keys that lie on the pages of its beams."""
        pages = pages_of_beams(batch, self.page_size)
        self.observer(batch, kv, pages)
        # NOTE: a copy, in any array library.
        indices = batch.keys.kv_indices + 0
        for page in pages:
            for number, slot in enumerate(page.copies[: len(page.text)]):
                indices[page.start + number] = slot
        return self.model.draft_step(replace(batch, keys=replace(batch.keys, kv_indices=indices)), kv)


OPERATIONS = (
    *("align_evict_mask_to_page_size", "assign_draft_cache_locs", "create_num_accepted_drafts_filter"),
    *("filter_finished_cache_loc", "get_src_tgt_cache_loc", "get_target_cache_loc", "move_kv_cache"),
)
"""What pages change."""

COPIES = ("assign_draft_cache_locs", "move_kv_cache")


def requests_on_pages_keep_what_is_theirs(backend: Backend, scenario: Scenario) -> None:
    """Pages have one owner, committed positions the entries of their tokens in both caches, and outputs lose nothing.

    Every phase is that of the reference, and at the end all pages are free.
    """
    play = Play(scenario, backend)
    engine, take_turns = play.engine, side_by_side if backend.limits.has_own_drafts else require_in_step
    for _ in take_turns(Play(scenario), play):
        engine.scheduler.check_ledger()
        state = engine.worker.state()
        for request in engine.scheduler.running:
            check_map(state, request)
            pools = ("target_kv",) if backend.limits.has_own_drafts else ("target_kv", "draft_kv")
            check_texts(pools, state, scenario.model, request)
    play.require_outputs()
    require_all_free(engine)


def beams_begin_with_the_end_of_their_text(backend: Backend, scenario: Scenario) -> None:
    """While a tree is drafted, every beam has in front of its entries what the draft cache has of the text's last page.

    Attention that reads whole pages finds it there, as the draft does here: a step that names its slots one by one does
    not look. Without a worker of its own an implementation has what it has for the copies run in the reference's.
    """

    def look(batch: DraftStepBatch[Array], kv: Buffers, pages: Sequence[PageOfBeam]) -> None:
        rows, num_beams = batch.req_pool_indices.tolist(), scenario.config.topk
        for page in pages:
            row, beam = rows[page.place // num_beams], page.place % num_beams
            if row == 0 or page.copies == page.text:
                continue
            reached(Condition.PAGES_OF_BEAMS)
            require(len(page.copies) == len(page.text), f"page of beam {beam} of row {row}", page.copies, page.text)
            for name, layers in kv.items():
                for layer, buffer in enumerate(layers):
                    got, expected = buffer[page.copies].tolist(), buffer[page.text].tolist()
                    require(got == expected, f"{name}[{layer}] in front of beam {beam} of row {row}", got, expected)

    def watch(model: Any) -> WatchedModel:
        return WatchedModel(model, scenario.room.page_size, look)

    _watched_play(backend, scenario, watch).run(checks_ledger=True)


def _watched_play(backend: Backend, scenario: Scenario, watch: Wrap) -> Play:
    """Return a play of an implementation's own worker on a model that is watched, or the reference's on its copies."""
    if scenario.worker_name in backend.workers:
        return Play(scenario, backend, wrap=watch)
    has = {name: backend.functions[name] for name in COPIES if backend.has(name)}
    return Play(scenario, operations=Completed(replace(backend, functions=has), load("specsim.reference")), wrap=watch)


_TAGS = tags_of(Condition.PAGES_OF_BEAMS)

PROPERTIES = states_of_runs(
    "worker_pages",
    (requests_on_pages_keep_what_is_theirs, paged_scenarios, OPERATIONS, "P38"),
    (beams_begin_with_the_end_of_their_text, paged_scenarios, COPIES, "P42", {"tags": _TAGS}),
)
