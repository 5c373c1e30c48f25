"""The detection engine: finds the matches themselves, by shared join trees over columns of instances."""
