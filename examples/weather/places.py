"""The places that the server knows by name: what it lists as a resource and offers as completions."""

from __future__ import annotations

STATES = {
    "AL": "Alabama",
    "AK": "Alaska",
    "AS": "American Samoa",
    "AZ": "Arizona",
    "AR": "Arkansas",
    "CA": "California",
    "CO": "Colorado",
    "CT": "Connecticut",
    "DE": "Delaware",
    "DC": "District of Columbia",
    "FL": "Florida",
    "GA": "Georgia",
    "GU": "Guam",
    "HI": "Hawaii",
    "ID": "Idaho",
    "IL": "Illinois",
    "IN": "Indiana",
    "IA": "Iowa",
    "KS": "Kansas",
    "KY": "Kentucky",
    "LA": "Louisiana",
    "ME": "Maine",
    "MD": "Maryland",
    "MA": "Massachusetts",
    "MI": "Michigan",
    "MN": "Minnesota",
    "MS": "Mississippi",
    "MO": "Missouri",
    "MT": "Montana",
    "NE": "Nebraska",
    "NV": "Nevada",
    "NH": "New Hampshire",
    "NJ": "New Jersey",
    "NM": "New Mexico",
    "NY": "New York",
    "NC": "North Carolina",
    "ND": "North Dakota",
    "MP": "Northern Mariana Islands",
    "OH": "Ohio",
    "OK": "Oklahoma",
    "OR": "Oregon",
    "PA": "Pennsylvania",
    "PR": "Puerto Rico",
    "RI": "Rhode Island",
    "SC": "South Carolina",
    "SD": "South Dakota",
    "TN": "Tennessee",
    "TX": "Texas",
    "VI": "U.S. Virgin Islands",
    "UT": "Utah",
    "VT": "Vermont",
    "VA": "Virginia",
    "WA": "Washington",
    "WV": "West Virginia",
    "WI": "Wisconsin",
    "WY": "Wyoming",
}

# The service has thousands of stations; these are worth offering while somebody types.
STATIONS = {
    "KATL": "Atlanta",
    "KAUS": "Austin",
    "KBOS": "Boston",
    "KDCA": "Washington",
    "KDEN": "Denver",
    "KDFW": "Dallas",
    "KDTW": "Detroit",
    "KIAH": "Houston",
    "KJFK": "New York",
    "KLAS": "Las Vegas",
    "KLAX": "Los Angeles",
    "KMIA": "Miami",
    "KMSP": "Minneapolis",
    "KMSY": "New Orleans",
    "KORD": "Chicago",
    "KPDX": "Portland",
    "KPHL": "Philadelphia",
    "KPHX": "Phoenix",
    "KSAN": "San Diego",
    "KSEA": "Seattle",
    "KSFO": "San Francisco",
    "KSLC": "Salt Lake City",
    "PANC": "Anchorage",
    "PHNL": "Honolulu",
}


def starting_with(typed: str, names: dict[str, str]) -> list[str]:
    """Return the codes in `names` that start as typed, or whose name does, in either case."""
    start = typed.casefold()
    return [
        code
        for code, name in names.items()
        if code.casefold().startswith(start) or name.casefold().startswith(start)
    ]
