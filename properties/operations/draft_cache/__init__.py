"""The draft cache: the slots that drafts write, and those that they read."""
