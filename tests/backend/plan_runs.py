"""Runs a plan thread by thread in a random order that a GPU could choose, on large random numbers.

Written from the contract alone, and sharing nothing with what is tested: every thread of every block is a
generator that stops wherever another could go on; ports and hosts are agents of their own. The runs are those
of a machine that makes every write visible at once. A *unit* is 16 bytes; a thread handles units of one
place. Hosts wait for nothing but their own blocks, save that a port transfer that is still to read a user's
buffer gets what is there before the host rewrites it (the verifier only warns of those).
"""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from taccl.backend.plan import Channel, ExecutionPlan, Operation, OpName, Range
from taccl.backend.program import Buffer

CALLS = 4
UNIT = 16
Place = tuple[int, str, int]  # rank, memory, unit
Step = Callable[[], bool] | None  # what a thread waits for; None: nothing

PAIRED = {OpName.PUT, OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH, OpName.PUT_PACKETS, OpName.GET}
ONE_TARGET = {OpName.COPY, OpName.REDUCE, OpName.READ_REDUCE, OpName.REDUCE_PACKETS}
ONE_SOURCE = {OpName.COPY, OpName.COPY_TO_PACKETS, OpName.COPY_FROM_PACKETS}
PACKETS_READ = {  # the first source that is packets
    OpName.COPY_FROM_PACKETS: 0,
    OpName.READ_PUT_PACKETS: 0,
    OpName.REDUCE_PACKETS: 1,
    OpName.REDUCE_SEND_PACKETS: 1,
    OpName.REDUCE_COPY_PACKETS: 1,
    OpName.REDUCE_COPY_SEND_PACKETS: 1,
}
PACKETS_WRITTEN = {  # the first target that is packets
    OpName.PUT_PACKETS: 0,
    OpName.COPY_TO_PACKETS: 0,
    OpName.READ_PUT_PACKETS: 0,
    OpName.REDUCE_SEND_PACKETS: 1,
    OpName.REDUCE_COPY_PACKETS: 1,
    OpName.REDUCE_COPY_SEND_PACKETS: 1,
}
OF_PACKETS = {*PACKETS_READ, *PACKETS_WRITTEN}


@dataclass
class Transfer:
    """Queued on a port: reads all, then writes all."""

    pairs: list[tuple[Place, Place]]
    read: list[object] | None = None


@dataclass
class Block:
    rank: int
    number: int
    threads: int
    packets: int
    plain: int
    met: int = 0
    waiting: int = 0


class Machine:
    """All ranks, for some calls of one size."""

    def __init__(self, plan: ExecutionPlan, units: int, dice: random.Random) -> None:
        self.plan, self.units, self.dice = plan, units, dice
        self.memory: dict[Place, object] = {}
        self.counter: Counter[tuple[Channel, int, int]] = Counter()
        self.expected: Counter[tuple[Channel, int, int]] = Counter()
        self.semaphore = {(r.rank, k): v for r in plan.ranks for k, v in enumerate(r.semaphores)}
        self.queue: dict[tuple[int, int], deque[object]] = defaultdict(deque)
        self.completed: Counter[tuple[int, int]] = Counter()
        self.queued: Counter[tuple[int, int]] = Counter()
        self.barrier: Counter[tuple[int, int]] = Counter()
        self.value = {
            (call, r.rank, unit): dice.getrandbits(60)
            for call in range(CALLS)
            for r in plan.ranks
            for unit in range(r.input_chunks * units)
        }
        self.wrong = False

    def place(self, rank: int, buffer: Buffer, unit: int) -> Place:
        """Where a unit of a buffer is; in place, inputs are parts of outputs or the other way round."""
        name, chosen = self.plan.collective, self.plan.ranks[rank]
        if self.plan.in_place and buffer is Buffer.INPUT and name != "reducescatter":
            shift = rank * chosen.input_chunks * self.units if name == "allgather" else 0
            return rank, "o", unit + shift
        if self.plan.in_place and buffer is Buffer.OUTPUT and name == "reducescatter":
            return rank, "i", unit + rank * chosen.output_chunks * self.units
        return rank, buffer.value, unit

    # What a thread does. Every `yield` is a place where others may go on.

    def thread(self, block: Block, number: int, call: int) -> Iterator[Step]:
        plan_block = self.plan.ranks[block.rank].blocks[block.number]
        for operation in plan_block.operations:
            if operation.name is OpName.PIPELINE:
                turns = operation.turns
                for turn in range(-(-turns.num_chunks * self.units * UNIT // turns.unit_bytes)):
                    for inner in operation.inner:
                        cut = (turn * turns.unit_bytes // UNIT, turns.unit_bytes // UNIT)
                        yield from self.operation(block, number, call, inner, cut)
            else:
                yield from self.operation(block, number, call, operation, None)
        yield from self.meet(block)

    def meet(self, block: Block) -> Iterator[Step]:
        generation = block.met
        block.waiting += 1
        if block.waiting == block.threads:
            block.waiting, block.met = 0, block.met + 1
        yield lambda: block.met > generation

    def operation(
        self, block: Block, number: int, call: int, operation: Operation, cut: tuple[int, int] | None
    ) -> Iterator[Step]:
        name, rank = operation.name, block.rank
        if name is OpName.NOP:
            yield from self.meet(block)
        elif name is OpName.BARRIER:
            yield from self.meet(block)
            key = (rank, operation.barrier.id)
            if number == 0 and operation.barrier.num_blocks > 1:
                mine = self.barrier[key] // operation.barrier.num_blocks
                self.barrier[key] += 1
                yield lambda: self.barrier[key] // operation.barrier.num_blocks > mine
            yield from self.meet(block)
        elif name in (OpName.SIGNAL, OpName.RELAXED_SIGNAL, OpName.WAIT, OpName.RELAXED_WAIT):
            if number < len(operation.channels) and operation.channel is not None:
                yield from self.lane(block, number, operation)
        elif name in (OpName.RELEASE, OpName.ACQUIRE):
            if number < len(operation.semaphores):
                key = rank, operation.semaphores[number]
                if name is OpName.RELEASE:
                    self.semaphore[key] += 1
                else:
                    yield lambda: self.semaphore[key] > 0
                    self.semaphore[key] -= 1
                yield None
        elif operation.channel is Channel.PORT and name is not OpName.FLUSH:
            yield from self.port(block, number, call, operation, cut)
        elif name is not OpName.FLUSH:
            for sources, targets in self.moves(operation):
                yield from self.move(block, number, call, operation, sources, targets, cut)

    def lane(self, block: Block, number: int, operation: Operation) -> Iterator[Step]:
        kind = operation.channel
        end = self.end(block, kind, operation.channels[number])
        if operation.name in (OpName.SIGNAL, OpName.RELAXED_SIGNAL):
            if kind is Channel.PORT:
                self.push(end, self.partner(end))
            else:
                self.counter[self.partner(end)] += 1
            yield None
        else:
            self.expected[end] += 1
            wanted = self.expected[end]
            yield lambda: self.counter[end] >= wanted

    def end(self, block: Block, kind: Channel, local: int) -> tuple[Channel, int, int]:
        numbers = self.plan.ranks[block.rank].blocks[block.number].channels_of(kind)
        return kind, block.rank, numbers[local]

    def partner(self, end: tuple[Channel, int, int]) -> tuple[Channel, int, int] | None:
        kind, rank, number = end
        peers = self.plan.ranks[rank].peers_of(kind)
        peer = peers[number]
        nth = peers[:number].count(peer)
        others = [k for k, each in enumerate(self.plan.ranks[peer].peers_of(kind)) if each == rank]
        return (kind, peer, others[nth]) if nth < len(others) else None

    def push(self, end: tuple[Channel, int, int], item: object) -> int:
        self.queue[end[1:]].append(item)
        self.queued[end[1:]] += 1
        return self.queued[end[1:]]

    def port(
        self, block: Block, number: int, call: int, operation: Operation, cut: tuple[int, int] | None
    ) -> Iterator[Step]:
        moves = self.moves(operation)
        if operation.name is OpName.READ_PUT_PACKETS:
            ((sources, targets),) = moves
            moves = [(sources, [target]) for target in targets]
            places = self.units_of(block, operation, sources[0], sources[0].size, None, True)
            for place in self.halved(places, call):
                yield lambda place=place: self.flag(place) == call
            yield from self.meet(block)
        if number >= min(len(operation.channels), len(moves)):
            return
        end = self.end(block, Channel.PORT, operation.channels[number])
        sources, targets = moves[number]
        packets = operation.name is OpName.READ_PUT_PACKETS
        size = sources[0].size if packets else targets[0].size
        read = self.units_of(block, operation, sources[0], size, cut, packets)
        written = self.units_of(block, operation, targets[0], size, cut, packets)
        last = self.push(
            end, Transfer(list(zip(self.halved(read, call), self.halved(written, call), strict=True)))
        )
        if operation.name is not OpName.PUT and not packets:
            last = self.push(end, self.partner(end))
        yield None
        if operation.name is OpName.PUT_SIGNAL_FLUSH:
            yield lambda: self.completed[end[1:]] >= last

    def moves(self, operation: Operation) -> list[tuple[list[Range], list[Range]]]:
        sources, targets = list(operation.sources), list(operation.targets)
        if operation.name in PAIRED:
            return [([a], [b]) for a, b in zip(sources, targets, strict=False)]
        if operation.name in ONE_TARGET:  # the runtime looks at no more
            targets = targets[:1]
        if operation.name in ONE_SOURCE:
            sources = sources[:1]
        return [(sources, targets)]

    def units_of(
        self,
        block: Block,
        operation: Operation,
        each: Range,
        size: int,
        cut: tuple[int, int] | None,
        packets: bool,
    ) -> list[Place]:
        first, count = 0, size * self.units
        if operation.share is not None:
            parts, number = operation.share.parts, operation.share.number
            part, rest = divmod(each.size * self.units, parts)
            first = number * part + min(number, rest)
            count = count // parts + (number < count % parts)
        if cut is not None and operation.name not in OF_PACKETS:
            first, count = first + cut[0], max(0, min(cut[1], count - cut[0]))
        rank, buffer = block.rank, each.buffer
        if each.remote is not None:
            chosen = self.plan.ranks[rank]
            number = chosen.blocks[block.number].remotes_of(operation.channel)[each.remote]
            rank, buffer = chosen.remote_buffers[number].rank, chosen.remote_buffers[number].buffer
        start = each.index * self.units + first
        if packets:
            return [(rank, "packets", unit) for unit in range(start, start + count)]
        return [self.place(rank, buffer, unit) for unit in range(start, start + count)]

    def halved(self, places: list[Place], call: int) -> list[Place]:
        """Odd calls use the lower half of scratch, even ones the upper."""
        if not self.plan.double_scratch or call % 2 == 0:
            return places
        return [
            (rank, memory, unit + 10**6) if memory in ("packets", "s") else (rank, memory, unit)
            for rank, memory, unit in places
        ]

    def flag(self, place: Place) -> int:
        held = self.memory.get(place)
        return held[1] if isinstance(held, tuple) else -1

    def move(
        self,
        block: Block,
        number: int,
        call: int,
        operation: Operation,
        sources: list[Range],
        targets: list[Range],
        cut: tuple[int, int] | None,
    ) -> Iterator[Step]:
        """This thread's unit of an operation: read all, add, write all."""
        name = operation.name
        size = targets[0].size if name is OpName.PUT else sources[0].size
        reads = [
            self.units_of(block, operation, each, size, cut, k >= PACKETS_READ.get(name, 10**6))
            for k, each in enumerate(sources)
        ]
        writes = [
            self.units_of(block, operation, each, size, cut, k >= PACKETS_WRITTEN.get(name, 10**6))
            for k, each in enumerate(targets)
        ]
        # Some threads signal, others move packets, others what is no packet: widths differ.
        at = number - (block.packets if name in OF_PACKETS else block.plain)
        if not 0 <= at < len(reads[0]) or (name in OF_PACKETS and number >= block.plain):
            return
        total = 0
        for places in reads:
            place = self.halved([places[at]], call)[0]
            if place[1] == "packets":
                yield lambda place=place: self.flag(place) == call
                total += self.memory[place][0]
            else:
                held = self.memory.get(place, 0)
                total += held
                yield None
        for places in writes:
            place = self.halved([places[at]], call)[0]
            if place[1] == "i" and not self.plan.in_place and self.memory.get(place) != total:
                self.wrong = True
            self.memory[place] = (total, call) if place[1] == "packets" else total
            yield None

    # The agents next to the blocks.

    def port_agent(self, key: tuple[int, int]) -> Iterator[Step]:
        queue = self.queue[key]
        while True:
            yield lambda: bool(queue)
            item = queue[0]
            if isinstance(item, Transfer):
                if item.read is None:
                    item.read = [self.memory.get(source, 0) for source, _ in item.pairs]
                    yield None
                for (_, target), value in zip(item.pairs, item.read, strict=True):
                    self.memory[target] = value
                    yield None
            elif item is not None:
                self.counter[item] += 1
            queue.popleft()
            self.completed[key] += 1
            yield None

    def host(self, rank: int) -> Iterator[Step]:
        chosen = self.plan.ranks[rank]
        for call in range(CALLS):
            for (owner, _), queue in self.queue.items():
                for item in queue:
                    if owner == rank and isinstance(item, Transfer):
                        self.read_early(item)
            for unit in range(chosen.output_chunks * self.units):
                self.memory[self.place(rank, Buffer.OUTPUT, unit)] = self.dice.getrandbits(60)
            for unit in range(chosen.input_chunks * self.units):
                self.memory[self.place(rank, Buffer.INPUT, unit)] = self.value[call, rank, unit]
            yield None
            running = []
            for number, block in enumerate(chosen.blocks):
                lanes, packets, plain = self.threads(block.operations)
                threads = lanes + packets + plain
                state = Block(rank, number, threads, lanes, lanes + packets)
                running.append(state)
                self.blocks[rank, number] = state
                for thread in range(threads):
                    self.start(self.thread(state, thread, call), (rank, number, thread))
            yield lambda running=running: all(each.threads == 0 for each in running)
            for unit in range(chosen.output_chunks * self.units):
                held = self.memory[self.place(rank, Buffer.OUTPUT, unit)]
                wanted = self.wanted(call, rank, unit)
                self.wrong |= wanted is not None and held not in wanted
            yield None

    def read_early(self, item: Transfer) -> None:
        """What a transfer is still to read of a user's buffers, it reads before the host rewrites it."""
        if item.read is None and all(source[1] in "io" for source, _ in item.pairs):
            item.read = [self.memory.get(source, 0) for source, _ in item.pairs]

    def threads(self, operations: tuple[Operation, ...]) -> tuple[int, int, int]:
        """How many threads signal and wait, move packets, and move what is no packet."""
        lanes, packets, plain = 1, 0, 0
        for each in operations:
            lanes = max(lanes, len(each.channels), len(each.semaphores))
            sizes = [one.size * self.units for one in (*each.sources, *each.targets)]
            if each.name in OF_PACKETS:
                packets = max([packets, *sizes])
            elif sizes:
                plain = max([plain, *sizes])
            inner = self.threads(each.inner) if each.inner else (1, 0, 0)
            lanes, packets, plain = max(lanes, inner[0]), max(packets, inner[1]), max(plain, inner[2])
        return lanes, packets, plain

    def wanted(self, call: int, rank: int, unit: int) -> set[int] | None:
        """The values that an output may hold."""
        plan, ranks = self.plan, self.plan.num_ranks
        inputs, outputs = (n * self.units for n in (plan.ranks[0].input_chunks, plan.ranks[0].output_chunks))
        name = plan.collective
        if name == "allreduce":
            return {sum(self.value[call, r, unit] for r in range(ranks))}
        if name == "reducescatter":
            return {sum(self.value[call, r, rank * outputs + unit] for r in range(ranks))}
        if name == "allgather":
            return {self.value[call, unit // inputs, unit % inputs]}
        if name == "alltoall":
            part = inputs // ranks
            return {self.value[call, unit // part, rank * part + unit % part]}
        if name == "broadcast":
            return {self.value[call, 0, unit]}
        if name == "sendrecv":
            return {self.value[call, (rank - 1) % ranks, unit]}
        return None

    # In what order.

    def start(self, steps: Iterator[Step], key: tuple[object, ...]) -> None:
        self.running[key] = steps
        self.waits[key] = None
        self.keys.append(key)

    def run(self) -> str:
        """`right`, `wrong`, or `hangs`."""
        self.running: dict[tuple[object, ...], Iterator[Step]] = {}
        self.waits: dict[tuple[object, ...], Step] = {}
        self.blocks: dict[tuple[int, int], Block] = {}
        self.keys: list[tuple[object, ...]] = []
        self.lazy: dict[tuple[object, ...], float] = {}
        hosts = [(chosen.rank, "host") for chosen in self.plan.ranks]
        for chosen in self.plan.ranks:
            self.start(self.host(chosen.rank), (chosen.rank, "host"))
            for number in range(len(chosen.peers_of(Channel.PORT))):
                self.start(self.port_agent((chosen.rank, number)), (chosen.rank, "port", number))
        while any(host in self.running for host in hosts):
            key = self.chosen()
            if key is None:
                return "hangs"
            for _ in range(self.dice.choice([1, 1, 5, 50])):
                if not self.step(key):
                    break
        return "wrong" if self.wrong else "right"

    def chosen(self) -> tuple[object, ...] | None:
        """Somebody who can go on, seldom one of those who are far behind the others; None: nobody can."""
        for _ in range(6):
            key = self.dice.choice(self.keys)
            if self.dice.random() < self.laziness(key):
                wait = self.waits[key]
                if wait is None or wait():
                    return key
        ready = [key for key, wait in self.waits.items() if wait is None or wait()]
        return self.dice.choices(ready, [self.laziness(key) for key in ready])[0] if ready else None

    def laziness(self, key: tuple[object, ...]) -> float:
        """How often an agent goes on when it could: a rank, a block, and a thread or a port have theirs."""
        for part in (key[:1], key[:2], key):
            if part not in self.lazy:
                above = self.lazy[part[:-1]] if len(part) > 1 else 1.0
                self.lazy[part] = above * self.dice.choice([1, 1, 1, 0.03])
        return self.lazy[key]

    def step(self, key: tuple[object, ...]) -> bool:
        """Whether it can go on at once."""
        wait = self.waits[key]
        if wait is not None and not wait():
            return False
        try:
            self.waits[key] = next(self.running[key])
        except StopIteration:
            del self.running[key], self.waits[key]
            self.keys.remove(key)
            self.ended(key)
            return False
        return True

    def ended(self, key: tuple[object, ...]) -> None:
        if key[1] != "host":
            self.blocks[key[:2]].threads -= 1


def outcomes(plan: ExecutionPlan, runs: int, *, units: int = 2, seed: int = 0) -> set[str]:
    """What random runs of a plan come to."""
    return {Machine(plan, units, random.Random(seed + k)).run() for k in range(runs)}


def goes_wrong(plan: ExecutionPlan, runs: int, *, units: int = 2, seed: int = 0) -> bool:
    """Whether one of this many random runs does not end right."""
    return any(Machine(plan, units, random.Random(seed + k)).run() != "right" for k in range(runs))
