"""How many threads a parallel region may have, see team.h; every region of ours asks.

How many it should have is decided before: of a problem that is planned when it is planned, of the others by
`threads_for`.

In the child of a fork it is one, because an OpenMP runtime does not survive a fork: its threads stay in the parent, and
a child that asks for a team waits for them for ever.
"""

cimport openmp

import os
import re

from .process cimport forks

cdef extern from "team.h" nogil:
    int lk_team(int wanted, size_t stack)
    int lk_team_refused
    int lk_team_size

_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def stack_of(*texts):
    """The size in bytes that the first valid one of `texts` gives to OpenMP's stacks, such as ``"16M"``; 0: the
    default."""
    for text in texts:
        match = re.fullmatch(r"\s*([0-9]{1,12})\s*([bkmgBKMG]?)\s*", text or "")
        if match:
            return int(match[1]) * _UNITS[(match[2] or "K").upper()]
    return 0


cdef size_t stack = stack_of(os.environ.get("OMP_STACKSIZE"), os.environ.get("GOMP_STACKSIZE"))


cdef int team(int wanted) noexcept nogil:
    return 1 if forks() else lk_team(wanted, stack)


def granted(int wanted):
    """The number of threads that a region of the calling thread gets if it wants `wanted`."""
    return team(wanted)


def refused():
    """The smallest number of threads that the system has refused so far; 0: none."""
    return lk_team_refused


def led():
    """How many threads the calling thread's last region of several had; 1: it has led none."""
    return lk_team_size


def allowed(int most):
    """How many threads a call may use: as many as OpenMP allows, at most `most`; in the child of a fork one."""
    return 1 if forks() else min(openmp.omp_get_max_threads(), most)
