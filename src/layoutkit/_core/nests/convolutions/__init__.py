"""Convolutions: loop nests around tiles of products, rows and strips; routes, and the operations made of them."""
