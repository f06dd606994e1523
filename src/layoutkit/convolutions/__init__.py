"""Convolutions: the problem, its filter, the algorithms, and the routes made of them."""
