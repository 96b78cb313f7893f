"""The plot is a picture that any reader of PNG can open, and shows the temperatures."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone

import pytest
from PIL import Image

RED, BLUE = (0xD2, 0x45, 0x2F), (0x2F, 0x6F, 0xD2)


@pytest.fixture
def plot(example):
    def draw(*temperatures: int) -> Image.Image:
        """Draw a forecast that begins on the morning of a Tuesday, in half days."""
        morning = datetime(2025, 7, 15, 6, tzinfo=timezone.utc)
        periods = [
            example.nws.Period.model_construct(
                start=morning + timedelta(hours=12 * index),
                is_daytime=index % 2 == 0,
                temperature=temperature,
            )
            for index, temperature in enumerate(temperatures)
        ]
        image = Image.open(io.BytesIO(example.plot.temperature_plot(periods)))
        image.load()  # checks the checksums and the length of the data
        return image

    return draw


def heights(image: Image.Image, colour: tuple[int, int, int]) -> list[int]:
    """The upper edges of the boxes of this colour, from left to right."""
    pixels = image.convert("RGB").load()
    columns = [
        next((y for y in range(image.height) if pixels[x, y] == colour), None) for x in range(image.width)
    ]
    return [y for before, y in zip([None, *columns], columns) if y is not None and before is None]


def test_it_is_a_small_png(example, plot):
    image = plot(88, 61, 91, 63)
    assert image.format == "PNG"
    assert image.size == (example.plot.WIDTH, example.plot.HEIGHT)


def test_days_are_red_and_nights_are_blue(plot):
    image = plot(88, 61, 91, 63, 97)
    assert len(heights(image, RED)) == 3
    assert len(heights(image, BLUE)) == 2


def test_warmer_is_higher(plot):
    low, lower, high = heights(plot(70, 60, 65, 60, 99), RED)
    assert high < low < lower


@pytest.mark.parametrize("temperatures", [(72,), (0, 0), (-25, -40, -7), (120, -60), (9, 10)])
def test_every_dot_lies_between_the_margins(example, plot, temperatures):
    image = plot(*temperatures)
    for y in heights(image, RED) + heights(image, BLUE):
        assert example.plot.TOP - 3 <= y < example.plot.HEIGHT - example.plot.BOTTOM


def test_the_same_forecast_is_the_same_picture(plot):
    assert plot(80, 60).tobytes() == plot(80, 60).tobytes()


def test_another_weekday_has_another_label(example, plot):
    base = example.plot.HEIGHT - example.plot.BOTTOM + 8
    image = plot(80, 60, 80, 60)
    half = (image.width - example.plot.LEFT - example.plot.RIGHT) // 4
    first = image.crop((example.plot.LEFT, base, example.plot.LEFT + 2 * half, image.height))
    second = image.crop((example.plot.LEFT + 2 * half, base, example.plot.LEFT + 4 * half, image.height))
    assert first.tobytes() != second.tobytes()


def test_every_character_of_the_labels_has_a_glyph(example):
    characters = set("0123456789- ").union(*example.plot.WEEKDAYS)
    assert characters == example.plot.GLYPHS.keys()
    assert {len(rows) for rows in example.plot.GLYPHS.values()} == {5}
