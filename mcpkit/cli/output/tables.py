"""Tables: as wide as the terminal, and elsewhere a line for each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .written import printable, results, write


class Table:
    """A table under a title.

    Args:
        title: What it is of.
        columns: The columns; those in which nothing stands are left out.
        rows: The cells of each row, by column.
    """

    def __init__(self, title: str, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
        self._title = title
        self._columns = [column for column in columns if any(row[column] for row in rows)]
        self._rows = [[" ".join(printable(row[column]).split()) for column in self._columns] for row in rows]

    def show(self) -> None:
        """Write it to standard output."""
        console = results()  # which says what is missing, where rich is
        from rich.padding import Padding
        from rich.table import Table as Drawn
        from rich.text import Text

        write(self._title)
        if not self._rows:
            return
        drawn = Drawn(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for number, column in enumerate(self._columns):
            drawn.add_column(column, overflow="fold", no_wrap=number == 0, ratio=None)
        for row in self._rows:
            drawn.add_row(*map(Text, row))
        with console.capture() as captured:
            console.print(Padding(drawn, (0, 0, 0, 2)), soft_wrap=False)
        write("\n".join(line.rstrip() for line in captured.get().splitlines()))
