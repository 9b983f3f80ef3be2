"""What a recorder keeps of runs whose turns are known."""

import pytest

from specsim.config import SpecConfig
from specsim.pictures import Activity
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule
from specsim.simulation.turns.recording import Recorder
from tests.specsim.pictures.parsed import assert_figure, boxes_of, texts_of

CHAIN = SpecConfig(1, 2, 3)
MODEL = HashModel(32, 5, 1.0)
"""Two drafts a verify, and a model that accepts all of them."""


def started(recorder, requests, schedule=IN_TURN, loop=ReferenceWorker, max_batch=2, model=MODEL):
    worker = loop(CHAIN, load_model(model), sizes_for(CHAIN, requests, max_batch))
    engine = Engine(worker, max_batch, 1, schedule=schedule, watch=recorder)
    for request in requests:
        engine.submit(request)
    return engine


def kept_of(recorder):
    def row(column):
        return [(moment.activity.name, moment.label, moment.ends) for moment in column.moments]

    return [(column.kind, row(column), column.results) for column in recorder.columns()]


@pytest.mark.parametrize("loop", [ReferenceWorker, ReferenceWorkerV1])
def test_in_turn_each_result_is_read_after_its_launch(loop):
    recorder = Recorder()
    started(recorder, [Request(0, [1, 2, 3], 4), Request(1, [1, 2], 1)], loop=loop).run()
    assert kept_of(recorder) == [
        ("prefill", [("PREFILL", "3", ""), ("PREFILL", "2", "length")], (0,)),
        ("verify", [("VERIFY", "2/2", "length"), ("FINISHED", "", "")], (1,)),
    ]


def test_overlapped_the_host_reads_earlier_results_and_drops_late_ones():
    recorder = Recorder()
    started(recorder, [Request(0, [1, 2, 3], 7)], Schedule(is_overlapped=True)).run()
    assert kept_of(recorder) == [
        ("prefill", [("PREFILL", "3", "")], ()),
        ("verify", [("VERIFY", "2/2", "")], (0,)),
        ("verify", [("VERIFY", "2/2", "length")], (1,)),
        ("verify", [("DROPPED", "2/2", "")], (2, 3)),
    ]


def test_requests_wait_and_lose_their_rows():
    recorder = Recorder()
    requests = [Request(number, [1, 2, 3], 7) for number in range(2)]
    engine = started(recorder, requests, max_batch=1)
    engine.step()
    engine.scheduler.retract(requests[0])
    engine.step()
    activities = [[moment.activity for moment in column.moments] for column in recorder.columns()]
    assert activities == [
        [Activity.PREFILL, Activity.WAITING],
        [Activity.VERIFY, Activity.WAITING],
        [Activity.RETRACTED, Activity.PREFILL],
        [Activity.WAITING, Activity.VERIFY],
    ]


def test_slots_in_use_are_those_of_the_allocator():
    recorder = Recorder()
    engine = started(recorder, [Request(0, [1, 2, 3], 7)])
    slots = engine.scheduler.memory.allocator
    usable = slots.num_free
    engine.step()
    assert [column.num_slots for column in recorder.columns()][-1] == usable - slots.num_free > 0
    assert f"of {usable:,} slots" in texts_of(recorder.draw())[-1]


def test_the_first_launches_and_requests_are_kept():
    recorder = Recorder(most_launches=3, most_requests=2)
    done = started(recorder, [Request(number, [1, 2, 3], 10) for number in range(5)]).run()
    assert (len(done), len(recorder.columns()), recorder.num_left_out > 0) == (5, 3, True)
    texts = texts_of(recorder.draw())
    assert f"{recorder.num_left_out} more launches are not drawn" in texts
    assert [text for text in texts if text.startswith("request ")] == ["request 0", "request 1"]


def test_a_run_draws_itself_and_the_same_again():
    drawn = []
    for _ in range(2):
        recorder = Recorder()
        started(recorder, [Request(0, [1, 2, 3], 7)], Schedule(is_overlapped=True)).run()
        drawn.append(recorder.draw("a run", prefix="run-"))
    assert drawn[0] == drawn[1]
    activities = [box.marks["activity"] for box in boxes_of(drawn[0], "activity")]
    assert activities == ["prefill", "verify", "verify", "dropped"]
    assert recorder._repr_svg_() == recorder.draw()


def test_the_figure_of_the_page_is_an_overlapped_run():
    recorder = Recorder()
    requests = [Request(number, [*range(1, length + 1)], 9) for number, length in enumerate((9, 6, 12))]
    schedule = Schedule(is_overlapped=True, prefill_chunk=8)
    started(recorder, requests, schedule, model=HashModel(32, 5, 0.6)).run()
    assert_figure("timeline", recorder.draw("an overlapped run of three requests"))
