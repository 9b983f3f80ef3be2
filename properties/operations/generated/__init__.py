"""Properties that the table generates for every operation."""
