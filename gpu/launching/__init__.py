"""From a checked call to a launch: buffers, pointers, block sizes, switches, ahead-of-time compilation."""
