"""What a fit of measurements comes to: numbers, and a machine's file with them; not how they are fitted."""

from __future__ import annotations

from dataclasses import dataclass, field

from taccl.calibration.benchmarks.quantities import Findings, Quantity
from taccl.support.schemas import stamped


@dataclass(frozen=True)
class Change:
    """A number of the machine that a measured one took the place of.

    Parameters
    ----------
    key : where it stands, `node.links[0].bandwidth_gbps`.
    before, after : in the unit of the key.
    source : how the new one is known.
    """

    key: str
    before: float
    after: float
    source: str


@dataclass(frozen=True)
class MeasuredFit:
    """What was fitted, and the machine with it.

    Parameters
    ----------
    formats : of the files.
    found : the numbers, and what could not be stated.
    changes : of the machine; empty without one.
    warnings : all of them, in sentences.
    machine_text : the YAML of the machine with the measured numbers; None without a machine.
    """

    formats: tuple[str, ...]
    found: Findings
    changes: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()
    machine_text: str | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, object]:
        """The object that `taccl topology fit --json` prints."""
        return stamped(
            "taccl.topology.fit/1",
            {
                "formats": list(self.formats),
                "quantities": [_as_row(quantity) for quantity in self.found.quantities],
                "refused": [
                    {
                        "link": refusal.link,
                        "name": refusal.name,
                        "reason": refusal.reason,
                        "source": refusal.source,
                    }
                    for refusal in self.found.refusals
                ],
                "changes": [
                    {
                        "key": change.key,
                        "before": change.before,
                        "after": change.after,
                        "source": change.source,
                    }
                    for change in self.changes
                ],
                "warnings": list(self.warnings),
            },
        )


def _as_row(quantity: Quantity) -> dict[str, object]:
    return {
        "link": quantity.link,
        "name": quantity.name,
        "value": quantity.value,
        "low": quantity.low,
        "high": quantity.high,
        "bandwidth_gbps": quantity.gbps,
        "sizes_bytes": None if quantity.sizes is None else list(quantity.sizes),
        "points": quantity.points,
        "worst_miss": quantity.worst_miss,
        "median_miss": quantity.median_miss,
        "weak": quantity.is_weak,
        "source": quantity.source,
        "note": quantity.note,
    }
