"""Read events from files, and write results."""
