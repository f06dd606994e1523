"""The contracts as Cython is told them are those of the headers."""

import re

import pytest
from harness import BODIES, KERNELS, declared

CYTHON = "\n".join(path.read_text() for path in sorted(KERNELS.glob("**/__init__.pxd")))
STRUCTURES = dict(re.findall(r"ctypedef struct (\w+):\n((?:        .*\n)+)", CYTHON))


@pytest.mark.parametrize("name", STRUCTURES)
def test_fields_are_those_of_the_header(name):
    assert set(declared(STRUCTURES[name].splitlines())) <= set(declared(BODIES[name].split(";")))
