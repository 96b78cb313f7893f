"""A small line plot as a PNG image, drawn with the standard library alone."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from struct import pack

from nws import Period

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
WIDTH, HEIGHT = 560, 240
LEFT, RIGHT, TOP, BOTTOM = 48, 16, 20, 36  # margins, in pixels
WHITE, GRID, LINE, INK, RED, BLUE = range(6)
PALETTE = bytes.fromhex("ffffff dfe3e8 a3abb8 3c4450 d2452f 2f6fd2")

# Three by five pixels for a glyph; each octal digit is one row, its bits the pixels from left to right.
GLYPHS = {
    " ": "00000", "-": "00700", "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711",
    "5": "74717", "6": "74757", "7": "71111", "8": "75757", "9": "75717", "A": "25755", "D": "65556",
    "E": "74747", "F": "74744", "H": "55755", "I": "72227", "M": "57755", "N": "65555", "O": "75557",
    "R": "65655", "S": "34216", "T": "72222", "U": "55557", "W": "55775",
}  # fmt: skip
GLYPH_SCALE = 3


class Canvas:
    """A picture of `WIDTH` by `HEIGHT` pixels, each the number of a colour in `PALETTE`."""

    def __init__(self) -> None:
        self.rows = [bytearray([WHITE]) * WIDTH for _ in range(HEIGHT)]

    def box(self, x: int, y: int, width: int, height: int, colour: int) -> None:
        """Fill a rectangle whose top left corner is at `x`, `y`."""
        for row in self.rows[y : y + height]:
            row[x : x + width] = bytes([colour]) * width

    def line(self, x0: int, y0: int, x1: int, y1: int, colour: int) -> None:
        """Draw a line two pixels wide from one point to another."""
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            self.box(x0 + (x1 - x0) * step // steps, y0 + (y1 - y0) * step // steps, 2, 2, colour)

    def text(self, x: int, y: int, text: str, colour: int) -> None:
        """Write text whose top left corner is at `x`, `y`, in the characters of `GLYPHS`."""
        for index, character in enumerate(text):
            for row, bits in enumerate(GLYPHS[character]):
                for column in range(3):
                    if int(bits, 8) & 4 >> column:
                        left = x + (index * 4 + column) * GLYPH_SCALE
                        self.box(left, y + row * GLYPH_SCALE, GLYPH_SCALE, GLYPH_SCALE, colour)

    def png(self) -> bytes:
        """Return the picture as a PNG file with a palette."""
        header = pack(">IIBBBBB", WIDTH, HEIGHT, 8, 3, 0, 0, 0)  # 8 bits a pixel, colour type 3: palette
        pixels = b"".join(b"\0" + row for row in self.rows)  # filter 0 in front of each row: none
        return b"\x89PNG\r\n\x1a\n" + b"".join(
            pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))
            for kind, data in [
                (b"IHDR", header),
                (b"PLTE", PALETTE),
                (b"IDAT", zlib.compress(pixels, 9)),
                (b"IEND", b""),
            ]
        )


def temperature_plot(periods: Sequence[Period]) -> bytes:
    """Plot the temperatures of a forecast as a line, with the days in red and the nights in blue.

    Args:
        periods: At least one; they stand at equal distances from left to right.

    Returns:
        A PNG file. Its left edge counts degrees Fahrenheit, its lower edge names the days.
    """
    canvas = Canvas()
    temperatures = [period.temperature for period in periods]
    lowest, highest = min(temperatures) // 10 * 10, max(temperatures) // 10 * 10 + 10
    x_step = (WIDTH - LEFT - RIGHT) // len(periods)

    def y_of(temperature: int) -> int:
        return TOP + (highest - temperature) * (HEIGHT - TOP - BOTTOM) // (highest - lowest)

    for degrees in range(lowest, highest + 1, 10):
        canvas.box(LEFT, y_of(degrees), WIDTH - LEFT - RIGHT, 1, GRID)
        canvas.text(4, y_of(degrees) - 7, f"{degrees:3}", INK)
    points = [(LEFT + x_step // 2 + index * x_step, y_of(value)) for index, value in enumerate(temperatures)]
    for start, end in pairwise(points):
        canvas.line(*start, *end, LINE)
    for period, (x, y) in zip(periods, points, strict=True):
        canvas.box(x - 3, y - 3, 8, 8, RED if period.is_daytime else BLUE)
        if period.is_daytime:
            canvas.text(x - 16, HEIGHT - BOTTOM + 12, WEEKDAYS[period.start.weekday()], INK)
    return canvas.png()
