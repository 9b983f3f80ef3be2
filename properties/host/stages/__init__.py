"""Pipeline stages, which hear of what was decided late."""
