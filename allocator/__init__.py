"""A vectorised NumPy model of Linux's SLUB and page allocator, faithful to named kernels."""
