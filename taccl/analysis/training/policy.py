"""How long a scheduler should hold out for a compact allocation: Dally's auto-tuner, as advice.

Dally (Sharma and others, arXiv 2401.16492; github.com/aakash-sharma/cluster-sim) accepts an allocation on one
machine at once, one in a rack only after some leases without, and one anywhere after some more. It tunes both
numbers by what jobs of as many GPUs waited during the last H leases: min(0.8 H, max(6, w)) and
min(H, max(12, w)), w being the mean and twice the standard deviation of these waits, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from taccl.errors import TacclError
from taccl.support.arguments import number, whole_number
from taccl.support.reading import utf8_text

#: Leases that are waited at least, and the part of the history that a rack is waited for at most.
_LEAST_RACK, _LEAST_ANY, _MOST_RACK = 6, 12, 0.8
_MOST_BYTES, _MOST_LEASES = 2**24, 10**9


@dataclass(frozen=True)
class Policy:
    """When to accept which allocation, in leases without a better one, and what says so.

    Parameters
    ----------
    leases : H, how far back waits were looked at. waits, mean, deviation : of the jobs in them.
    rack_wait, any_wait : until an allocation in one rack, and any, is accepted.
    """

    leases: int
    waits: int
    mean: float
    deviation: float
    rack_wait: float
    any_wait: float

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)

    @property
    def advice(self) -> str:
        """The policy in a sentence, with its inputs."""
        return (
            f"one rack after {self.rack_wait:g} leases without a machine, anywhere after {self.any_wait:g} "
            f"(Dally's tuner: {self.waits} waits of {self.mean:.1f} +- {self.deviation:.1f} in {self.leases} "
            "leases)"
        )


def policy_of(waits: Sequence[float], leases: int) -> Policy:
    """The policy for jobs of which others with as many GPUs waited this many leases.

    Raises
    ------
    TacclError : no wait, a negative one, or no leases.
    """
    whole_number(leases, "leases", TacclError, least=1, most=_MOST_LEASES)
    if not waits:
        raise TacclError("no job waited, so no wait is tuned", hint="one number of leases a line")
    known = [number(each, "a wait", TacclError, least=0.0, most=_MOST_LEASES) for each in waits]
    mean, deviation = float(np.mean(known)), float(np.std(known))
    usual = math.ceil(mean + 2 * deviation)
    rack_wait = min(_MOST_RACK * leases, max(_LEAST_RACK, usual))
    return Policy(leases, len(known), mean, deviation, rack_wait, min(leases, max(_LEAST_ANY, usual)))


def load_waits(path: str | Path) -> tuple[float, ...]:
    """The waits in a file, in leases, one a line; `#` begins a comment.

    Raises
    ------
    TacclError : with the line: no number.
    """
    found = []
    for line, text in enumerate(utf8_text(path, _MOST_BYTES, TacclError).split("\n"), start=1):
        word = text.split("#")[0].strip()
        if not word:
            continue
        try:
            found.append(float(word))
        except ValueError:
            raise TacclError(
                f"{word[:40]!r} is no number of leases", path=path, line=line, hint="one a line"
            ) from None
    return tuple(found)
