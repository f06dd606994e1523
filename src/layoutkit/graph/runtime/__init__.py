"""What runs of a graph whose layouts are chosen: steps, kernels, memory."""
