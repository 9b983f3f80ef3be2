"""The forwards of the toy models: what they write, see and carry on."""
