"""Numbers of bundles."""

from __future__ import annotations

#: Between two sizes of the table, windows meet at one of this many steps.
BETWEEN = 16
