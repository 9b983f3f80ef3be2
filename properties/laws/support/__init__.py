"""What several laws share: scenes, exact distributions, frequencies, histories of engines."""
