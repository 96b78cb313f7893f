"""Parameters that clients do not see: what marks them, how they are filled, and what is closed after a call."""
