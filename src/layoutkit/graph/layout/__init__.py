"""Which layout each tensor gets: costs, and the assignment that costs the least."""
