"""Where `tests/hosts` still looks for `serving`."""

from serving import serving as serving
