"""Calls with one fault, beside the well-formed ones."""
