"""Small plans for MSCCL++, in lines: `put m i1+3 > R0:2+3` is chunks 1 to 3 of i to remote buffer 0 from 2.

A line is the operation, the kind of its channels with their places in the block (`m0,1`, `p0`), sources,
`>`, targets, and `key=value`. Blocks of one rank share its remote buffers; each names its own channels.
"""

import re
from dataclasses import dataclass

from taccl.backend.plan import (
    Barrier,
    BlockChannels,
    BlockRemotes,
    Channel,
    ExecutionPlan,
    Operation,
    OpName,
    PlanBlock,
    Range,
    RankChannels,
    RankPlan,
    RemoteBuffer,
    Share,
    Turns,
)
from taccl.backend.program import Buffer

KINDS = {"m": Channel.MEMORY, "p": Channel.PORT, "w": Channel.SWITCH}
CHANNELS = re.compile(r"([mpw])(\d+(?:,\d+)*)?$")
RANGE = re.compile(r"(?:([ios])|R(\d+):|W(\d+):)(\d+)(?:\+(\d+))?$")


@dataclass(frozen=True)
class Lines:
    """A block: its operations as lines, the channels that it uses, and the remote buffers (None: all)."""

    text: str
    memory: tuple[int, ...] = ()
    port: tuple[int, ...] = ()
    switch: tuple[int, ...] = ()
    remotes: tuple[int, ...] | None = None


def operation(line: str) -> Operation:
    """One line."""
    name, *words = line.split()
    channel, channels = None, ()
    sides: list[list[Range]] = [[], []]
    side, fields = 0, {}
    for word in words:
        if word == ">":
            side = 1
        elif "=" in word:
            key, value = word.split("=")
            fields[key] = [int(each) for each in re.split("[/,]", value)]
        elif found := CHANNELS.match(word):
            channel = KINDS[found[1]]
            channels = tuple(int(each) for each in (found[2] or "").split(",") if each)
        else:
            letter, remote, switch, index, size = RANGE.match(word).groups()
            sides[side].append(
                Range(
                    int(index),
                    int(size or 1),
                    Buffer(letter) if letter else None,
                    int(remote) if remote else None,
                    int(switch) if switch else None,
                )
            )
    return Operation(
        OpName(name),
        channel,
        channels,
        tuple(sides[0]),
        tuple(sides[1]),
        share=Share(*fields["share"]) if "share" in fields else None,
        barrier=Barrier(*fields["bar"]) if "bar" in fields else None,
        semaphores=tuple(fields.get("sem", ())),
        turns=Turns(*fields["turns"]) if "turns" in fields else None,
    )


def operations(text: str) -> tuple[Operation, ...]:
    """All lines; what stands indented below a pipeline is in it."""
    some: list[Operation] = []
    inner: list[Operation] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        each = operation(line)
        if line.startswith("  ") and some and some[-1].name is OpName.PIPELINE:
            inner.append(each)
            last = some.pop()
            some.append(Operation(OpName.PIPELINE, turns=last.turns, inner=(*last.inner, each)))
        else:
            some.append(each)
    return tuple(some)


def rank(
    number: int,
    chunks: tuple[int, int, int],
    blocks: list[Lines],
    *,
    memory: tuple[int, ...] = (),
    port: tuple[int, ...] = (),
    switch: tuple[str, tuple[int, ...]] | None = None,
    remotes: tuple[tuple[int, str, str], ...] = (),
    semaphores: tuple[int, ...] = (),
) -> RankPlan:
    """One rank; `remotes` : owner, buffer, and through which channels."""
    channels = [RankChannels(Channel.MEMORY, memory), RankChannels(Channel.PORT, port)]
    if switch is not None:
        channels.append(RankChannels(Channel.SWITCH, (), Buffer(switch[0]), (switch[1],)))
    made = []
    for place, block in enumerate(blocks):
        used = [(Channel.MEMORY, block.memory), (Channel.PORT, block.port), (Channel.SWITCH, block.switch)]
        made.append(
            PlanBlock(
                place,
                operations(block.text),
                tuple(BlockChannels(kind, ids) for kind, ids in used if ids),
                tuple(
                    BlockRemotes(KINDS[letter], ids)
                    for letter in "mp"
                    if (ids := _declared(block, remotes, letter))
                ),
            )
        )
    return RankPlan(
        number,
        *chunks,
        tuple(made),
        tuple(each for each in channels if each.peers or each.groups),
        tuple(
            RemoteBuffer(owner, Buffer(letter), tuple(KINDS[each] for each in access))
            for owner, letter, access in remotes
        ),
        semaphores,
    )


def _declared(block: Lines, remotes: tuple[tuple[int, str, str], ...], letter: str) -> tuple[int, ...]:
    """The remote buffers of a block that are there for a kind of channel."""
    used = range(len(remotes)) if block.remotes is None else block.remotes
    return tuple(k for k in used if letter in remotes[k][2])


def plan(collective: str, ranks: list[RankPlan], **fields: object) -> ExecutionPlan:
    """A plan for calls out of place, unless `in_place` is given."""
    given = {"protocol": "Simple", "in_place": False, **fields}
    return ExecutionPlan(name="example", collective=collective, ranks=tuple(ranks), **given)


HANDSHAKE = "rlxsignal m0\nrlxwait m0\nnop\n"
CLOSE = "nop\nsignal m0\nwait m0\n"


def shared_allgather() -> ExecutionPlan:
    """Two ranks, two blocks each, which share every range."""
    return plan(
        "allgather",
        [
            rank(
                r,
                (1, 2, 0),
                [
                    Lines(
                        f"{HANDSHAKE}put m i0 > R0:{r} share={k}/2\ncopy i0 > o{r} share={k}/2\n{CLOSE}", (k,)
                    )
                    for k in range(2)
                ],
                memory=(1 - r, 1 - r),
                remotes=((1 - r, "o", "m"),),
            )
            for r in range(2)
        ],
    )


def barrier_allreduce() -> ExecutionPlan:
    """Two ranks; block 0 talks to the peer, both blocks add, with barriers between."""
    return plan(
        "allreduce",
        [
            rank(
                r,
                (2, 2, 2),
                [
                    Lines(
                        f"{HANDSHAKE}put m i0+2 > R0:0+2\nnop\nsignal m0\nwait m0\nbarrier bar=0/2\n"
                        "re i0 s0 > o0\nnop\nrlxsignal m0\nrlxwait m0",
                        (0,),
                    ),
                    Lines("barrier bar=0/2\nre i1 s1 > o1\nbarrier bar=1/1"),
                ],
                memory=(1 - r,),
                remotes=((1 - r, "s", "m"),),
            )
            for r in range(2)
        ],
    )


def pulling_reducescatter() -> ExecutionPlan:
    """Three ranks; each reads what it needs from the others' inputs."""
    ranks = []
    for r in range(3):
        a, b = (each for each in range(3) if each != r)
        ranks.append(
            rank(
                r,
                (3, 1, 0),
                [
                    Lines(
                        "rlxsignal m0,1\nrlxwait m0,1\nnop\n"
                        f"rre m i{r} R0:{r} R1:{r} > o0\nnop\nrlxsignal m0,1\nrlxwait m0,1",
                        (0, 1),
                    )
                ],
                memory=(a, b),
                remotes=((a, "i", "m"), (b, "i", "m")),
            )
        )
    return plan("reducescatter", ranks)


def pipelined_relay() -> ExecutionPlan:
    """Rank 0 puts slices into two places of rank 1's scratch, as semaphores and credits allow."""
    return plan(
        "broadcast",
        [
            rank(
                0,
                (2, 2, 0),
                [
                    Lines(
                        "pipeline turns=16/2\n  wait m0\n  nop\n  put m i0+2 > R0:0+2\n  nop\n  signal m0\n"
                        "copy i0+2 > o0+2",
                        (0,),
                    )
                ],
                memory=(1,),
                remotes=((1, "s", "m"),),
            ),
            rank(
                1,
                (2, 2, 2),
                [
                    Lines("pipeline turns=16/2\n  signal m0\n  wait m0\n  nop\n  sem_release sem=0\n", (0,)),
                    Lines("pipeline turns=16/2\n  sem_acquire sem=0\n  nop\n  copy s0+2 > o0+2\n"),
                ],
                memory=(0,),
                semaphores=(0,),
            ),
        ],
    )


def packet_allreduce(double: bool = True) -> ExecutionPlan:
    """Three ranks in place, each owning a chunk; packets go out, sums come back.

    One half of scratch is enough: every sum that comes back says that the parts it is made of have been read.
    """
    ranks = []
    for r in range(3):
        others = [each for each in range(3) if each != r]
        blocks = []
        for place, peer in enumerate(others):
            mine = r if r < peer else r - 1  # the slot of this rank at the peer
            blocks.append(Lines(f"ppkt m i{peer} > R{place}:{mine}\nupkt s{2 + place} > i{peer}\n", ()))
        sums = " ".join(f"R{place}:{2 + (r if r < peer else r - 1)}" for place, peer in enumerate(others))
        blocks.append(Lines(f"respkt m i{r} s0 s1 > i{r} {sums}"))
        ranks.append(
            rank(
                r,
                (3, 3, 4),
                blocks,
                memory=tuple(others),
                remotes=tuple((peer, "s", "m") for peer in others),
            )
        )
    return plan("allreduce", ranks, protocol="LL", in_place=True, double_scratch=double)


def packet_ports() -> ExecutionPlan:
    """Two ranks exchange packets over ports."""
    return plan(
        "allgather",
        [
            rank(
                r,
                (1, 2, 2),
                [Lines(f"cpkt i0 > s0\nrppkt p0 s0 > R0:1\nupkt s1 > o{1 - r}\ncopy i0 > o{r}", (), (0,))],
                port=(1 - r,),
                remotes=((1 - r, "s", "p"),),
            )
            for r in range(2)
        ],
        protocol="LL",
        double_scratch=True,
    )


def two_nodes_of_packets() -> ExecutionPlan:
    """Two nodes of two, in place: two blocks share every range, a third sends what they pack across."""
    ranks = []
    for r in range(4):
        node, mine = divmod(r, 2)
        other = 1 - mine
        own, peers = 2 * mine, 2 * other
        part = " share={k}/2\n"
        work = part.join(
            (
                f"ppkt m i{peers}+2 > R0:{own}+2",
                f"repkt i{own}+2 s{peers}+2 > i{own}+2",
                f"cpkt i{own}+2 > s{own}+2",
                f"repkt i{own}+2 s{4 + own}+2 > i{own}+2",
                f"ppkt m i{own}+2 > R0:{4 + own}+2",
                f"upkt s{4 + peers}+2 > i{peers}+2",
                "",
            )
        )
        across = Lines(f"rppkt p0 s{own}+2 > R0:{4 + own}+2", (), (0,))
        ranks.append(
            rank(
                r,
                (4, 4, 8),
                [across, *(Lines(work.format(k=k)) for k in range(2))],
                memory=(2 * node + other,),
                port=((r + 2) % 4,),
                remotes=((2 * node + other, "s", "m"), ((r + 2) % 4, "s", "p")),
            )
        )
    return plan("allreduce", ranks, protocol="LL", in_place=True, double_scratch=True)


def port_ring() -> ExecutionPlan:
    """Three ranks in a ring: each passes on what it gets, flushed before the kernel ends."""
    ranks = []
    for r in range(3):
        before = (r - 1) % 3
        ranks.append(
            rank(
                r,
                (1, 3, 0),
                [
                    Lines(
                        f"copy i0 > o{r}\nsignal p1\nwait p0\nnop\npwsf p0 o{r} > R0:{r}\nwait p1\nnop\n"
                        f"pwsf p0 o{before} > R0:{before}\nwait p1",
                        (),
                        (0, 1),
                    )
                ],
                port=((r + 1) % 3, before),
                remotes=(((r + 1) % 3, "o", "p"),),
            )
        )
    return plan("allgather", ranks)


def multicast_allgather() -> ExecutionPlan:
    """Two ranks store into both outputs through a switch."""
    return plan(
        "allgather",
        [
            rank(
                r,
                (1, 2, 0),
                [Lines(f"{HANDSHAKE}gstore w i0 > W0:{r}\n{CLOSE}", (0,), (), (0,))],
                memory=(1 - r,),
                switch=("o", (0, 1)),
            )
            for r in range(2)
        ],
    )


def multicast_allreduce(close: str = CLOSE) -> ExecutionPlan:
    """Two ranks sum half of the chunks each, in the switch, a slice at a time."""
    return plan(
        "allreduce",
        [
            rank(
                r,
                (2, 2, 0),
                [
                    Lines(
                        f"{HANDSHAKE}pipeline turns=32/1\n  glres w W0:{r} > W0:{r}\n{close}", (0,), (), (0,)
                    )
                ],
                memory=(1 - r,),
                switch=("i", (0, 1)),
            )
            for r in range(2)
        ],
        in_place=True,
    )


def all_pairs_allgather(num_ranks: int, peers_per_block: int = 4, signals: int = 1) -> ExecutionPlan:
    """Every rank puts its chunk into every other; operations grow with the square of the ranks.

    Parameters
    ----------
    peers_per_block : how many peers a thread block serves.
    signals : how often the ranks of a pair greet each other, to make a plan longer.
    """
    ranks = []
    for r in range(num_ranks):
        others = [each for each in range(num_ranks) if each != r]
        blocks = []
        for first in range(0, len(others), peers_per_block):
            places = tuple(range(first, min(first + peers_per_block, len(others))))
            lanes = "m" + ",".join(str(k) for k in range(len(places)))
            greet = f"rlxsignal {lanes}\nrlxwait {lanes}\nnop\n" * signals
            puts = "".join(f"put m i0 > R{k}:{r}\n" for k in range(len(places)))
            own = f"copy i0 > o{r}\n" if first == 0 else ""
            close = f"nop\nsignal {lanes}\nwait {lanes}"
            blocks.append(Lines(greet + puts + own + close, places, remotes=places))
        remotes = tuple((peer, "o", "m") for peer in others)
        ranks.append(rank(r, (1, num_ranks, 0), blocks, memory=tuple(others), remotes=remotes))
    return plan("allgather", ranks)


PLANS = {
    "shared allgather": shared_allgather(),
    "barrier allreduce": barrier_allreduce(),
    "pulling reducescatter": pulling_reducescatter(),
    "pipelined relay": pipelined_relay(),
    "packet allreduce": packet_allreduce(),
    "packet ports": packet_ports(),
    "two nodes of packets": two_nodes_of_packets(),
    "port ring": port_ring(),
}
