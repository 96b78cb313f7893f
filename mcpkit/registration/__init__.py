"""How an author registers components, and where they are kept."""
