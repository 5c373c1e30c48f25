"""Execute compiled programs over Arrow tables."""
