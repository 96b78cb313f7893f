"""Toys of what is to be built onto the house: each uses the public interface alone, and needs no edit of the core."""
