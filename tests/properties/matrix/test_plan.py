"""A matrix covers what it says, and names what it leaves out."""

from dataclasses import replace
from itertools import combinations, product

import pytest

from specsim.algorithms import DRAFTERS
from specsim.conformance.backend import load
from specsim.host.acceptance import acceptance_of
from specsim.properties.matrix import refusals as asking
from specsim.properties.matrix.covering import cover, occurring, smallest_absent
from specsim.properties.matrix.factors import FACTORS, Cell, all_cells, cell_named
from specsim.properties.matrix.plan import PROFILES, plan_matrix
from specsim.properties.matrix.refusals import Refusal, refusals
from specsim.properties.soak.subject import Subject
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.loops import loop_of


def reference(**changed):
    return Subject(replace(load("specsim.reference"), **changed))


def why_refused(subject, cell):
    """Return why one cell is not run, or None if it is."""
    return refusals(subject, [cell]).get(cell)


def test_the_product_has_every_value():
    cells = all_cells()
    assert len(cells) == 2 * 4 * 3 * len(FACTORS["pool"]) * 2 * 2 * 2 * len(DRAFTERS) * 3 * 3
    assert len({cell.name for cell in cells}) == len(cells)
    named = {name: FACTORS[name] for name in ("worker", "page_size", "topk")}
    assert named == {"worker": ("v1", "v2"), "page_size": (1, 4, 16, 64), "topk": (1, 4, 16)}


def test_a_cell_is_found_by_its_name():
    for cell in all_cells()[::499]:
        assert cell_named(cell.name) == cell
        assert cell_named(f"{cell.name}-page1") is None


def test_a_cell_is_named_by_all_of_its_values():
    cell = Cell("v2", 16, 4, "mha", overlap=True, chunking=False, prefix_cache=True)
    assert cell.name == "v2-page16-topk4-mha-overlap-cache"
    assert cell_named(cell.name) == cell
    assert replace(cell, algorithm="NGRAM").name == "ngram-v2-page16-topk4-mha-overlap-cache"
    assert replace(cell, verify_mode="cap-accept").name == "v2-page16-topk4-mha-overlap-cache-cap-accept"
    assert replace(cell, acceptance="target-draw").name == "v2-page16-topk4-mha-overlap-cache-target-draw"
    both = replace(cell, verify_mode="compact", acceptance="block")
    assert both.name == "v2-page16-topk4-mha-overlap-cache-compact-block"
    assert cell_named(both.name) == both


PAGE_SIZES = (1, 64)
"""No rule has a bound between them, and half as many cells are asked about."""


def check_combinations(plan, strength):
    """Every combination occurs in a cell or is left out by name."""
    assert set(plan.cells) <= set(plan.allowed)
    covered, left_out = occurring(plan.cells, strength), [set(one.combination) for one in plan.left_out]
    for names in combinations(FACTORS, strength):
        factors = {**FACTORS, "page_size": PAGE_SIZES}
        for values in product(*(factors[name] for name in names)):
            wanted = tuple(zip(names, values, strict=True))
            is_left_out = any(part <= set(wanted) for part in left_out)
            assert (wanted in covered) != is_left_out, wanted


def check_reasons(plan, cells):
    """Every cell is allowed or refused with a reason."""
    assert {*plan.allowed, *plan.refused} == set(cells)
    assert not {*plan.allowed} & {*plan.refused}
    assert all(refusal.by and refusal.because for refusal in plan.refused.values())
    for cell in plan.refused:
        assert any(vars(cell).items() >= dict(one.combination).items() for one in plan.left_out), cell.name


def test_plans_leave_out_by_name_and_with_a_reason_and_count_what_they_cover():
    """One test, because another process would ask the rules about every cell again for its share of the same."""
    cells = [cell for cell in all_cells() if cell.page_size in PAGE_SIZES]
    plan = plan_matrix(refusals(reference(), cells), PROFILES["ci"], cells)
    check_combinations(plan, 2)
    check_reasons(plan, cells)
    assert {cell.algorithm for cell in plan.cells} == set(DRAFTERS)
    assert plan.covered(2) == (len(occurring(plan.allowed, 2)),) * 2
    covered, allowed = plan.covered(3)
    assert covered < allowed == len(occurring(plan.allowed, 3))
    check_combinations(replace(plan, cells=tuple(cover(plan.allowed, PROFILES["full"].strength))), 3)


def test_a_cover_is_small_and_the_same_whenever_it_is_built():
    cells = [cell for cell in all_cells() if not cell.is_scheduled]
    found = cover(cells, 2)
    assert found == cover(cells, 2)
    *_, second, most = sorted(len(values) for values in FACTORS.values())
    assert len(found) <= 1.5 * second * most


def test_what_is_absent_is_reported_in_its_smallest_form():
    cells = all_cells()
    allowed = [cell for cell in cells if cell.page_size != 64 and (cell.topk, cell.overlap) != (4, True)]
    assert smallest_absent(cells, allowed) == [(("page_size", 64),), (("topk", 4), ("overlap", True))]


def test_profiles_run_as_many_histories_as_they_have_to():
    assert (PROFILES["ci"].strength, PROFILES["full"].strength) == (2, 3)
    assert PROFILES["ci"].num_histories >= 5
    assert PROFILES["full"].num_histories == 50


def test_overlap_of_v1_is_refused_by_the_rules():
    refusal = why_refused(reference(), cell_named("v1-page1-topk1-mha-overlap"))
    assert refusal == Refusal("rules", "forced-v1: V1 was asked for; it runs without overlap.")


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("v2-page1-topk4-mha-compact", "topk is above 1"),
        ("ngram-v2-page1-topk1-mha-cap-accept", "does not say schedules_verify"),
    ],
)
def test_budgets_of_trees_are_refused_by_the_engine(name, because):
    assert why_refused(reference(), cell_named("v2-page1-topk1-mha-compact")) is None
    refusal = why_refused(reference(), cell_named(name))
    assert refusal.by == "engine"
    assert because in refusal.because


@pytest.mark.parametrize(
    ("brought", "has", "lacks"), [("worker", "v2", "v1"), ("worker_v1", None, "v2"), ("worker_v1", None, "v1")]
)
def test_a_missing_worker_is_refused_by_the_implementation(brought, has, lacks):
    subject = reference(functions={}, **{brought: ReferenceWorker})
    if has is not None:
        assert why_refused(subject, cell_named(f"{has}-page1-topk1-mha")) is None
    refusal = why_refused(subject, cell_named(f"{lacks}-page1-topk1-mha"))
    assert refusal == Refusal("implementation", f"specsim.reference brings no {lacks.upper()} worker")


def test_a_worker_of_another_algorithm_is_reported_by_its_name():
    subject = reference(worker=ReferenceWorker, other_workers={"ngram": loop_of("ngram")})
    assert why_refused(subject, cell_named("ngram-v1-page1-topk4-mha")) is None
    refusal = why_refused(reference(functions={}, worker=ReferenceWorker), cell_named("ngram-v1-page1-topk4-mha"))
    assert refusal == Refusal("implementation", "specsim.reference brings no V1 worker of the name ngram")


def test_a_width_that_the_rules_change_is_refused_by_the_rules(monkeypatch):
    monkeypatch.setattr(asking, "settings_of", lambda drafter: {"ngram_max_bfs_breadth": 1})
    assert why_refused(reference(), cell_named("ngram-v1-page1-topk1-mha")) is None
    refusal = why_refused(reference(), cell_named("ngram-v1-page1-topk4-mha"))
    assert refusal == Refusal("rules", "ngram-topk: NGRAM's topk is the widest level of its search. It is 1.")


class ChainWorker(ReferenceWorker):
    """Runs no trees."""

    def __init__(self, config, model, sizes):
        if config.topk > 1:
            because = "it runs chains"
            raise SpecRejection(Reason.BAD_CONFIGURATION, what="topk", got=config.topk, expected="1", because=because)
        super().__init__(config, model, sizes)


def test_what_a_worker_rejects_is_refused_by_the_worker():
    refusal = why_refused(reference(worker=ChainWorker), cell_named("v2-page1-topk4-mha"))
    assert refusal == Refusal("worker", "BAD_CONFIGURATION: topk is 4, but should be 1, because it runs chains")


@pytest.mark.parametrize("name", ["v2-page1-topk4-mha-block", "ngram-v1-page1-topk1-mha-block"])
def test_trees_as_blocks_are_refused_in_the_words_of_the_rule(name):
    with pytest.raises(SpecRejection) as caught:
        acceptance_of("block", 4)
    assert why_refused(reference(), cell_named(name)) == Refusal("worker", str(caught.value))


def test_a_worker_without_a_parameter_for_the_rule_is_not_asked_for_another_one():
    plain = "v2-page1-topk1-mha"
    assert why_refused(reference(worker=ChainWorker), cell_named(plain)) is None
    assert why_refused(reference(worker=ReferenceWorker), cell_named(f"{plain}-block")) is None
    for rule in ("block", "target-draw"):
        refusal = why_refused(reference(worker=ChainWorker), cell_named(f"{plain}-{rule}"))
        assert refusal == Refusal("implementation", "the V2 worker of specsim.reference has no parameter acceptance")
