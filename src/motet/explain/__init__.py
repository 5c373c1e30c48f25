"""Plans made readable."""
