"""Small things that stand on nothing else of the package."""
