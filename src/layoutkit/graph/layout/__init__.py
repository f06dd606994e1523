"""Which layout each tensor has: costs, and the assignment of the least."""
