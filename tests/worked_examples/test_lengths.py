"""K.11: how far V2 allocates ahead, in step and under overlap."""

from specsim.config import PoolSizes, SpecConfig
from specsim.simulation.engine import OWN_DECISIONS
from specsim.simulation.requests import Request
from specsim.simulation.scheduler import Scheduler

CONFIG = SpecConfig(topk=2, num_steps=3, num_draft_tokens=6)
ACCEPTED = (3, 1, 4)


def started():
    """Return the scheduler, and a request of seven committed positions."""
    sizes = PoolSizes(num_slots=60, num_rows=2, row_width=50)
    scheduler = Scheduler(CONFIG, sizes, max_batch=1, operations=OWN_DECISIONS)
    scheduler.submit(Request(0, list(range(7)), 20))
    (request,) = scheduler.next_prefill().requests
    return scheduler, request


def lengths(request):
    return len(request.slots), request.num_committed


def test_k11_in_step():
    scheduler, request = started()
    assert CONFIG.reserve == 12
    prepared, new = [], []
    for num_tokens in ACCEPTED:
        new.append(sum(given.end - given.start for given in scheduler.prepare_for_decode()))
        prepared.append(lengths(request))
        request.num_committed += num_tokens
    assert prepared == [(19, 7), (22, 10), (23, 11)]
    assert new == [12, 3, 1]
    assert request.num_committed == 15


def test_k11_under_overlap():
    """Every launch but the first is prepared before the result of the one before it is resolved."""
    scheduler, request = started()
    true_lengths, seen = [7, 10, 11, 15], []
    for launch, length in enumerate(true_lengths[:3]):
        if launch > 1:
            request.num_committed += ACCEPTED[launch - 2]
        scheduler.prepare_for_decode()
        seen.append(lengths(request))
        assert length + CONFIG.reserve // 2 <= len(request.slots)
    assert seen == [(19, 7), (19, 7), (22, 10)]
    for num_tokens in ACCEPTED[1:]:
        request.num_committed += num_tokens
        seen.append(lengths(request))
    assert seen[3:] == [(22, 11), (22, 15)]
