"""The algorithms of convolution."""
