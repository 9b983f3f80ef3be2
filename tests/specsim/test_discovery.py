"""Modules are found where they stand; the one list that is written by hand, the groups, has all of them."""

from pathlib import Path

import specsim
from specsim import validation
from specsim.discovery import modules_of, modules_that_say
from specsim.operations import ALL_GROUPS, GROUPS, MODEL_GROUPS, MODEL_TABLE, RECORDS, TABLE
from specsim.properties import mutants, strategies
from specsim.properties.host.rules import rows as rule_rows
from specsim.properties.shelves import SHELVES, modules_of_kind
from specsim.properties.suite.catalogue import all_properties

ROOT = Path(specsim.__file__).parent


def modules_with(constant, folder):
    """Return the names of the modules of a folder whose text assigns a constant."""
    return {
        path.stem for path in (ROOT / folder).glob("[!_]*.py") if f"\n{constant}" in path.read_text(encoding="utf-8")
    }


def test_every_module_with_records_is_a_group_of_its_table():
    assert set(GROUPS) == modules_with("OPERATIONS = ", "operations")
    assert set(MODEL_GROUPS) == modules_with("OPERATIONS = ", "operations/models")


def test_the_tables_are_in_the_order_of_the_groups_and_each_record_names_its_module():
    for table, groups in ((TABLE, GROUPS), (MODEL_TABLE, MODEL_GROUPS)):
        assert list(dict.fromkeys(record.group for record in table.values())) == list(groups)


def test_every_group_has_strategies():
    assert list(strategies.modules()) == list(ALL_GROUPS)


def test_every_structural_rule_is_found():
    written = {name for module in modules_of("specsim.validation").values() for name in vars(module).get("RULES", ())}
    assert validation.STRUCTURE.keys() == written <= RECORDS.keys()


def module_names(kind, constant):
    """Return the names of the modules of a kind on the shelves whose text assigns a constant."""
    return {
        ".".join(("specsim", *path.relative_to(ROOT).with_suffix("").parts))
        for shelf in SHELVES
        for path in (ROOT / "properties" / shelf).rglob(f"{kind}*.py")
        if f"\n{constant}" in path.read_text(encoding="utf-8")
    }


def test_every_law_module_and_every_mutant_module_is_found():
    laws = {one.law.__module__ for one in all_properties()}
    assert module_names("laws", "PROPERTIES") <= laws
    found = modules_of_kind("faults")
    of_modules = [mutant.id for module in found.values() for mutant in vars(module).get("MUTANTS", ())]
    assert sorted(mutant.id for mutant in mutants.all_mutants()) == sorted(of_modules)
    assert module_names("faults", "MUTANTS") <= found.keys()


def test_mutants_follow_the_pipeline_and_those_of_the_table_come_last():
    order = [mutant.operation for mutant in mutants.all_mutants() if "-" not in mutant.id]
    first = list(dict.fromkeys(RECORDS[name].group for name in order if name in RECORDS))
    assert first == sorted(first, key=ALL_GROUPS.index)
    kinds = [mutant.id.partition("-")[0] for mutant in mutants.all_mutants()]
    assert kinds[-1] == "ALIAS" and kinds.index("WRITE") > kinds.index("B03")


def test_every_row_of_the_rules_is_found():
    assert {row.section for row in rule_rows.ROWS} == set(rule_rows.SECTIONS)
    assert modules_with("ROWS", "properties/host/rules/rows") == {"common", "eagle", "others"}


def test_modules_are_taken_in_the_order_asked_for_and_those_that_are_not_there_are_left_out():
    assert list(modules_of("specsim.operations", ("verify", "draft", "absent"))) == ["verify", "draft"]
    assert "models" not in modules_of("specsim.reference"), "a package is no module"


def test_a_carrier_of_arrays_is_found_by_what_its_source_says():
    assert modules_that_say("KIND", "arrays") == {"numpy": "specsim.conformance.arrays", "torch": "specsim.gpu.arrays"}
    assert modules_that_say("NO_SUCH_CONSTANT", "arrays") == {}


def test_no_module_names_the_carrier_of_a_higher_one():
    folders = [ROOT, *(ROOT / layer for layer in ("reference", "gpu", "properties"))]
    texts = {path: path.read_text(encoding="utf-8") for folder in folders for path in folder.resolve().rglob("*.py")}
    assert len(texts) > 300
    named = [str(path) for path, text in texts.items() if '"specsim.gpu.arrays"' in text]
    assert not named, f"{named}: ask specsim.discovery.modules_that_say"
