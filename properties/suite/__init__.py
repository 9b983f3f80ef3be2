"""The suite: the catalogue of properties, what runs them, and what hunts faults with them."""
