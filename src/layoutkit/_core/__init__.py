"""The compiled half: register tiles in C, everything around them in Cython."""
