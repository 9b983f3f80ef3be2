"""The predicates as a table, the workers that algorithms create, and the registry."""

from dataclasses import fields

import pytest

from specsim.algorithms import (
    PLUGINS,
    CustomSpecAlgo,
    Flags,
    Predicates,
    SpecInputType,
    SpeculativeAlgorithm,
    WorkerRequest,
    missing_predicates,
    register,
    reserved_names,
    restored_registry,
    target_verify_width,
)
from specsim.properties.host.algorithms.strategy import PREDICATES
from specsim.rejection import Reason, SpecRejection

TRUE_FOR = {
    "is_none": "NONE",
    "is_speculative": "DFLASH EAGLE EAGLE3 FROZEN_KV_MTP STANDALONE NGRAM",
    "is_some": "DFLASH EAGLE EAGLE3 FROZEN_KV_MTP STANDALONE NGRAM",
    "is_eagle": "EAGLE EAGLE3 FROZEN_KV_MTP",
    "is_eagle3": "EAGLE3",
    "is_frozen_kv_mtp": "FROZEN_KV_MTP",
    "is_dflash": "DFLASH",
    "is_standalone": "STANDALONE",
    "is_ngram": "NGRAM",
    "supports_spec_v2": "EAGLE EAGLE3 STANDALONE",
    "supports_target_verify_for_draft": "DFLASH",
}
V1 = WorkerRequest("v1", is_overlapped=False)
V2 = WorkerRequest("v2", is_overlapped=True)
LAYERS = WorkerRequest("v2", is_overlapped=True, is_multi_layer=True)
FACTORIES = {
    name: (lambda request, name=name: name)
    for name in (
        *("dflash", "frozen_kv_mtp", "ngram", "eagle_v1", "eagle_v2", "standalone_v1", "standalone_v2"),
        *("multi_layer_eagle_v1", "multi_layer_eagle_v2"),
    )
}


@pytest.fixture(autouse=True)
def registry():
    with restored_registry():
        yield


def rejected(reason, function, *arguments, **options):
    with pytest.raises(SpecRejection) as caught:
        function(*arguments, **options)
    assert caught.value.reason is reason
    return caught.value


def test_members():
    names = ["DFLASH", "EAGLE", "EAGLE3", "FROZEN_KV_MTP", "STANDALONE", "NGRAM", "NONE"]
    assert [member.name for member in SpeculativeAlgorithm] == names


@pytest.mark.parametrize("predicate", TRUE_FOR)
def test_predicates_of_members(predicate):
    got = [member.name for member in SpeculativeAlgorithm if getattr(member, predicate)()]
    assert sorted(got) == sorted(TRUE_FOR[predicate].split())


def test_the_table_holds_every_predicate():
    assert TRUE_FOR.keys() == set(PREDICATES)
    assert missing_predicates(object) == tuple(sorted(PREDICATES))
    assert missing_predicates(CustomSpecAlgo) == ()


@pytest.mark.parametrize(("supports_overlap", "true"), [(False, set()), (True, {"supports_spec_v2"})])
def test_predicates_of_a_plugin(supports_overlap, true):
    plugin = CustomSpecAlgo("MINE", lambda request: None, supports_overlap)
    assert {name for name in PREDICATES if getattr(plugin, name)()} == {"is_speculative", "is_some"} | true


@pytest.mark.parametrize("flag", [field.name for field in fields(Flags)])
def test_a_predicate_reads_its_own_flag(flag):
    """One flag makes one predicate true, for a plug-in as for a member; ``is_none`` makes two others false besides."""
    plugin = CustomSpecAlgo("MINE", str, flags=Flags(**{flag: True}))
    assert {name for name in PREDICATES if getattr(plugin, name)()} - {"is_speculative", "is_some"} == {flag}
    assert plugin.is_speculative() == plugin.is_some() == (flag != "is_none")
    for member in SpeculativeAlgorithm:
        assert getattr(member, flag)() == getattr(member.flags, flag)


def test_predicates_are_written_once():
    """Neither the enum nor a plug-in has a predicate of its own: each stands beside the row that it reads."""
    for algorithm in (SpeculativeAlgorithm, CustomSpecAlgo):
        assert not vars(algorithm).keys() & set(PREDICATES)
    assert {name for name in vars(Predicates) if name.startswith(("is_", "supports_"))} == set(PREDICATES)


def test_a_plugin_is_registered_with_its_row():
    register("mine", flags=Flags(is_ngram=True))(str)
    register("overlapped", supports_overlap=True, flags=Flags(is_ngram=True))(str)
    assert PLUGINS["MINE"].flags == Flags(is_ngram=True)
    assert PLUGINS["OVERLAPPED"].flags == Flags(is_ngram=True, supports_spec_v2=True)


def test_a_member_is_its_name():
    assert SpeculativeAlgorithm("EAGLE") is SpeculativeAlgorithm.EAGLE
    assert (str(SpeculativeAlgorithm.EAGLE), SpeculativeAlgorithm.EAGLE.value) == ("EAGLE", "EAGLE")


def test_names():
    assert SpeculativeAlgorithm.from_string(None) is SpeculativeAlgorithm.NONE
    assert SpeculativeAlgorithm.from_string("Frozen_KV_mtp") is SpeculativeAlgorithm.FROZEN_KV_MTP
    assert "'NEXTN'" in str(rejected(Reason.UNKNOWN_NAME, SpeculativeAlgorithm.from_string, "NEXTN"))


@pytest.mark.parametrize(
    ("name", "request_", "worker"),
    [
        ("EAGLE", V1, "eagle_v1"),
        ("EAGLE3", V2, "eagle_v2"),
        ("EAGLE", LAYERS, "multi_layer_eagle_v2"),
        ("STANDALONE", V1, "standalone_v1"),
        ("STANDALONE", LAYERS, "standalone_v2"),
        ("FROZEN_KV_MTP", WorkerRequest("v1", False, is_multi_layer=True), "frozen_kv_mtp"),
        ("DFLASH", V1, "dflash"),
        ("NGRAM", V1, "ngram"),
    ],
)
def test_workers(name, request_, worker):
    assert SpeculativeAlgorithm[name].create_worker(request_, FACTORIES) == worker


@pytest.mark.parametrize("name", ["DFLASH", "FROZEN_KV_MTP", "NGRAM"])
def test_no_overlapped_worker(name):
    rejected(Reason.BAD_CONFIGURATION, SpeculativeAlgorithm[name].create_worker, V2, FACTORIES)


def test_none_has_no_worker():
    with pytest.raises(AssertionError, match="algorithm = NONE"):
        SpeculativeAlgorithm.NONE.create_worker(V1, FACTORIES)


def test_v2_of_an_algorithm_that_nothing_overlaps_has_a_name_of_its_own():
    assert SpeculativeAlgorithm.NGRAM.worker_name(WorkerRequest("v2", is_overlapped=False)) == "ngram_v2"


def test_a_missing_factory_is_named():
    with pytest.raises(SpecRejection, match="UNKNOWN_NAME: worker is eagle_v2, but should be one of \\['ngram'\\]"):
        SpeculativeAlgorithm.EAGLE.create_worker(V2, {"ngram": FACTORIES["ngram"]})


def test_a_plugin_creates_its_own_worker():
    plugin = CustomSpecAlgo("MINE", lambda request: request.version)
    assert plugin.create_worker(V1) == "v1"
    rejected(Reason.BAD_CONFIGURATION, plugin.create_worker, V2)
    assert CustomSpecAlgo("MINE", lambda request: request.version, True).create_worker(V2, FACTORIES) == "v2"


def test_registration_returns_the_factory_and_stores_when_it_decorates():
    decorate = register("mine", supports_overlap=True)
    assert "MINE" not in PLUGINS
    factory = decorate(str)
    assert factory is str
    assert SpeculativeAlgorithm.from_string("Mine") == CustomSpecAlgo("MINE", str, True)


@pytest.mark.parametrize("name", ["dflash", "EAGLE", "Eagle3", "FROZEN_KV_MTP", "standalone", "NGRAM", "none", "nextn"])
def test_reserved_names(name):
    assert name.upper() in reserved_names()
    rejected(Reason.RESERVED_NAME, register, name, spec_class=object)


def test_duplicate_names():
    first, second = register("mine"), register("MINE")
    first(str)
    rejected(Reason.DUPLICATE_NAME, register, "Mine", spec_class=object)
    rejected(Reason.DUPLICATE_NAME, second, str)
    assert PLUGINS["MINE"].factory is str


def test_a_class_that_does_not_conform():
    class Half:
        def is_none(self):
            return False

    with pytest.raises(TypeError) as caught:
        register("mine", spec_class=Half)
    assert str(caught.value) == (
        "Half lacks is_dflash, is_eagle, is_eagle3, is_frozen_kv_mtp, is_ngram, is_some, is_speculative, "
        "is_standalone, supports_spec_v2, supports_target_verify_for_draft, but should have every predicate"
    )
    assert "MINE" not in PLUGINS


@pytest.mark.parametrize("predicate", PREDICATES)
def test_each_predicate_is_asked_for(predicate):
    present = {name: lambda self: False for name in PREDICATES if name != predicate}
    with pytest.raises(TypeError, match=f"Nearly lacks {predicate}, but"):
        register("mine", spec_class=type("Nearly", (), present))


def test_the_registry_is_restored():
    with restored_registry():
        register("mine")(str)
        assert "MINE" in PLUGINS
    assert "MINE" not in PLUGINS


def test_tokens_of_a_target_verify():
    assert target_verify_width(SpeculativeAlgorithm.EAGLE, 8, is_draft_worker=False) == 8
    assert target_verify_width(SpeculativeAlgorithm.DFLASH, 8, is_draft_worker=True) == 8
    with pytest.raises(RuntimeError, match="EAGLE draft worker runs a target verify"):
        target_verify_width(SpeculativeAlgorithm.EAGLE, 8, is_draft_worker=True)
    with pytest.raises(RuntimeError, match="MINE draft worker"):
        target_verify_width(CustomSpecAlgo("MINE", str), 8, is_draft_worker=True)


def test_inputs_belong_to_one_phase():
    drafts = {"EAGLE_DRAFT", "EAGLE_DRAFT_EXTEND", "FROZEN_KV_MTP_DRAFT", "FROZEN_KV_MTP_DRAFT_EXTEND", "DFLASH_DRAFT"}
    verifies = {"EAGLE_VERIFY", "FROZEN_KV_MTP_VERIFY", "DFLASH_VERIFY", "NGRAM_VERIFY"}
    assert {kind.name for kind in SpecInputType if kind.is_draft_input()} == drafts
    assert {kind.name for kind in SpecInputType if kind.is_verify_input()} == verifies
    assert len(SpecInputType) == 9
