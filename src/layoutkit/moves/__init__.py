"""Planning a reorder: from two formats to pieces, loops, nests around a leaf, and the candidates made of them."""
