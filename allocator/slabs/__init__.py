"""SLUB: geometry of caches, per-CPU slabs, node lists, sheaves."""
