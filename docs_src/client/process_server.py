import os
import sys

from mcpkit import Server

server = Server("weather")


@server.tool
def forecast(city: str) -> str:
    """Return the forecast for a city."""
    if city == "Atlantis":
        print(f"no sky over {city}", file=sys.stderr, flush=True)
        os._exit(3)
    return f"Sunny in {city}"


@server.tool
def settings() -> list[str]:
    """Return the names of some environment variables that are set."""
    names = {"HOME", "PATH", "PYTHONPATH", "UNITS"}
    return sorted(names & os.environ.keys())


if __name__ == "__main__":
    print("started", file=sys.stderr, flush=True)
    server.run()
