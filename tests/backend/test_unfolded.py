"""What files unfold into: facts that hold for every format, and settings that each refuses."""

from dataclasses import replace

import pytest
from programs import ring_allgather, ring_allreduce

from taccl import make_problem
from taccl.backend.one_sided import OneSided
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.two_sided import TwoSided
from taccl.backend.unfolded import Unfolded
from taccl.errors import TacclError, VerificationError
from tests.backend.plan_examples import multicast_allreduce
from tests.backend.plans import plan_of

PROGRAM = TwoSided.of(ring_allreduce(4))
PLAN = OneSided.of(plan_of("napkin-allreduce_2"))


def network(ranks: int):
    return make_problem("allreduce", topology=f"full:{ranks}", size="1MB", chunks=1).problem.topology


@pytest.mark.parametrize("file", [PROGRAM, PLAN], ids=["two-sided", "one-sided"])
def test_a_file_says_what_it_is_for_and_does_it(file: Unfolded) -> None:
    assert file.collective == "allreduce"
    assert file.chunks == file.chunks_of_size
    file.check(None, None)
    assert file.verify(None, None).facts.num_ranks == file.num_ranks
    by_links = SimulationSettings(links_only=True)
    simulated = file.simulate(network(file.num_ranks), 0.25, by_links)
    assert simulated.time_us > 0 and simulated.launch_us is None
    assert file.timeline(simulated).unit == "us"
    assert file.timeline().unit == "step"
    assert any("allreduce" in line for line in file.describe(simulated=simulated))


def test_only_a_program_of_sends_and_receives_relays_pieces() -> None:
    assert PROGRAM.two_sided is PROGRAM.program and PROGRAM.relays is not None
    assert (PROGRAM.relays.blocks, PROGRAM.relays.fused) == ((1, 1, 1, 1), True)
    assert PLAN.two_sided is None and PLAN.relays is None


def test_only_bounds_of_plans_that_use_switches_do_not_hold() -> None:
    assert PROGRAM.unbounded is None and PLAN.unbounded is None
    assert "sums or copies in a switch" in (OneSided.of(multicast_allreduce()).unbounded or "")


@pytest.mark.parametrize(
    ("file", "settings", "said"),
    [
        (PROGRAM, SimulationSettings(proxy_us=1.0), "only plans have proxies"),
        (PLAN, SimulationSettings(slots=2), "a number of slots means nothing"),
        (PLAN, SimulationSettings(arbitration="first-come"), "an arbitration means nothing"),
    ],
)
def test_a_setting_that_means_nothing_for_a_file_is_refused(
    file: Unfolded, settings: SimulationSettings, said: str
) -> None:
    with pytest.raises(TacclError, match=said):
        file.simulate(network(file.num_ranks), 0.25, settings)


def test_a_simulation_of_one_kind_of_file_is_not_drawn_as_another() -> None:
    ran = PLAN.simulate(network(2), 0.25, SimulationSettings())
    with pytest.raises(TacclError, match="no timeline of steps"):
        TwoSided.of(ring_allgather(2)).timeline(ran)


def test_what_no_runtime_would_execute_has_no_time() -> None:
    with pytest.raises(VerificationError, match="no time") as caught:
        TwoSided.of(replace(ring_allreduce(4), chunks_per_loop=0)).check(None, None)
    assert caught.value.findings
