"""Actions as acts of the machine: a chain of actions that wait for one another is a block."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.backend.flat_json.cells import Cells
from taccl.backend.flat_json.document import Action, ActionsProgram, Do
from taccl.backend.machine.acts import Acts, Kind, Machine, Names, Role, Stuck, Writer
from taccl.backend.machine.report import Location

#: The rank and the number of an action.
Place = tuple[int, int]


def unfold(program: ActionsProgram, cells: Cells) -> Machine:
    """The acts of a program whose structure is sound.

    A send moves its elements into a slot that only its receive reads. What an action waits for in its own
    block comes before it there; for all else an AWAIT comes before it.
    """
    chains, chain_of = _chains(program)
    act_of, number = dict[Place, int](), 0
    for rank, chain in chains:
        for index in chain:
            number += len(_awaited(program, (rank, index), chain_of)) + 1
            act_of[rank, index] = number - 1
    writer, places = Writer(), list[Place]()
    slots, counters = _Slots(program, cells), dict[tuple[int, int, int], int]()
    for rank, chain in chains:
        writer.block(rank)
        for index in chain:
            action = program.ranks[rank].actions[index]
            for other in _awaited(program, (rank, index), chain_of):
                writer.act(Kind.AWAIT, len(places), awaits=act_of[rank, other])
            message = slots.message(rank, action)
            counter = -1
            if message is not None:
                counter = counters[message] if message in counters else writer.counter()
                counters[message] = counter
            writer.act(
                Kind.MOVE,
                len(places),
                takes=counter if action.do is Do.RECEIVE else -1,
                gives=counter if action.do is Do.SEND else -1,
                amount=slots.count(rank, action),
            )
            writer.move(slots.operands(rank, action), slots.count(rank, action))
            places.append((rank, index))
    acts, moves = writer.columns()
    return Machine(acts, moves, cells.layout, ActionNames(program, acts, places, counters))


def _chains(program: ActionsProgram) -> tuple[list[tuple[int, list[int]]], dict[Place, int]]:
    """Per chain its rank and actions, each waiting for the one before it; and of each action its chain."""
    chains: list[tuple[int, list[int]]] = []
    chain_of: dict[Place, int] = {}
    for rank, of_rank in enumerate(program.ranks):
        for chain in of_rank.chains():
            chain_of |= dict.fromkeys(((rank, index) for index in chain), len(chains))
            chains.append((rank, chain))
    return chains, chain_of


def _awaited(program: ActionsProgram, place: Place, chain_of: dict[Place, int]) -> list[int]:
    """What an action waits for in other chains."""
    rank, index = place
    after = program.ranks[rank].actions[index].after
    return [other for other in after if chain_of[rank, other] != chain_of[place]]


class _Slots:
    """The operands of acts, with a slot for each message behind all memory."""

    def __init__(self, program: ActionsProgram, cells: Cells) -> None:
        self._cells = cells
        self._slot: dict[tuple[int, int, int], int] = {}
        free = cells.layout.num_cells
        for rank, of_rank in enumerate(program.ranks):
            for action in of_rank.actions:
                message = self.message(rank, action)
                if action.do is Do.SEND and message is not None:
                    self._slot[message] = free
                    free += self.count(rank, action)

    @staticmethod
    def message(rank: int, action: Action) -> tuple[int, int, int] | None:
        """The sender, the receiver and the number of what an action sends or receives."""
        if not action.do.travels:
            return None
        pair = (rank, action.peer) if action.do is Do.SEND else (action.peer, rank)
        return (*pair, action.message)

    def count(self, rank: int, action: Action) -> int:
        """The cells that it moves."""
        span = action.target if action.source is None else action.source
        return 0 if span is None else self._cells.count(rank, span, action.elements)

    def operands(self, rank: int, action: Action) -> list[tuple[int, int, int]]:
        """Sources, then targets, as `Writer.move` takes them."""
        message = self.message(rank, action)
        slot = -1 if message is None else self._slot[message]
        source = slot if action.source is None else self._cells.first(rank, action.source)
        target = slot if action.target is None else self._cells.first(rank, action.target)
        sources = [source] if action.do is not Do.REDUCE else [target, source]
        return [(cell, cell, 0) for cell in sources] + [(target, target, int(Role.TARGET))]


@dataclass(frozen=True, eq=False)
class ActionNames(Names):
    """How a file of actions speaks of acts; `places` has the rank and number of each operation."""

    program: ActionsProgram
    acts: Acts
    places: list[Place]
    counters: dict[tuple[int, int, int], int]

    def act(self, act: int) -> str:
        """`rank 0, action 3 (send)`."""
        rank, index = self.place(act)
        return f"rank {rank}, action {index} ({self.program.ranks[rank].actions[index].do.value})"

    def counter(self, counter: int) -> str:
        """`message 3 from rank 0 to rank 1`."""
        src, dst, number = next(key for key, value in self.counters.items() if value == counter)
        return f"message {number} from rank {src} to rank {dst}"

    def wait(self, stuck: Stuck) -> str:
        """What never comes."""
        if stuck.awaits >= 0:
            return f"waits for {self.act(stuck.awaits)}"
        return f"waits for {self.counter(stuck.counter)}"

    def place(self, act: int) -> Place:
        """The rank and the number of the action."""
        return self.places[int(self.acts.operation[act])]

    def location(self, act: int) -> Location:
        """An action counts as a step."""
        rank, index = self.place(act)
        return Location(rank, step=index)
