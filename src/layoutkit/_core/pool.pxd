cdef class Pool:
    cdef readonly object bound
    cdef dict free      # by identity, in the order in which they came back
    cdef list small     # workspaces
    cdef object lend(self, size)
    cdef object take_back(self, array)
    cdef found(self, need)
    cdef new(self, size)
    cdef mapped(self, size)
    cdef give(self, block)
