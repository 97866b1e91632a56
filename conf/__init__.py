"""Hydra configuration groups of slabsweep."""
