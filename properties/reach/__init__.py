"""What runs meet: classes of sizes that a law has to reach, and how they are counted."""
