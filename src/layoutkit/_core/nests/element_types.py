"""Of which types the nests of elements take what they compare and reduce, in the order in which they number them."""

REDUCTIONS = "none", "add", "mul", "max", "min"
REDUCED = "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"
COMPARED = "float32", "float64", "int64", "int32", "uint8", "int8"
