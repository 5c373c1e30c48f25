"""One module for each family of experiments; what a module lists as EXPERIMENTS, `motet bench` runs."""
