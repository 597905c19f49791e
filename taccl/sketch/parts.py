"""A sketch taken apart: what each of its lines says, and the sketch in which it is said no more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from taccl.model.problem import Statement
from taccl.sketch.limits import senders_of
from taccl.sketch.model import Internode, Intranode, Relay, SenderFor, Sketch, Switch


@dataclass(frozen=True, eq=False)
class SketchPart:
    """Something that a sketch says, and the sketch without it.

    It is about the links between nodes, or `inside` them, that leave some `senders`; or about the chunks of
    some `owners`, which leave a node `through` some GPUs only. All are local GPUs; None stands for every one.
    """

    said: Statement
    without: Callable[[Sketch], Sketch]
    owners: frozenset[int] | None = None
    through: frozenset[int] | None = None
    senders: frozenset[int] | None = None
    inside: bool = False


def without(sketch: Sketch, parts: Sequence[SketchPart]) -> Sketch:
    """The sketch in which none of these parts is said any more."""
    for part in parts:
        sketch = part.without(sketch)
    return sketch


def inside_nodes(sketch: Sketch) -> Iterator[SketchPart]:
    """What the intra-node strategy takes away: something only if it is `switch`."""
    if sketch.intranode.strategy != "switch":
        return
    groups = [
        "all" if switch.gpus is None else f"[{in_short(switch.gpus)}]" for switch in sketch.intranode.switches
    ]
    text = (
        f"intranode strategy switch: inside a node, only GPUs of one switch are joined: {', '.join(groups)}"
    )
    yield SketchPart(
        Statement(text, sketch.path, sketch.intranode.line),
        partial(replace, intranode=Intranode()),
        inside=True,
    )


def relays(sketch: Sketch, gpus: int) -> Iterator[SketchPart]:
    """Those that are no senders, and each sender's receivers."""
    everyone = tuple(range(gpus))
    senders = list(dict.fromkeys(relay.sender for relay in sketch.internode.relays))
    others = [gpu for gpu in everyone if gpu not in senders]
    if others:
        verb = "has no entry, so it sends" if len(others) == 1 else "have no entry, so they send"
        yield SketchPart(
            Statement(
                f"relay: {_gpus(others)} {verb} nothing to other nodes", sketch.path, sketch.internode.line
            ),
            partial(_with_relays, senders=others, receivers=everyone),
            senders=frozenset(others),
        )
    for sender in senders:
        entries = [relay for relay in sketch.internode.relays if relay.sender == sender]
        receivers = sorted({receiver for entry in entries for receiver in entry.receivers})
        text = (
            f"relay {sender}: [{in_short(receivers)}]: of other nodes, GPU {sender} sends to "
            f"{_gpus(receivers)} only"
        )
        yield SketchPart(
            Statement(text, sketch.path, entries[0].line),
            partial(_with_relays, senders=(sender,), receivers=everyone),
            senders=frozenset({sender}),
        )


def _with_relays(sketch: Sketch, senders: Collection[int], receivers: tuple[int, ...]) -> Sketch:
    """The sketch in which these senders send to all these receivers."""
    others = tuple(relay for relay in sketch.internode.relays if relay.sender not in senders)
    free = tuple(Relay(sender, receivers) for sender in senders)
    return with_between(sketch, replace(sketch.internode, relays=(*others, *free)))


def with_between(sketch: Sketch, between: Internode) -> Sketch:
    """Another inter-node strategy; senders for others, and the rule for NICs, stay as they are."""
    new = replace(sketch.internode, strategy=between.strategy, relays=between.relays)
    return replace(sketch, internode=new)


def strategy_said(sketch: Sketch, no_sketch: bool) -> Statement:
    """The inter-node strategy as a whole, or what it means that there is no sketch."""
    internode = sketch.internode
    if no_sketch:
        return Statement("no sketch: GPUs of two nodes are linked only where no host is between them")
    if internode.strategy == "none":
        what = "internode strategy none" if internode.line is not None else "no internode strategy"
        text = f"{what}: GPUs of two nodes are linked only where no host is between them"
    elif internode.strategy == "direct-map":
        text = "internode strategy direct-map: of other nodes, GPU i sends to GPU i only"
    else:
        text = "internode strategy relay: only senders send to other nodes, and only to their receivers"
    return Statement(text, sketch.path, internode.line)


def senders_for(sketch: Sketch) -> Iterator[SketchPart]:
    """Homes that leave their node through the same senders are one part: mostly an entry is one."""
    named = sorted({owner for entry in sketch.internode.sender_for for owner in entry.owners})
    groups: dict[frozenset[int], list[int]] = {}
    for owner in named:
        groups.setdefault(frozenset(senders_of(sketch.internode, owner)), []).append(owner)
    for senders, owners in groups.items():
        entries = [entry for entry in sketch.internode.sender_for if set(entry.owners) & set(owners)]
        text = (
            f"sender_for {in_short(senders)}: [{in_short(owners)}]: the chunks of {_gpus(owners)} leave "
            f"a node only through {_gpus(senders, 'or')}"
        )
        yield SketchPart(
            Statement(text, sketch.path, min((e.line for e in entries if e.line is not None), default=None)),
            partial(_without_senders, owners=owners),
            owners=frozenset(owners),
            through=senders,
        )


def _without_senders(sketch: Sketch, owners: Collection[int]) -> Sketch:
    entries = tuple(
        SenderFor(entry.sender, left, entry.line)
        for entry in sketch.internode.sender_for
        if (left := tuple(owner for owner in entry.owners if owner not in owners))
    )
    return replace(sketch, internode=replace(sketch.internode, sender_for=entries))


def in_short(numbers: Collection[int]) -> str:
    """`0-3, 7`: numbers in order, three or more that follow one another as a range."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(shown)


def _gpus(gpus: Collection[int], word: str = "and") -> str:
    """`GPU 3`, `GPUs 2 and 3`, `GPUs 0-7, 9`."""
    if len(gpus) == 1:
        return f"GPU {in_short(gpus)}"
    if len(gpus) == 2:
        return f"GPUs {f' {word} '.join(map(str, sorted(gpus)))}"
    return f"GPUs {in_short(gpus)}"


def nics_said(sketch: Sketch) -> Statement | None:
    """The rule for links that share a NIC, where it is more than that they wait for each other."""
    if sketch.internode.nic_sharing == "port":
        return None
    text = "nic_sharing static: every link between nodes takes (links / NICs) times as long, used or not"
    return Statement(text, sketch.path, sketch.internode.nic_line)


def policies_said(sketch: Sketch) -> tuple[Statement, ...]:
    """The policies of switches, which take no link away."""
    return tuple(
        Statement(f"policy {switch.policy} for GPUs {_members(switch)}", sketch.path, switch.line)
        for switch in sketch.intranode.switches
        if switch.policy != "none"
    )


def _members(switch: Switch) -> str:
    return "all" if switch.gpus is None else f"[{in_short(switch.gpus)}]"
