"""Sums, extremes and running sums along axes."""
