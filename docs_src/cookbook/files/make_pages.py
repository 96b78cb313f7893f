from pathlib import Path

folder = Path("handbook/travel")
folder.mkdir(parents=True, exist_ok=True)
(folder / "trains.md").write_text("# Trains\n\nBook second class.\n")
(folder / "hotels.md").write_text("# Hotels\n\nBook up to 120 euros.\n")
