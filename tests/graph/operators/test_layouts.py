"""The layouts that tensors of a graph may have."""

import numpy as np
import pytest
from conftest import using_isa

from layoutkit._core.runtime import registry
from layoutkit.formats.layout import Layout
from layoutkit.graph.ir import Node
from layoutkit.graph.layout.kinds import pairs_of
from layoutkit.graph.operators import Known, StoredType
from layoutkit.graph.operators.layouts import BLOCKED, LAST, PLAIN, layouts_of, physical_shape

F32 = np.dtype(np.float32)
TILES = [isa for isa in registry.isas() + registry.isas(emulated=True) if "amx" in isa]  # there is always one
BF16, BYTES = StoredType("bfloat16"), StoredType("uint8", 0.1, 3)


@pytest.mark.parametrize("isa", TILES)
@pytest.mark.parametrize("stored, block", [(None, 16), (StoredType("float16"), 16), (BF16, 32), (BYTES, 64),
                                           (StoredType("int8", 0.1), 64)])  # fmt: skip
def test_blocks_are_whole_cache_lines_where_a_tile_unit_multiplies(isa, stored, block):
    with using_isa(isa):
        x = Known(F32, (2, 40, 5, 6), stored=stored)
        assert layouts_of(x) == (Layout("NCHW"), Layout("NHWC"), Layout(f"nChw{block}c"))
        assert physical_shape(x, BLOCKED) == (2, -(-40 // block), 5, 6, block)
        line = Known(F32, (2, 40, 5), stored=stored)
        assert layouts_of(line)[BLOCKED] == Layout(f"nCw{block}c")


@pytest.mark.parametrize("isa", TILES)
def test_a_node_runs_in_blocks_that_its_tensors_share(isa):
    shape, filters = (1, 64, 5, 6), np.ones((64, 64, 1, 1), np.float32)
    known = {name: Known(F32, shape, stored=stored) for name, stored in (("x", BF16), ("r", None), ("y", BF16))}
    known["w"] = Known(F32, filters.shape, filters)
    both = [(PLAIN, PLAIN), (LAST, LAST)]
    with using_isa(isa):
        assert pairs_of(Node("Relu", ("x",), ("y",)), known) == [*both, (BLOCKED, BLOCKED)]
        assert pairs_of(Node("Add", ("x", "r"), ("y",)), known) == both
        assert pairs_of(Node("Conv", ("r", "w"), ("y",)), known) == [
            *both,
            (BLOCKED, BLOCKED),
        ]  # of blocks of two sizes
        assert pairs_of(Node("Conv", ("x", "w", "", "r"), ("y",)), known) == both
