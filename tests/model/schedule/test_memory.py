"""What helpers hold: relays of one and two chunks of memory."""

import numpy as np
from napkin_schedules import findings, planned
from strategies_schedule import machine

from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology

#: Two members around rank 2. A chunk of 1 MB takes 3 us on each link.
AROUND = [(0, 2), (2, 1), (1, 2), (2, 0)]


def relay(memory_mb: float, **can: bool) -> LogicalTopology:
    abilities = {name: np.array([True, True, may]) for name, may in can.items()}
    limits = {"memory_mb": np.array([np.inf, np.inf, memory_mb]), "helper_names": ("relay",)}
    return machine(3, AROUND, is_helper=np.arange(3) == 2, **limits, **abilities)


def broadcast(memory_mb: float, *sends):
    return planned(make_collective("broadcast", 2, 2).with_helpers(1), list(sends), relay(memory_mb))


def test_a_chunk_leaves_a_full_relay_before_the_next_one_is_there():
    broadcast(1.0, ([0], (0, 2), 0.0), ([0], (2, 1), 3.0), ([1], (0, 2), 3.0), ([1], (2, 1), 6.0)).check()


def test_a_relay_that_would_hold_two_chunks_with_memory_for_one_is_refused():
    late = (([0], (0, 2), 0.0), ([1], (0, 2), 3.0), ([0], (2, 1), 4.0), ([1], (2, 1), 7.0))
    assert findings(broadcast(1.0, *late)) == (
        "relay (rank 2) holds 2 MB at 6.000 us, and has memory for 1 MB",
    )
    broadcast(2.0, *late).check()


def test_a_chunk_larger_than_the_memory_is_refused():
    whole = (([0], (0, 2), 0.0), ([0], (2, 1), 3.0), ([1], (0, 2), 3.0), ([1], (2, 1), 6.0))
    assert "has memory for 0.5 MB" in findings(broadcast(0.5, *whole))[0]


def test_what_never_leaves_stays():
    kept = (([0], (0, 2), 0.0), ([1], (0, 2), 3.0), ([1], (2, 1), 6.0), ([0], (2, 1), 9.0))
    broadcast(2.0, *kept).check()
    assert "holds 2 MB" in findings(broadcast(1.0, *kept))[0]


def test_contributions_to_one_sum_share_the_room_of_a_chunk():
    allreduce = make_collective("allreduce", 2, 1).with_helpers(1)
    sends = [([0, 1], (0, 2), 0.0, "add"), ([0, 1], (1, 2), 0.0, "add")]
    sends += [([0, 1], (2, 0), 5.0), ([0, 1], (2, 1), 5.0)]
    planned(allreduce, sends, relay(2.0)).check()
    assert "holds 2 MB" in findings(planned(allreduce, sends, relay(1.0)))[0]
