"""One machine over a whole engine: what can be done to it, what must hold after each step, and many of them in turn."""
