"""Small programs whose times on a machine tell its links and its executor apart.

What to run is known here, and how it is written down; `taccl.calibration.runs` knows what the times mean.
"""

from taccl.calibration.probe.probing import Probe, ProbeProgram, probe

__all__ = ["Probe", "ProbeProgram", "probe"]
