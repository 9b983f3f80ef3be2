"""Schedules: how many drafts are verified, and by what that may be decided."""
