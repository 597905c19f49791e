"""How many examples a random study draws: few whenever the suite runs, and many for `make study`."""

import os


def examples(few: int) -> int:
    """So many of a study's examples as `TACCL_STUDY` asks for: 1, if nothing else is said, is the few."""
    return few * int(os.environ.get("TACCL_STUDY", "1"))
