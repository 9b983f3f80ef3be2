"""Every property of the suite: those that the table generates, and the laws."""

from collections import Counter
from collections.abc import Mapping
from functools import cache

from specsim.properties.operations.generated.agreement import agreement_properties
from specsim.properties.operations.generated.anything import anything_properties
from specsim.properties.operations.generated.given import given_properties
from specsim.properties.operations.generated.poison import poison_properties
from specsim.properties.operations.generated.rejections import rejection_properties
from specsim.properties.property import Property
from specsim.properties.shelves import modules_of_kind

GENERATED = ("agreement", "strided", "mutation", "empty", "poison", "rejection", "anything", "apart", "given")
"""Groups of the properties that every operation has."""

OF_ITS_OWN_RULES = frozenset(["rejection", "anything", "apart"])
"""Those that ask more than an engine promises: only who raises ``SpecRejection`` for bad input is checked."""


@cache
def all_properties() -> tuple[Property, ...]:
    """Return every property, the generated ones first.

    Raises
    ------
    ValueError
        Two properties share a name.
    """
    properties = [*agreement_properties(), *poison_properties(), *rejection_properties(), *anything_properties()]
    properties += given_properties()
    for module in modules_of_kind("laws").values():
        properties += vars(module).get("PROPERTIES", ())
    for name, count in Counter(one.name for one in properties).items():
        if count > 1:
            raise ValueError(f"{name} = {count} properties, but should be one, because names select them")
    return tuple(properties)


@cache
def properties_by_name() -> Mapping[str, Property]:
    """Return every property by its name, in the same order."""
    return {one.name: one for one in all_properties()}


def property_named(name: str) -> Property:
    """Return a property of the suite.

    Raises
    ------
    KeyError
        None is called so.
    """
    return properties_by_name()[name]


def group_of(one: Property) -> str:
    """Return the first part of a property's name."""
    return one.name.partition(".")[0]
