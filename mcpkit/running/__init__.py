"""How a handler runs and ends: where, for how long, how many at a time."""
