"""The registry: what rows state, and how they are looked up."""

import pytest
from conftest import using_isa

from layoutkit._core.runtime import machine, registry
from layoutkit.choosing import limits

VECTOR_BYTES = {"portable": 16, "avx2": 32, "avx512": 64}  # of a set that begins so


@pytest.mark.parametrize("kernel", registry.kernels(all_isas=True), ids=lambda k: k.name)
def test_lanes_are_the_elements_of_a_vector(kernel):
    of_their_own = "fold", "rank", "weigh", "sample", "divide"
    if kernel.types[0] == "x" or kernel.types in ("f32", "f64") or kernel.family in of_their_own:
        assert kernel.kr == 1
        bits = int(kernel.types[1:])
    else:  # narrow numbers, in lanes of 32 bits
        units = {"bf16": 2, "bf16x2": 2, "bf16x3": 2, "s16": 2, "u8s8": 4}
        products = ("gemm", "gemm_s16", "gemm_groups", "peak", "depthwise_dot")
        multiplies = kernel.family in products or kernel.family.startswith("winograd")
        assert kernel.kr == (units[kernel.types.removesuffix("_tiles")] if multiplies else 1)
        bits = 32
    assert kernel.lanes == 8 * VECTOR_BYTES[kernel.isa.split("_")[0]] // bits


def test_the_best_rows_are_those_of_the_set_in_use():
    for isa in registry.isas():
        with using_isa(isa):
            assert {k.isa for k in registry.best("gemm", "f32")} == {isa.partition("_")[0]}


def test_a_row_that_is_not_there():
    with pytest.raises(ValueError, match="no gemm kernel for f16; there are bf16, bf16x2, bf16x3, f32, f64, u8s8"):
        registry.best("gemm", "f16")
    with pytest.raises(ValueError, match="no peak kernel for s8; there are bf16, bf16_tiles, f32, f64, s16, u8s8"):
        machine.fma_peak(1, 1000, "s8")


def test_the_peak_is_measured_once_per_instruction_set_and_types(monkeypatch):
    monkeypatch.setattr(limits.Limits, "fma", lambda self, threads, types: (registry.isa(), threads, types))
    monkeypatch.setattr(limits, "_best", {})
    for isa in registry.isas():
        with using_isa(isa):
            assert limits.peak_rate(1) == (isa, 1, "f32")
