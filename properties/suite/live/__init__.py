"""The live page: exact tables of trees, schedules and shared noise, and the page whose script computes them anew."""
