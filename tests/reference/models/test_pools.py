"""Whole runs on every kind of pool: what is output is what plain decoding outputs, however KV is stored."""

from functools import cache

import pytest

from specsim.config import SpecConfig
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.pool_kinds import DRAFT_KINDS, PoolKind
from specsim.simulation.models.text_model import TextModel
from specsim.simulation.models.toys import window_of
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import simulate
from specsim.simulation.requests import Request

TREE, CHAIN = SpecConfig(2, 3, 6), SpecConfig(1, 3, 4)
TARGETS = [(kind, PoolKind.MHA) for kind in PoolKind]
PAIRS = [*TARGETS, *((PoolKind.MHA, kind) for kind in DRAFT_KINDS if kind is not PoolKind.MHA)]
pairs = pytest.mark.parametrize(("target", "draft"), PAIRS, ids=["-".join(pair) for pair in PAIRS])


def run(loop, config, model, reads=Reads.KEPT, page_size=1):
    requests = [Request(number, [9, 4, 2, 7][number:], 9) for number in range(3)]
    sizes = sizes_for(config, requests, 2, page_size, window_of(model))
    return simulate(loop(config, load_model(model), sizes, reads=reads), requests, max_batch=2, shuffle_seed=3)


@cache
def num_accepted_drafts(config):
    """Return the drafts that are accepted where every side has keys and values."""
    return run(ReferenceWorker, config, HashModel(32, 5, 0.7), page_size=2).num_accepted_drafts


@pairs
def test_v2_loses_nothing_whatever_kv_is_stored_in(target, draft):
    config = CHAIN if PoolKind.OTHER in (target, draft) else TREE
    model = HashModel(32, 5, 0.7, target_pool=target, draft_pool=draft)
    report = run(ReferenceWorker, config, model, Reads.DRAWN, page_size=2)
    assert (report.lossless, report.num_accepted_drafts) == (True, num_accepted_drafts(config))


@pairs
def test_v1_loses_nothing_whatever_kv_is_stored_in(target, draft):
    report = run(ReferenceWorkerV1, TREE, HashModel(32, 5, 0.7, target_pool=target, draft_pool=draft))
    assert (report.lossless, report.num_accepted_drafts > 0) == (True, True)


@pytest.mark.parametrize("kind", [PoolKind.HYBRID, PoolKind.NO_KV], ids=["hybrid", "no-kv"])
def test_a_text_is_continued_from_its_last_tokens(kind):
    model = TextModel.from_text(b"the quick brown fox jumps over the lazy dog. " * 9, 64)
    report = run(ReferenceWorker, TREE, TextModel(model.target_counts, model.draft_counts, target_pool=kind))
    assert report.lossless
