"""Recurrent states: which are kept after a verify."""
