"""How far two devices of a PCIe tree are from each other."""

from __future__ import annotations

from taccl.dumps.facts import Nearness
from taccl.dumps.formats.nccl_topology.tree import Device


def nearness(a: Device, b: Device) -> Nearness:
    """By the lowest place where their ways up meet."""
    if a is b:
        return Nearness.SELF
    if a.cpu is not b.cpu:
        return Nearness.SYS
    shared = [bridge for bridge in a.bridges if bridge in b.bridges]
    if not shared:
        return Nearness.PHB
    return Nearness.PIX if a.bridges[0] is b.bridges[0] else Nearness.PXB
