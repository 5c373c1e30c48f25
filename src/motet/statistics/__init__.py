"""Statistics of event data, from which plans are costed."""
