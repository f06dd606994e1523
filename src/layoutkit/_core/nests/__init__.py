"""Loop nests: blocking, packing and the shares of threads around micro-kernels, in Cython without the GIL."""
