"""What executing costs on machines that can be drawn on a napkin: LL starts soon, Simple moves more."""

from __future__ import annotations

#: As it stands in a machine's file.
SECTION = """\
executor:
  reduce_us: 1
  reduce_gbps: 100
  thread_blocks: 16
  protocols:
    Simple: {launch_us: 6, hop_us: 0.5, slice_us: 1, block_gbps: 20, piece: 2MB}
    LL: {launch_us: 4, hop_us: 0.5, slice_us: 0.2, block_gbps: 3, piece: 32KB}
"""
