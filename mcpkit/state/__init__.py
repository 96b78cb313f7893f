"""What processes share, and who asks."""
