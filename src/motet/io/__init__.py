"""Events in, results out: the files that motet reads and writes."""
