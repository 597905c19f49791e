"""Helpers of a machine: ranks without data, and the links of those that are part of a switch.

A helper at a switch has no links of its own. A transfer between it and a neighbour of its switch uses the
link between the two, and keeps that link from other transfers. What it costs there can differ from what
others pay: NVLink SHARP's loads and stores are slower than a copy from GPU to GPU over the same links.

A switch that cannot sum and copy in one pass is two helpers: a sum face, from which a sum goes to one rank,
and a copy face, which passes on what it has to many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from taccl.errors import TopologyError
from taccl.support.arguments import number, shown
from taccl.topologies.devices import NO_NODE, RANKS, Device, Link, check_cost

#: More memory than this is taken for a slip of the pen: 1 EB.
MAX_MEMORY_MB = 1e12
#: What a helper can do, as files say it.
ABILITIES = ("reduce", "copy", "store", "reduce-to-one")
#: The faces of a switch that cannot sum and copy in one pass.
SUM_FACE, COPY_FACE = ".sum", ".copy"
#: A helper at a switch, where it has one face and no name of its own.
ONE_FACE = ".helper"


@dataclass(frozen=True)
class Ability:
    """What one rank of a helper can do, and what its name ends with."""

    suffix: str
    may_sum: bool
    may_copy: bool
    loops_back: bool = False


def abilities(can: Sequence[str]) -> tuple[Ability, ...]:
    """The ranks that a helper with these abilities is, in the order of their numbers."""
    if {"reduce-to-one", "copy"} <= set(can):
        return Ability(SUM_FACE, True, False, True), Ability(COPY_FACE, False, True, True)
    to_one = "reduce-to-one" in can
    return (Ability("", to_one or "reduce" in can, "copy" in can, to_one),)


def faces_of(switch: str, node: int, local: int, beta_us_per_mb: float) -> tuple[Device, Device]:
    """The sum face and the copy face of an NVSwitch that sums and copies (NVLink SHARP).

    Parameters
    ----------
    switch, node : the switch, and its node.
    local : the number of the first of the two among the helpers of the node.
    beta_us_per_mb : of a load-reduce and a multicast store, on the links of a GPU into the switch.
    """
    one, other = abilities(("reduce-to-one", "copy"))
    return _face(switch, node, local, one, beta_us_per_mb), _face(
        switch, node, local + 1, other, beta_us_per_mb
    )


def _face(switch: str, node: int, local: int, ability: Ability, beta_us_per_mb: float) -> Device:
    return Device(
        switch + ability.suffix,
        "helper",
        node,
        local,
        ability.may_sum,
        ability.may_copy,
        at=switch,
        beta_us_per_mb=beta_us_per_mb,
        loops_back=ability.loops_back,
    )


def words(helper: Device) -> tuple[str, ...]:
    """What a helper can do, in the words of a file."""
    summing = "reduce-to-one" if helper.loops_back else "reduce"
    return (summing,) * helper.may_sum + ("copy",) * helper.may_copy or ("store",)


def declared_name(helper: Device) -> str:
    """The name that a file gives a helper in its node: without the node, and without the face."""
    name = helper.name.removeprefix(f"node{helper.node}.")
    for suffix in (SUM_FACE, COPY_FACE, ONE_FACE):
        name = name.removesuffix(suffix)
    return name


def moved_to(helper: Device, shared: str, switch: str) -> Device:
    """A helper at a node's `switch` that several nodes share, which is called `shared` then: `nvswitch0`."""
    base, dot, face = helper.name.removeprefix(f"node{helper.node}.").partition(".")
    number = shared.removeprefix(switch)
    return replace(helper, name=f"{base}{number}{dot}{face}", node=NO_NODE, at=shared)


def check_helpers(devices: Sequence[Device], links: Sequence[Link]) -> None:
    """Raise TopologyError for a helper at no switch, with an impossible cost, or behind no link."""
    helpers = [device for device in devices if device.kind == "helper"]
    kind_of = {device.name: device.kind for device in devices} if helpers else {}
    ends = {(link.src, link.dst) for link in links} if helpers else set()
    for helper in helpers:
        if helper.at is not None and kind_of.get(helper.at, "gpu") in RANKS:
            raise TopologyError(f"{helper.name} is at {shown(helper.at)}, which is no switch")
        if helper.alpha_us is not None:
            check_cost("alpha_us", helper.alpha_us, helper.name)
        if helper.beta_us_per_mb is not None:
            check_cost("beta_us_per_mb", helper.beta_us_per_mb, helper.name)
        if helper.memory_mb is not None:
            number(
                helper.memory_mb, f"memory_mb of {helper.name}", TopologyError, above=0, most=MAX_MEMORY_MB
            )
        if helper.behind is not None and helper.behind not in ends:
            raise TopologyError(f"{helper.name} is behind {shown(helper.behind)}, which is no link")


def links_at_switches(devices: Sequence[Device], links: Sequence[Link]) -> list[tuple[Link, tuple[int, ...]]]:
    """The links of helpers at switches, each with the indices of the machine's links that it uses.

    Between two helpers at two linked switches there is one, too: a leaf hands its sum to the spine.
    """
    at: dict[str, list[Device]] = {}
    for device in devices:
        if device.at is not None:
            at.setdefault(device.at, []).append(device)
    if not at:
        return []
    ends = {device.name for device in devices if device.kind in ("gpu", "nic", "helper")}
    number = {(link.src, link.dst): index for index, link in enumerate(links)}
    made: list[tuple[Link, tuple[int, ...]]] = []
    for index, link in enumerate(links):
        sources, targets = at.get(link.src, ()), at.get(link.dst, ())
        back = number.get((link.dst, link.src))
        both = (index,) if back is None else (index, back)
        for one in sources:
            used = both if one.loops_back and one.may_sum else (index,)
            made.append((_used_by(replace(link, src=one.name), one, link.dst in ends), used))
        for one in targets:
            used = both if one.loops_back and one.may_copy else (index,)
            made.append((_used_by(replace(link, dst=one.name), one, link.src in ends), used))
        made += [
            (Link(one.name, other.name, link.alpha_us, link.beta_us_per_mb), (index,))
            for one in sources
            for other in targets
        ]
    return made


def _used_by(link: Link, helper: Device, is_next_to_an_end: bool) -> Link:
    """A link at the costs that a helper has on it; between switches they are the link's."""
    if not is_next_to_an_end:
        return link
    return replace(
        link,
        alpha_us=link.alpha_us if helper.alpha_us is None else helper.alpha_us,
        beta_us_per_mb=link.beta_us_per_mb if helper.beta_us_per_mb is None else helper.beta_us_per_mb,
    )
