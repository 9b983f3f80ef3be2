"""The heads of the toy models."""
