"""Whole runs under any schedule: overlapped, in chunks, retracted, aborted, with a window."""
