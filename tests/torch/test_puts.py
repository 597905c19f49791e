"""One-sided messages, on memory and signals that threads share: what symmetric memory does, without a GPU."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'taccl[torch]'")
from taccl.deployment.jobs.steps import RankRound, RankSteps, run_steps  # noqa: E402
from taccl.torch.puts import Puts, puts_of, room_for  # noqa: E402

SLOT = 16  # bytes: four numbers, so that longer messages go in pieces


class Shared:
    """The symmetric memory of all ranks; a signal is set once, and taken once, as torch has it."""

    def __init__(self, size):
        self.memory = [torch.zeros(room_for(size, SLOT), dtype=torch.uint8) for _ in range(size)]
        self.signals, self.changed = set(), threading.Condition()

    def handle(self, rank):
        return Handle(self, rank)


class Handle:
    def __init__(self, shared, rank):
        self.shared, self.rank = shared, rank

    def get_buffer(self, rank, sizes, dtype, storage_offset):
        return self.shared.memory[rank].view(dtype)[storage_offset : storage_offset + sizes[0]]

    def put_signal(self, rank, channel, timeout_ms):
        self._when(lambda signal: signal not in self.shared.signals, (self.rank, rank, channel), "add")

    def wait_signal(self, rank, channel, timeout_ms):
        self._when(lambda signal: signal in self.shared.signals, (rank, self.rank, channel), "remove")

    def _when(self, ready, signal, then):
        with self.shared.changed:
            assert self.shared.changed.wait_for(lambda: ready(signal), timeout=20), (
                "ranks wait for each other"
            )
            getattr(self.shared.signals, then)(signal)
            self.shared.changed.notify_all()


@st.composite
def rounds(draw):
    """Rounds of two to four ranks: messages of any length between any two, each to a place of its own."""
    size = draw(st.integers(2, 4))
    pairs = [(a, b) for a in range(size) for b in range(size) if a != b]
    message = st.tuples(st.sampled_from(pairs), st.integers(1, 11))
    return size, draw(st.lists(st.lists(message, max_size=6), min_size=1, max_size=4))


@settings(max_examples=examples(12), deadline=None)
@given(rounds())
def test_every_message_arrives_and_nobody_waits_for_ever(drawn):
    size, some = drawn
    steps = [[] for _ in range(size)]
    wanted = [[] for _ in range(size)]
    written = [0] * size
    for each in some:
        sends, receives = [[] for _ in range(size)], [[] for _ in range(size)]
        for (source, target), length in each:
            sends[source].append((target, (0, length, length)))  # of the input: numbers from `length` on
            receives[target].append((source, (1, written[target], length)))
            wanted[target] += [100 * source + length + k for k in range(length)]
            written[target] += length
        for rank in range(size):
            steps[rank].append(RankRound(tuple(sends[rank]), tuple(receives[rank]), ()))
    shared, got = Shared(size), [torch.zeros(max(1, n), dtype=torch.int32) for n in written]

    def work(rank):
        inputs = 100 * rank + torch.arange(30, dtype=torch.int32)
        buffers = (inputs, got[rank], torch.empty(0, dtype=torch.int32))
        run_steps(
            RankSteps(30, written[rank], 0, (), tuple(steps[rank])),
            buffers,
            1,
            None,
            Puts(shared.handle(rank), rank, size, SLOT),
        )

    ranks = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    assert [tensor[:n].tolist() for tensor, n in zip(got, written, strict=True)] == wanted


def test_without_a_gpu_it_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Exception, match="one-sided messages need GPUs"):
        puts_of(None)
