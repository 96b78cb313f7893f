from typing import Annotated

from matplotlib.figure import Figure
from PIL import Image
from pydantic import Field

from mcpkit import Server

server = Server("charts", version="1.0.0")

Numbers = Annotated[list[float], Field(min_length=1, max_length=500)]


@server.tool(annotations={"readOnlyHint": True})
def plot(values: Numbers, title: str = "Values") -> Figure:
    """Draw a line chart.

    Args:
        values: The numbers, in order.
        title: The title above the chart.
    """
    figure = Figure(figsize=(6, 3.5), dpi=110, layout="constrained")
    axes = figure.subplots()
    axes.plot(values, marker="o")
    axes.set_title(title, parse_math=False)
    axes.grid(alpha=0.3)
    return figure


@server.tool(annotations={"readOnlyHint": True})
def histogram(values: Numbers) -> list[str | Figure]:
    """Draw a histogram, and describe it in words."""
    figure = Figure(figsize=(6, 3.5), dpi=110, layout="constrained")
    counts, edges, _ = figure.subplots().hist(values)
    top = int(counts.argmax())
    text = (
        f"{len(values)} values from {min(values):g} to {max(values):g}. "
        f"Most are from {edges[top]:g} to {edges[top + 1]:g}."
    )
    return [text, figure]


@server.tool(annotations={"readOnlyHint": True})
def swatch(color: str) -> Image.Image:
    """Draw a square of one color, such as "teal" or "#0a7e8c"."""
    return Image.new("RGB", (64, 64), color)


if __name__ == "__main__":
    server.run()
