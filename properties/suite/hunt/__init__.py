"""The hunt: mutants are shown to properties, and who kills whom is recorded."""
