"""Every property of the suite: those that the table generates, and the laws."""

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from specsim.properties import laws
from specsim.properties.generated.agreement import agreement_properties
from specsim.properties.generated.poison import poison_properties
from specsim.properties.generated.rejections import rejection_properties
from specsim.properties.property import Property

GENERATED = ("agreement", "strided", "mutation", "empty", "poison", "rejection")
"""Groups of the properties that every operation has."""


@cache
def all_properties() -> tuple[Property, ...]:
    """Return every property, the generated ones first.

    Raises
    ------
    ValueError
        Two properties share a name.
    """
    properties = [*agreement_properties(), *poison_properties(), *rejection_properties()]
    for module in _law_modules():
        properties += vars(module).get("PROPERTIES", ())
    names = [one.name for one in properties]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} = {names.count(name)} properties, but should be one, because names select them")
    return tuple(properties)


def group_of(one: Property) -> str:
    """Return the first part of a property's name."""
    return one.name.partition(".")[0]


def _law_modules() -> list[ModuleType]:
    found = pkgutil.iter_modules(laws.__path__, f"{laws.__name__}.")
    return [importlib.import_module(module.name) for module in found]
