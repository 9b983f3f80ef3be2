"""The parts of an engine, by their names, from wherever the catalogue says that they stand."""

from specsim.conformance.catalogue import CATALOGUE, Kind, names_of

globals().update({name: CATALOGUE[name].on_host for name in names_of(Kind.PART)})
