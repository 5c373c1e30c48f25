"""Motet on Spark: the only part that knows pyspark."""
