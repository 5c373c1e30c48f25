"""What runs together and how: units of queries, their strategies, and the machines kernels execute."""
