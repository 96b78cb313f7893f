"""Draws the pages of an `OAuthProxy` for the documentation, as a real browser shows them.

python tests/helpers/consent_pictures.py    # docs/assets/consent-*.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1])]

from tests.helpers.browser import browsing  # noqa: E402 - found by the line above
from tests.helpers.consent_pages import consent_pages  # noqa: E402

DRAWN = HERE.parents[1] / "docs" / "assets"
PICTURES = {
    "consent-light": ("local", 620, False),
    "consent-dark": ("document", 620, True),
    "consent-phone": ("local", 360, False),
    "consent-error": ("error", 620, False),
}
"""Of each picture the page, how wide the window is, and whether it is dark."""
COLOURS = 48


def main() -> None:
    """Draw them."""
    with (
        browsing() as browser,
        consent_pages() as pages,
        browser.profile() as profile,
        TemporaryDirectory() as folder,
    ):
        for name, (kind, width, dark) in PICTURES.items():
            drawn = Path(folder) / f"{name}.png"
            profile.show(width, height=200, dark=dark)
            profile.open(pages.url(kind))
            profile.screenshot(drawn)
            with Image.open(drawn) as picture:
                few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                few.save(DRAWN / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
