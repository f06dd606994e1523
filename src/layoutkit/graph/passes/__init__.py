"""Graphs rewritten: folded, quantised, narrowed."""
