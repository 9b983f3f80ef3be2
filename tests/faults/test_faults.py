"""The short form of the attacks; ``make faults`` runs all of them."""

import signal

from tests.faults import attack_documents, attack_interrupts, attack_modules
from tests.faults.hostile_modules import HOSTILE

BY_NAME = {one.name: (number, one) for number, one in enumerate(HOSTILE)}


def test_mutated_documents_are_read_or_refused():
    came, mishandled = attack_documents.attack(300, seed=2)
    assert not mishandled, mishandled[:3]
    assert came["refused"] > 100


def test_a_hostile_module_is_named_and_leaves_nothing():
    assert len(HOSTILE) == len(BY_NAME) >= 140
    _, _, wrong = attack_modules.try_one(*BY_NAME["writes a pickle to descriptors in a call"])
    assert wrong == []


def test_a_command_that_is_terminated_says_so_and_leaves_no_one(monkeypatch):
    monkeypatch.setattr(attack_interrupts, "SLOWNESS", 5.0)
    was, wrong = attack_interrupts.try_one(attack_interrupts.COMMANDS["mutants"], signal.SIGTERM, 0.4)
    assert (was, wrong) == ("running", [])
