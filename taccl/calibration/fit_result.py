"""What a fit of measurements comes to: numbers, and a machine's file with them; not how they are fitted."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from taccl.calibration.benchmarks.quantities import Findings
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
                "quantities": [
                    asdict(quantity) | {"bandwidth_gbps": quantity.gbps} for quantity in self.found.quantities
                ],
                "refused": [asdict(refusal) for refusal in self.found.refusals],
                "changes": [asdict(change) for change in self.changes],
                "warnings": list(self.warnings),
            },
        )
