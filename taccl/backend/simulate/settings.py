"""How one call is simulated: what a user may say of it, whatever the file is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from taccl.backend.program import Protocol
from taccl.errors import TacclError
from taccl.model import units
from taccl.support.arguments import number, shown, whole_number, word

Arbitration = Literal["urgent", "first-come"]

_MOST_SLOTS = 2**20


@dataclass(frozen=True)
class SimulationSettings:
    """How a file is simulated; each kind of file refuses what means nothing for it.

    Parameters
    ----------
    protocol : run it as if the file named this one; None: the file's own.
    slots : pieces that a connection holds; None: what the protocol has.
    arbitration : whom a port serves first, the most `urgent` send or the `first-come`.
    copy_us_per_mb : what local copies and additions take.
    links_only : whether to leave out what the machine says of its executor.
    proxy_us : what the proxy of a rank takes for each push into a port channel.
    rounds : with an executor, how many rounds are executed at most; None: the usual number.
    """

    protocol: Protocol | None = None
    slots: int | None = None
    arbitration: Arbitration = "urgent"
    copy_us_per_mb: float = 0.0
    links_only: bool = False
    proxy_us: float = 0.0
    rounds: int | None = None

    def check(self) -> None:
        """Refuse values that mean nothing for any file.

        Raises
        ------
        TacclError : which.
        """
        if self.protocol is not None and not isinstance(self.protocol, Protocol):
            known = ", ".join(f"Protocol.{each.name}" for each in Protocol)
            raise TacclError(
                f"unknown protocol {shown(self.protocol)}", hint=f"one of {known}, of taccl.backend.program"
            )
        if self.slots is not None:
            whole_number(self.slots, "slots", TacclError, least=1, most=_MOST_SLOTS, hint="--slots 2")
        word(self.arbitration, "arbitration", get_args(Arbitration), TacclError)
        most, hint = units.MAX_BETA_US_PER_MB, "--copy-cost 5"
        what, unit = "the cost of a copy", "us per MB"
        number(self.copy_us_per_mb, what, TacclError, most=most, unit=unit, hint=hint)
        what, hint = "the cost of a push", "--proxy-cost 2"
        number(self.proxy_us, what, TacclError, most=units.MAX_ALPHA_US, unit="us", hint=hint)
