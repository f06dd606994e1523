"""Arrays in and out: checks, memory and its reuse, tensors that know their layout."""
