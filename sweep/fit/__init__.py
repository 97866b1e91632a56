"""Response surfaces: metrics as functions of the axes, and which axis explains a change."""
