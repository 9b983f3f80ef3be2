"""Imports the whole suite, for a process that workers are forked from."""

from specsim.properties.suite.catalogue import all_properties

NUM_PROPERTIES = len(all_properties())
