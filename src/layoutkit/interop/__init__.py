"""Formats as other systems write them: descriptors of VPUX, buffers of MACE, memory formats of torch."""
