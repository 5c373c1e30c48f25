"""Run workloads on Spark: the only package that imports pyspark."""
