"""Every row of F, and what plug-ins may do."""

from collections import Counter
from dataclasses import fields, replace

import pytest

from specsim.algorithms import CustomSpecAlgo, SpeculativeAlgorithm, register, restored_registry
from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.properties.host.rules.rows import ROWS, SECTIONS, require_row
from specsim.properties.host.rules.rows.record import settled, tree
from specsim.rejection import Reason, SpecRejection
from specsim.rules import Code, Decision, Level, ServerConfig, resolve

REFERENCE = load("specsim.reference")


@pytest.fixture(autouse=True)
def registry():
    with restored_registry():
        yield


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section} {row.trigger}")
def test_row(row):
    require_row(REFERENCE, row)


def test_triggers_are_distinct_and_every_section_has_some():
    assert [name for name, count in Counter(row.trigger for row in ROWS).items() if count > 1] == []
    assert SECTIONS == ("F.1", "F.2", "F.3", "F.4", "F.5", "F.6")


def test_every_decision_has_a_row():
    said = {code for row in ROWS for code, _ in row.says}
    assert set(Code) - said == {Code.PLUGIN_ADJUSTED}


def test_every_code_is_one_sentence_and_distinct():
    assert all(code.sentence.endswith(".") and code.sentence.count(".") == 1 for code in Code)
    assert len({code.sentence for code in Code}) == len(Code)
    assert Code("v2-chosen") is Code.V2_CHOSEN


def test_sizes_alone_make_a_configuration():
    plan = resolve(ServerConfig(algorithm="EAGLE", topk=2, num_steps=3, num_draft_tokens=6, page_size=16))
    assert (plan.worker, plan.sizes, plan.is_overlapped) == ("v1", SpecConfig(2, 3, 6), False)
    assert plan.fallback == Decision(
        Code.PAGED_TREE,
        "Trees on larger pages run on V2 only if asked for: V1 without overlap. Here topk is 2 and the page size 16.",
        Level.WARNING,
        ("disable_overlap",),
    )
    assert [decision.code for decision in plan.warnings] == [Code.MAX_RUNNING_REQUESTS, Code.PAGED_TREE]


def test_a_plan_without_fallback():
    plan = resolve(tree())
    assert (plan.worker, plan.fallback, plan.warnings, plan.is_overlapped) == ("v2", None, (), True)


def test_a_refusal_says_what_to_change():
    with pytest.raises(SpecRejection) as caught:
        resolve(tree(mode="v2", page_size=64, attention_backend="aiter"))
    assert str(caught.value) == (
        "BAD_CONFIGURATION: attention_backend is aiter, but should be one of flashinfer, fa3, triton, or page size 1, "
        "or topk 1, because it cannot read a tree of topk 2 out of pages of 64"
    )


def test_only_checked_sizes_are_sizes_of_a_tree():
    assert resolve(settled("NGRAM")).sizes is None
    assert resolve(settled(None)).sizes is None


def test_the_request_for_a_worker():
    plan = resolve(tree(multi_layer=True))
    request = plan.worker_request
    assert (request.version, request.is_overlapped, request.is_multi_layer) == ("v2", True, True)
    assert SpeculativeAlgorithm.EAGLE.worker_name(request) == "multi_layer_eagle_v2"
    with pytest.raises(AssertionError, match="worker = None"):
        _ = resolve(settled(None)).worker_request


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.refused is None and row.worker], ids=lambda row: row.trigger
)
def test_every_plan_can_create_its_worker(row):
    plan = resolve(row.config)
    algorithm = SpeculativeAlgorithm.from_string(plan.config.algorithm)
    assert algorithm.worker_name(plan.worker_request)


def test_a_plugin_that_supports_overlap_runs_on_v2():
    register("mine", supports_overlap=True)(object)
    assert resolve(ServerConfig("mine", draft_moe_runner_backend="auto")).decisions == (
        Decision(
            Code.NAME_IN_CAPITALS,
            "The algorithm's name was written in capitals. mine is MINE.",
            Level.INFO,
            ("algorithm",),
        ),
        Decision(Code.V2_CHOSEN, "V2 can run the configuration."),
    )
    assert resolve(ServerConfig("MINE", disable_overlap=True)).worker == "v1"
    assert resolve(ServerConfig("MINE", mode="v2")).worker == "v2"


def test_a_plugin_without_overlap_asks_for_it_to_be_off():
    register("mine")(object)
    with pytest.raises(SpecRejection) as caught:
        resolve(ServerConfig("MINE"))
    assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, "disable_overlap")
    assert resolve(ServerConfig("MINE", disable_overlap=True)).worker == "v1"
    assert resolve(ServerConfig("MINE", mode="v1")).worker == "v1"
    with pytest.raises(SpecRejection) as caught:
        resolve(ServerConfig("MINE", mode="v2"))
    assert caught.value.what == "mode"


def test_no_rule_of_a_family_applies_to_a_plugin():
    register("mine", supports_overlap=True)(object)
    config = ServerConfig("MINE", topk=9, page_size=64, mixed_chunk=True, draft_moe_runner_backend="auto")
    assert resolve(config).config == config


def test_a_validator_adjusts_or_refuses():
    def validate(config):
        if config.dp_attention:
            raise ValueError("no")
        return replace(config, topk=3)

    register("mine", supports_overlap=True, validate_server_args=validate)(object)
    plan = resolve(ServerConfig("MINE"))
    assert plan.config.topk == 3
    (adjusted,) = (decision for decision in plan.decisions if decision.code is Code.PLUGIN_ADJUSTED)
    assert adjusted.changed == ("topk",)
    assert resolve(plan.config).config == plan.config
    with pytest.raises(ValueError, match="no"):
        resolve(ServerConfig("MINE", dp_attention=True))


def test_a_validator_runs_before_the_synchronisation_of_ranks_is_checked():
    seen = []
    register("mine", validate_server_args=seen.append)(object)
    config = ServerConfig("MINE", skip_dp_mlp_sync=True, draft_moe_runner_backend="auto")
    with pytest.raises(SpecRejection) as caught:
        resolve(config)
    assert (caught.value.what, seen) == ("skip_dp_mlp_sync", [config])


def test_a_validator_that_returns_anything_else_is_refused():
    register("mine", validate_server_args=lambda config: {"topk": 3})(object)
    with pytest.raises(SpecRejection) as caught:
        resolve(ServerConfig("MINE", disable_overlap=True))
    assert (caught.value.what, caught.value.got) == ("validate_server_args", "dict")


def test_a_plugin_with_predicates_of_its_own():
    class Overlapped(CustomSpecAlgo):
        def supports_spec_v2(self):
            return True

    register("mine", spec_class=Overlapped)(object)
    assert resolve(ServerConfig("MINE")).worker == "v2"


def test_every_setting_is_documented():
    documented = ServerConfig.__doc__
    assert [entry.name for entry in fields(ServerConfig) if entry.name not in documented] == []
