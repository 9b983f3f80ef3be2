"""What follows the output of a request, and what a node forbids."""
