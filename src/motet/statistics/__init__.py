"""Facts about event data that plans are costed with."""
