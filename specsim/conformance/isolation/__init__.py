"""Work in processes that may die: a supervisor, workers that are forked from a warm process, and signs of life."""
