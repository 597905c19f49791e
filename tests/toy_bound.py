"""A bound of another package: whatever moves takes at least as long as the fastest link.

`tests/support/test_plugins.py` installs it as an entry point, as its users would. This is all it takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.bounds import Bound, Proof, View
from taccl.support.budget import Budget


def prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    """Yield the one thing that it proves."""
    durations_us = view.instance.durations_us
    fastest = int(durations_us.argmin())
    link = view.problem.topology.describe_link(fastest)
    yield BOUND.proof(durations_us[fastest], f"no link is faster than {link}")


BOUND = Bound("one-link", "whatever moves crosses a link", "a faster link", prove)
