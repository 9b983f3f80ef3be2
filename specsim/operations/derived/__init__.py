"""What follows from the tables: signatures, stubs, the documentation page."""
