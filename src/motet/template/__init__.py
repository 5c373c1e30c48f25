"""From patterns to automata: symbols, positions, conditions by kind, and the counting automaton of a query."""
