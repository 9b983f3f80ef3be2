"""Moves inside of pools."""
