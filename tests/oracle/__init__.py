"""What operations and networks compute, slow and short: what tests and campaigns hold layoutkit against."""
