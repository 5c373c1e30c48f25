"""What is measured beside motet and is no part of it."""
