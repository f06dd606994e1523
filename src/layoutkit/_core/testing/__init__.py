"""Single kernels on raw addresses, for the tests."""
