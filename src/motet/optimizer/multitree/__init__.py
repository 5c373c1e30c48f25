"""Multi-pattern trees: what is shared and in which order each pattern is joined, decided together by local search."""
