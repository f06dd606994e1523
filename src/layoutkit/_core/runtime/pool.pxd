cdef class Pool:
    cdef readonly object bound
    cdef dict free      # by identity, in the order in which they came back
    cdef list small     # workspaces
    cdef int most_small # how many of them are kept
    cdef set_bound(self, bound)
    cdef object lend(self, size_t size)
    cdef object take_back(self, array)
    cdef free_block(self, need)
    cdef new(self, size)
    cdef mapped(self, size)
    cdef give(self, block)
