"""Implementations that are commands, called over their stdin and stdout in frames."""
