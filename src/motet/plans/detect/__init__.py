"""Plans of the detection engine: queries read as items, and join trees over them as a graph of shared nodes."""
