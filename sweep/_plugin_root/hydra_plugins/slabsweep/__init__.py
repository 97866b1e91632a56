"""The grid sweeper, where Hydra looks for it."""
