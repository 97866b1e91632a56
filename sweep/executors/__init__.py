"""Where chunks of points run: in this process, or on Ray."""
