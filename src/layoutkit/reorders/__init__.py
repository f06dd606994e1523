"""Reorders: from two formats to pieces, loops, nests around a micro-kernel, and the candidates made of them."""
