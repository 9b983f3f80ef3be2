"""Under limits a mutant lives only if what shows it is left out."""

import re
from pathlib import Path

from specsim.properties.mutants import all_mutants
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.hunt.hunt import Hunt, Options
from specsim.properties.suite.hunt.kills import read_kills
from specsim.properties.suite.hunt.limits import EVERY_LIMIT, read_unseen, updated, write_unseen

HERE = Path(__file__).parent
UNSEEN = read_unseen(HERE / "with_limits.json")
CHOSEN = ("STRIDE-fast_topk", "EMPTY-fast_topk", "WRITE-fast_topk", "B03", "OWN-01", "OWN-227")
GROUPS = ("agreement", "strided", "empty", "mutation", "tree", "draft", "probabilities")
QUICK = [one for one in all_properties() if not one.is_slow and one.name.partition(".")[0] in GROUPS]


def test_who_is_recorded_lives_and_all_others_die():
    mutants = [mutant for mutant in all_mutants() if mutant.id in CHOSEN]
    hunt = Hunt(mutants, QUICK, Options(20, False, read_kills(HERE / "kills.json").killers, limits=EVERY_LIMIT))
    assert [mutant.id for mutant in mutants if not hunt.kills_of(mutant.id, 1)] == [
        mutant.id for mutant in mutants if mutant.id in UNSEEN
    ]
    assert {"STRIDE-fast_topk", "EMPTY-fast_topk", "OWN-01", "OWN-227"} <= UNSEEN


def test_every_recorded_mutant_is_there_and_the_page_says_which_limit_hides_it():
    assert {mutant.id for mutant in all_mutants()} >= UNSEEN
    page = (Path(__file__).parents[3] / "docs" / "mutants.md").read_text(encoding="utf-8")
    reported = page[page.index("## Under limits") : page.index("## With how many seeds")]
    named = {name.strip("`") for name in re.findall(r"`[A-Z]+[0-9-]+`", reported)}
    assert named == {name for name in UNSEEN if not name.startswith(("STRIDE-", "EMPTY-"))}


def test_a_record_keeps_who_was_not_shown(tmp_path):
    fresh = updated(frozenset({"A", "B", "GONE"}), ["B", "C"], ["C"], ["A", "B", "C"])
    assert fresh == {"A", "C"}
    write_unseen(fresh, tmp_path / "record.json")
    assert read_unseen(tmp_path / "record.json") == fresh
