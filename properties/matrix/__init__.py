"""Engines in every combination of worker, pages, trees, pools and schedules, in as few cells as it takes."""
