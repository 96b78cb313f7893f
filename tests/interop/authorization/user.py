"""A user who logs in whenever a client asks for that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.browser import Login, Profile
from tests.helpers.launched import Launched

DOCUMENT = {
    "client_id": "https://client.example.com/about.json",
    "client_name": "Documented",
    "grant_types": ["authorization_code", "refresh_token"],
    "redirect_uris": ["http://127.0.0.1:1/callback"],
    "token_endpoint_auth_method": "none",
}
"""What a client says of itself."""


class User:
    """The user, at one profile of the browser.

    Attributes:
        logins: Each login so far.
    """

    def __init__(self, page: Profile, name: str = "bob") -> None:
        self._page = page
        self._name = name
        self.logins: list[Login] = []

    def log_in(self, url: str) -> Login:
        """Log in for a client that listens nowhere."""
        self.logins.append(self._page.log_in(url, self._name, answers=True))
        return self.logins[-1]

    @contextmanager
    def answering(self, launched: Launched) -> Iterator[None]:
        """Log in for each client that opens a browser until the end of the block, and until that is done."""

        def run() -> None:
            while (url := launched.next()) is not None:
                self.logins.append(self._page.log_in(url, self._name))

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            launched.end()
            thread.join()
