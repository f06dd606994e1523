"""``python -m layoutkit.bench``: suites of problems, measuring them, reports."""
