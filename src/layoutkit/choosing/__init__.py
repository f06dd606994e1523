"""Choosing by measured cost: what the machine is, measuring, the table's text, the model for what it lacks."""
