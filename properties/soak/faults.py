"""Faults of whole engines that the machine has to find: mutants of the catalogue, and which machines show them."""

from dataclasses import dataclass

from specsim.properties.mutants import Mutant, all_mutants
from specsim.properties.soak.drawing import DrawSetup, draw_brief_texts, draw_recurrent, draw_setup
from specsim.properties.soak.subject import REFERENCE, Subject


@dataclass(frozen=True)
class Fault:
    """A mutant by its id, and machines that it shows in often."""

    mutant: str
    draw: DrawSetup = draw_setup

    def plant(self) -> Subject:
        """Return the reference with the fault."""
        return Subject(self.record.plant(REFERENCE))

    @property
    def record(self) -> Mutant:
        """The mutant."""
        (found,) = (mutant for mutant in all_mutants() if mutant.id == self.mutant)
        return found


FAULTS = (
    # who schedules, or the loop of a worker
    *map(Fault, ("OWN-1190", "OWN-1191", "OWN-1192", "OWN-1193", "OWN-1194")),
    # late results, and the order of what is queued
    *map(Fault, ("S11", "OWN-603", "OWN-610")),
    Fault("S19", draw_brief_texts),
    # batches that requests join and leave
    *map(Fault, ("OWN-207", "S03")),
    # recurrent state of another step, and of another owner
    Fault("OWN-1420", draw_recurrent),
    Fault("OWN-1427", draw_recurrent),
)
