"""What drives the allocators: one file per workload."""
