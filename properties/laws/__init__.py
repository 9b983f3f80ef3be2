"""Laws: facts that hold of any implementation, stated without the reference."""
