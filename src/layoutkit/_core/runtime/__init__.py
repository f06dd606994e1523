"""What runs under the loop nests: threads, memory, locks, the registry of kernels, the limits of the machine."""
