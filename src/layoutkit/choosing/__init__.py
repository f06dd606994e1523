"""Choosing by measured cost, whatever the operation: the machine, measuring, the table, the model for what it lacks."""
