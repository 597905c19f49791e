"""The thread blocks of a plan: actions as operations, with all that tells peers and each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from taccl.backend.lower_plan.emit import Emitter, End, own
from taccl.backend.lower_plan.graph import ADDING, Action, Graph, Message
from taccl.backend.lower_plan.landings import find_landings
from taccl.backend.lower_plan.places import Place
from taccl.backend.lower_plan.pulls import own_part
from taccl.backend.lower_plan.resources import Resources, Semaphores, find_semaphores
from taccl.backend.lower_plan.starts import Starts
from taccl.backend.lower_plan.switches import find_switch
from taccl.backend.lower_plan.together import find_puts_together
from taccl.backend.lower_plan.tuning import MAX_OPERANDS
from taccl.backend.plan import Channel, OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer, Op


class Blocks:
    """The thread blocks of all ranks; `ends` has for each how many operations there are after each action."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.landings, self.resources = graph, find_landings(graph), Resources.of(graph)
        #: by first receive, the sum that adds what is pulled there and until itself
        self.pulled_rows: dict[int, int] = {}
        first_of: dict[int, int] = {}
        for message in graph.messages:
            if message.send in graph.pulls:
                last = graph.pulls[message.send]
                first_of[last] = min(message.receive, first_of.get(last, message.receive))
        self.pulled_rows = {first: last for last, first in first_of.items()}
        self.semaphores = self._find_semaphores()
        #: by first send, those that are one put; the last of them is reported, and heard
        self.together: dict[int, tuple[int, ...]] = {}
        self.runs = self._find_runs()
        self.starts = self._find_starts()
        self.handshakes = self._find_handshakes()
        self.together = self._find_together()
        self.untold = frozenset(send for row in self.together.values() for send in row[:-1])
        if self.together:
            self.runs = self._find_runs()
            self.starts = self._find_starts()
        self.reported_back = self.starts.reported_back()
        self.ends: list[list[int]] = []

    def ranks(self) -> list[RankPlan]:
        """What each rank does."""
        blocks: list[list[PlanBlock]] = [[] for _ in self.graph.node_of]
        for number, block in enumerate(self.graph.blocks):
            made, mine = self._block(number), blocks[block.rank]
            if made.operations:
                names = self.resources.blocks[number]
                operations = tuple(made.operations)
                mine.append(PlanBlock(len(mine), operations, names.block_channels(), names.block_remotes()))
        return [
            RankPlan(
                rank=rank,
                input_chunks=0,
                output_chunks=0,
                scratch_chunks=self.landings.scratch[rank],
                blocks=tuple(mine) or (PlanBlock(0, ()),),
                channels=self.resources.rank_channels(rank),
                remote_buffers=self.resources.remote_buffers(rank),
                semaphores=(0,) * self.semaphores.count[rank],
            )
            for rank, mine in enumerate(blocks)
        ]

    def _find_semaphores(self) -> Semaphores:
        return find_semaphores(self.graph, self.graph.known)

    def _find_handshakes(self) -> frozenset[int]:
        """The messages whose sender must hear first that the receiver's kernel has begun."""
        return self.starts.waiting()

    def _find_together(self) -> dict[int, tuple[int, ...]]:
        """Puts that are one where nobody hears of it later than it goes on anyway."""
        copied = (action for copy in self.graph.copies.values() for action in copy)
        waiting = {*self.handshakes, *self.semaphores.acquires, *copied}
        return find_puts_together(self.graph, self.landings, waiting, self.semaphores.releases)

    def _find_runs(self) -> list[list[list[Action]]]:
        """By block, its actions, together where they become one operation."""
        found = []
        for block in self.graph.blocks:
            mine = self.graph.actions[block.actions.start : block.actions.stop]
            runs: list[list[Action]] = []
            at = 0
            while at < len(mine):
                last = at + self.pulled_rows.get(mine[at].index, mine[at].index) - mine[at].index
                runs.append([*mine[at:last], *self._run(mine, last)])
                at += len(runs[-1])
            found.append(runs)
        return found

    def _find_starts(self) -> Starts:
        done_with = {action.index: run[0] for runs in self.runs for run in runs for action in run}
        return Starts(self.graph, self.landings, done_with)

    def _run(self, mine: Sequence[Action], first: int) -> list[Action]:
        """An action, and those behind it that become one operation with it.

        A sum is stored where it is copied, if nobody else wants it, and sent on in one pass; but not where
        another thread block waits for the sum, which would have to wait for its way, too.
        """
        taken = [mine[first]]
        if mine[first].index in self.graph.copies:
            return list(mine[first : first + len(self.graph.copies[mine[first].index])])
        if mine[first].index in self.together:
            return list(mine[first : first + len(self.together[mine[first].index])])
        if mine[first].index in self.graph.pulls:
            return [*taken, *takewhile(self._is_reported_with_others, mine[first + 1 :])]
        if mine[first].op is not Op.REDUCE or mine[first].index in self.graph.sums.put_off:
            return taken
        place, wanted = mine[first].target, [Op.SEND, Op.COPY]
        if mine[first].index in self.graph.pulls.values():  # of what is pulled, any number is sent on
            wanted = [Op.SEND] * (MAX_OPERANDS - 1) + [Op.COPY]
        for action in mine[first + 1 : first + 1 + len(wanted)]:
            if action.op not in wanted or action.source != place or not self._joins(action, taken):
                break
            wanted = wanted[wanted.index(action.op) + 1 :]
            taken.append(action)
        return taken

    def _joins(self, action: Action, taken: Sequence[Action]) -> bool:
        """Whether what becomes of a sum can be done with it."""
        graph = self.graph
        if (
            action.index in self.semaphores.acquires
            or action.index in graph.pulls
            or action.index in graph.copies
        ):
            return False
        if action.op is Op.SEND:
            return self._is_near(action) and not self._is_waited_for(taken)
        return self._is_wanted_here_only([*taken, action], action.source)

    def _is_reported_with_others(self, action: Action) -> bool:
        """Whether an action tells that something may be pulled, and neither waits nor is waited for."""
        waits = (self.semaphores.acquires, self.semaphores.releases)
        return action.index in self.graph.pulls and not any(action.index in each for each in waits)

    def _is_near(self, send: Action) -> bool:
        return self.graph.is_near(self.graph.sent[send.index])

    def _is_waited_for(self, run: Sequence[Action]) -> bool:
        return any(action.index in self.semaphores.releases for action in run)

    def _is_wanted_here_only(self, run: Sequence[Action], place: Place) -> bool:
        """Whether nothing but these actions, and what is done before them, reads or writes a place."""
        mine = {action.index for action in run}
        return place.buffer is Buffer.SCRATCH and all(
            user in mine or self.graph.is_before(user, run[0].index)
            for user in self.graph.users(run[0].rank, place)
        )

    def _block(self, number: int) -> Emitter:
        made, graph = Emitter(), self.graph
        mine = [graph.actions[index] for index in graph.blocks[number].actions]
        heard = [graph.received[action.index] for action in mine if action.index in graph.received]
        made.tell_started([self._end(each, number) for each in heard if each.send in self.handshakes])
        ends: list[int] = []
        for run in self.runs[number]:
            self._emit(run, made)
            ends += [len(made.operations)] * len(run)
        reported = [graph.sent[action.index] for action in mine if action.index in self.reported_back]
        made.wait([self._end(each, number) for each in reported])
        made.finish()
        self.ends.append([min(each, len(made.operations)) for each in ends])  # it waits for several at once
        return made

    def _end(self, message: Message, block: int) -> End:
        """A thread block's end of the channel of a message."""
        kind = self.resources.kind(message.src, message.dst)
        return kind, self.resources.channel(block, message.connection)

    def _emit(self, run: Sequence[Action], made: Emitter) -> None:
        """An action, or several that become one operation."""
        first, graph = run[0], self.graph
        self._acquire(run, made)
        received = graph.received.get(first.index)
        sending = next((action for action in run if action.index in graph.sent), None)
        if first.index in self.pulled_rows:
            self._pull(run, made)
        elif first.index in graph.copies:
            self._copy(run, made)
        else:
            if received is not None and received.send not in self.untold:
                made.wait([self._end(received, first.block)])
            if sending is not None and sending.index in self.handshakes:
                made.wait([self._end(graph.sent[sending.index], sending.block)], relaxed=True)
            self._move(run, received, sending, made)
        if received is not None and received.send in self.reported_back and received.send in graph.apart:
            made.signal([self._end(received, first.block)])
        self._release(run, made)

    def _acquire(self, run: Sequence[Action], made: Emitter) -> None:
        for action in run:
            for semaphore in self.semaphores.acquires.get(action.index, ()):
                made.acquire(semaphore)

    def _release(self, run: Sequence[Action], made: Emitter) -> None:
        releases = [each for action in run for each in self.semaphores.releases.get(action.index, ())]
        if releases:
            made.release(releases)

    def _move(
        self, run: Sequence[Action], received: Message | None, sending: Action | None, made: Emitter
    ) -> None:
        """What actions do with data, once there is nothing to wait for; none of it is pulled here."""
        first, sent = run[0], self.graph.sent
        if first.index in self.graph.pulls:
            made.signal([self._end(sent[action.index], action.block) for action in run])
        elif first.op is Op.REDUCE:
            self._sum(run, sending, made)
        elif first.index in self.together:
            targets = [self._remote(action) for action in run]
            made.work(OpName.PUT, [action.source for action in run], [], targets, Channel.MEMORY)
            made.signal([self._end(sent[run[-1].index], first.block)])
        elif first.op is Op.COPY and first.source != first.target:
            alone = self._is_alone(first)
            made.work(OpName.COPY, [first.source], [first.target], alone=alone)
        elif received is not None and first.op in ADDING:
            self._add(first, received, made)
        elif received is not None:
            landed = self.landings.at[received.send]
            if sending is not None:
                self._put(sending, landed, made)
            if received.send not in self.landings.direct:
                made.work(OpName.COPY, [landed], [first.target])
        elif sending is not None:
            self._put(sending, sending.source, made)

    def _copy(self, run: Sequence[Action], made: Emitter) -> None:
        """One place to all members of a switch, by the switch if it lands at one place of all of them."""
        graph, first = self.graph, run[0]
        sends = [action for action in run if action.op is Op.SEND]
        self._wait_for_starts(sends, made)
        taken, gone = first.source, {graph.sent[action.index].dst: self._landed(action) for action in sends}
        stored = first.target if first.op is Op.COPY else taken
        members = find_switch(graph, first.rank, {**gone, first.rank: stored})
        if members:
            made.switch(
                OpName.SWITCH_STORE, taken, own(taken), stored, self._on_switch(members, first, stored)
            )
            made.signal([self._end(graph.sent[action.index], action.block) for action in sends])
            return
        for action in run:
            self._move([action], None, action if action.op is Op.SEND else None, made)

    def _wait_for_starts(self, sends: Sequence[Action], made: Emitter) -> None:
        """Until the kernels of all receivers have begun, as far as that is not known."""
        requested = [each for each in sends if each.index in self.handshakes]
        made.wait([self._end(self.graph.sent[each.index], each.block) for each in requested], relaxed=True)

    def _pull(self, run: Sequence[Action], made: Emitter) -> None:
        """A sum of what the rank has and what senders have, and what becomes of it."""
        graph, block = self.graph, run[0].block
        heard = [graph.received[action.index] for action in run if action.op is Op.RECV]
        sends = [action for action in run if action.op is Op.SEND]
        made.wait([self._end(message, block) for message in heard])
        self._wait_for_starts(sends, made)
        first, last = run[1], run[-1]
        stored, mine = last.target if last.op is Op.COPY else first.target, own_part(first, run[0])
        there = {message.src: graph.actions[message.send].source for message in heard}
        gone = {graph.sent[action.index].dst: self._landed(action) for action in sends}
        gone[first.rank] = stored
        members = find_switch(graph, first.rank, {**there, first.rank: mine}, gone)
        if members:
            source, target = (self._on_switch(members, first, place) for place in (mine, stored))
            made.switch(OpName.SWITCH_REDUCE_STORE, mine, source, stored, target)
        else:
            pulled = [
                Range(place.index, place.size, remote=self._number(first, owner, place))
                for owner, place in there.items()
            ]
            name = OpName.READ_REDUCE_SEND if sends else OpName.READ_REDUCE
            targets = [self._remote(action) for action in sends]
            made.work(name, [mine], [stored], targets, Channel.MEMORY, behind=pulled)
        signalled = [graph.sent[action.index] for action in sends]
        signalled += [message for message in heard if message.send in self.reported_back]
        made.signal([self._end(message, block) for message in signalled])

    def _sum(self, run: Sequence[Action], sending: Action | None, made: Emitter) -> None:
        """A sum, and what becomes of it, in one operation; nothing, if another one does it."""
        first, last = run[0], run[-1]
        if first.index in self.graph.sums.put_off:
            return
        reads = [first.target, *self.graph.sums.also.get(first.index, ()), first.source]
        self._reduce(reads, last.target if last.op is Op.COPY else first.target, sending, made)

    def _add(self, action: Action, received: Message, made: Emitter) -> None:
        landed = self.landings.at[received.send]
        stored = action.target if action.writes else landed
        sending = action if action.index in self.graph.sent else None
        if sending is not None and not self._is_near(action):
            self._reduce([action.source, landed], stored, None, made)
            self._put(action, stored, made)
        else:
            self._reduce([action.source, landed], stored, sending, made)

    def _reduce(self, reads: Sequence[Place], stored: Place, sending: Action | None, made: Emitter) -> None:
        """A sum, which may be sent on to a rank of the node in one pass."""
        if sending is None:
            made.work(OpName.REDUCE, reads, [stored])
            return
        made.work(OpName.REDUCE_SEND, reads, [stored], [self._remote(sending)], Channel.MEMORY)
        made.signal([self._end(self.graph.sent[sending.index], sending.block)])

    def _is_alone(self, copy: Action) -> bool:
        """Whether nothing else touches what is copied, but to read it, and where it goes."""
        graph = self.graph
        readers = [graph.actions[each] for each in graph.users(copy.rank, copy.source) - {copy.index}]
        return (
            copy.source.buffer is not Buffer.SCRATCH
            and graph.users(copy.rank, copy.target) == {copy.index}
            and all(each.op is Op.SEND or not each.target.overlaps(copy.source) for each in readers)
        )

    def _put(self, action: Action, taken: Place, made: Emitter) -> None:
        message, there = self.graph.sent[action.index], self._remote(action)
        kind, channel = self._end(message, action.block)
        if kind is Channel.MEMORY:
            made.work(OpName.PUT, [taken], [], [there], kind)
            made.signal([(kind, channel)])
        else:
            stays = self.starts.stays(message, taken)
            made.push(OpName.PUT_SIGNAL if stays else OpName.PUT_SIGNAL_FLUSH, [channel], [taken], [there])

    def _landed(self, send: Action) -> Place:
        """Where what an action sends lands."""
        return self.landings.at[send.index]

    def _remote(self, send: Action) -> Range:
        """The same as an operand."""
        place = self._landed(send)
        owner = self.graph.sent[send.index].dst
        return Range(place.index, place.size, remote=self._number(send, owner, place))

    def _number(self, action: Action, owner: int, place: Place) -> int:
        """Which of the remote buffers of an action's block has a place of another rank."""
        return self.resources.remote(action.rank, action.block, owner, place.buffer)

    def _on_switch(self, members: tuple[int, ...], action: Action, place: Place) -> Range:
        """A place at all members of a switch, as an operand."""
        number = self.resources.switch(action.rank, action.block, members, place.buffer)
        return Range(place.index, place.size, switch=number)
