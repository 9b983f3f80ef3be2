"""Whom a mutant meets first, what the kills of a seed are, and how they are recorded."""

from pathlib import Path

from specsim.properties.mutants import all_mutants
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.hunt.cases import draw_cases, find_breaking
from specsim.properties.suite.hunt.hunt import Hunt, Kill, Options
from specsim.properties.suite.hunt.kills import Kills, Row, read_kills, updated, write_kills
from specsim.properties.suite.hunt.matrix import kill_matrix

KILLS = Path(__file__).with_name("kills.json")
MUTANTS = {mutant.id: mutant for mutant in all_mutants()}
PROPERTIES = {one.name: one for one in all_properties()}
LAW = "compact.bonus_is_the_last_output_token"
AGREEMENT = "agreement.fill_bonus_tokens"
REJECTION = "rejection.fill_bonus_tokens"
PV07 = MUTANTS["PV07"]


def hunt(known=(), is_complete=False, max_examples=20):
    chosen = [PROPERTIES[name] for name in (REJECTION, AGREEMENT, LAW)]
    return Hunt([PV07], chosen, Options(max_examples, is_complete, {"PV07": known}))


def test_a_mutant_meets_its_known_killers_first():
    assert [kill.property for kill in hunt().kills_of("PV07", 1)] == [AGREEMENT]
    assert [kill.property for kill in hunt(known=(LAW, AGREEMENT)).kills_of("PV07", 1)] == [LAW]


def test_a_mutant_that_its_known_killers_miss_meets_the_others():
    assert [kill.property for kill in hunt(known=(REJECTION, "gone.property")).kills_of("PV07", 1)] == [AGREEMENT]


def test_a_complete_hunt_shows_every_property():
    assert [kill.property for kill in hunt(is_complete=True).kills_of("PV07", 1)] == [AGREEMENT, LAW]


def test_a_kill_names_the_first_breaking_example_in_the_order_of_the_draws():
    hunting = hunt(known=(LAW,))
    (kill,) = hunting.kills_of("PV07", 1)
    cases = draw_cases(PROPERTIES[LAW], 1, 20)
    assert find_breaking(PROPERTIES[LAW], hunting.faulty("PV07"), cases) == kill.example - 1
    assert hunting.kills_of("PV07", 1) == (kill,)


def test_other_seeds_draw_other_cases():
    def never(backend, case):
        seen.append(case["num_accepted_tokens"].tolist())

    law = PROPERTIES[LAW]
    watched = Property("compact.watched", "", law.operations, law.strategy, never)
    drawn = []
    for seed in (1, 2, 1):
        seen = []
        Hunt([PV07], [watched], Options(6, False, {})).kills_of("PV07", seed)
        drawn.append(seen)
    assert drawn[0] == drawn[2] != drawn[1]


def test_the_victim_of_a_property_may_die_with_a_later_seed():
    def sees_the_largest_batch(backend, case):
        assert backend.name != "PV07" or len(case["num_accepted_tokens"]) < largest

    law = PROPERTIES[LAW]
    rare = Property("compact.rare", "", law.operations, law.strategy, sees_the_largest_batch)
    drawn = {seed: max(len(case["num_accepted_tokens"]) for case in draw_cases(rare, seed, 3)) for seed in range(9)}
    largest = max(drawn.values())
    smaller = min(drawn, key=drawn.__getitem__)
    hunting = Hunt([PV07], [rare], Options(3, False, {}))
    assert hunting.first_victim("compact.rare", [smaller]) is None
    mutant, seed, _ = hunting.first_victim("compact.rare", [smaller, *drawn])
    assert (mutant, drawn[seed]) == ("PV07", largest)


def test_processes_find_the_same_in_the_folder_of_a_stranger(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pickle.py").write_text("raise SystemExit(9)")
    chosen = [MUTANTS[name] for name in ("PV07", "CHECK-fill_bonus_tokens", "EMPTY-fill_bonus_tokens")]
    quick = [PROPERTIES[name] for name in (REJECTION, AGREEMENT, LAW, "empty.fill_bonus_tokens")]
    alone, together = (
        kill_matrix(seeds=[1, 2], max_examples=10, mutants=chosen, properties=quick, jobs=jobs) for jobs in (1, 2)
    )
    assert together == alone
    assert together.powerless == ()


QUICK = [PROPERTIES[name] for name in (LAW, AGREEMENT, REJECTION)]
RECORD = Kills(
    {"PV07": Row(2, (1, 4), (LAW, AGREEMENT)), "V16": Row(1, (None, 2), ("tree.x",))}, {"tree.x": "V16", LAW: "PV07"}
)


def test_a_record_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "kills.json"
    assert read_kills(path) == Kills()
    write_kills(RECORD, path)
    assert read_kills(path) == RECORD
    assert len(path.read_text().splitlines()) == 4 + len(RECORD.rows) + len(RECORD.victims)


def test_fresh_rows_take_the_place_of_theirs_and_keep_known_killers_after():
    found = {"PV07": ((Kill(AGREEMENT, 3), Kill(REJECTION, 2)), (Kill(AGREEMENT, 1),), ())}
    got = updated(RECORD, found, ["V01", "PV07", "V16"], QUICK)
    assert got == Kills(
        {"PV07": Row(2, (2, 1, None), (AGREEMENT, REJECTION, LAW)), "V16": Row(1, (None, 2), ())},
        {LAW: "PV07", AGREEMENT: "PV07", REJECTION: "PV07"},
    )


def test_the_victim_of_a_property_is_the_mutant_that_it_killed_with_most_seeds_or_with_the_first():
    found = {"V16": ((Kill(LAW, 2),),), "PV07": ((Kill(LAW, 4),), (Kill(LAW, 3),))}
    assert updated(RECORD, found, ["PV07", "V16"], QUICK).victims == {LAW: "PV07"}
    later = {"PV07": ((), (Kill(LAW, 1),)), "V16": ((Kill(LAW, 4),), ())}
    assert updated(RECORD, later, ["PV07", "V16"], QUICK).victims == {LAW: "V16"}


def test_a_property_meets_its_known_victim_first():
    chosen = [MUTANTS["PV02"], PV07]
    for victim in ("PV02", "PV07"):
        hunting = Hunt(chosen, [PROPERTIES[LAW]], Options(20, False, victims={LAW: victim}))
        assert hunting.first_victim(LAW, [1])[0] == victim


def test_killers_that_run_an_engine_come_last():
    slow = PROPERTIES["engine.output_equals_autoregressive_decoding"]
    found = {"PV07": ((Kill(slow.name, 1), Kill(LAW, 9)),)}
    assert updated(Kills(), found, ["PV07"], [slow, *QUICK]).rows["PV07"].killers == (LAW, slow.name)


def test_rows_of_mutants_that_are_gone_are_dropped():
    assert updated(RECORD, {}, ["PV07"], QUICK) == Kills({"PV07": RECORD.rows["PV07"]}, {LAW: "PV07"})


def test_the_record_of_the_project_names_what_exists():
    rows = read_kills(KILLS).rows
    killers = {killer for row in rows.values() for killer in row.killers}
    gone = [*(rows.keys() - MUTANTS.keys()), *(killers - PROPERTIES.keys())]
    assert gone == [], f"{gone} are gone; run: specsim mutants --record tests/properties/mutants/kills.json"
