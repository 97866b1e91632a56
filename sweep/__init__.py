"""From Hydra overrides to axes, from axes to simulated points, from points to a dataset."""
