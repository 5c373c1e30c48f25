"""Experiments of the papers and of motet itself, each run by one command: `motet bench` in a checkout."""
