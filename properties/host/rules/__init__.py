"""The rules: which worker runs a configuration."""
