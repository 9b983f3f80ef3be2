"""What runs the suite against an implementation, and explains what it found."""
