"""The Gloria optimizer: which queries share which transition, by which snapshots (Ma et al., SIGMOD 2023)."""
