"""Small programs whose times on a machine tell its links and its executor apart.

What to run is known here, and how it is written down; what the times mean is known to `taccl.calibration.runs`.
"""

from taccl.calibration.probe.probing import Probe, ProbeProgram, probe

__all__ = ["Probe", "ProbeProgram", "probe"]
