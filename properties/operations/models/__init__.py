"""The same for the operations of the toy models."""
