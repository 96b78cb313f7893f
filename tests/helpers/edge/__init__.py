"""Random requests at the edge of the HTTP app, and the ways to send them."""
