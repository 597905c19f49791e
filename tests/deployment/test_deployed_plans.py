"""What is known of a plan that is to be deployed, and which plans are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from taccl.backend.mscclpp import parse_plan, to_json
from taccl.backend.plan import Channel, ExecutionPlan, RankChannels, RankPlan, RemoteBuffer
from taccl.backend.program import Buffer
from taccl.deployment.first_run import cautions
from taccl.deployment.plans import ranks_per_node_of, read_plans
from taccl.errors import PlanError, TacclError, VerificationError, XmlError

PLANS = Path(__file__).parents[1] / "data" / "mscclpp"


@pytest.mark.parametrize(
    ("name", "per_node", "in_place", "unit", "root", "whole"),
    [
        ("napkin-allgather_2", 2, {False}, 32, None, False),
        ("napkin-allreduce_2", 2, {False}, 32, None, False),
        ("napkin-relay_3", 1, {False}, 16, 0, True),
        ("repo-allreduce_packet_2", 2, {True}, 64, None, False),
    ],
)
def test_the_calls_that_a_plan_serves(
    name: str, per_node: int, in_place: set[bool], unit: int, root: int | None, whole: bool
) -> None:
    (plan,) = read_plans([PLANS / f"{name}.json"], ranks_per_node=per_node)
    assert in_place <= set(plan.in_place)
    assert (plan.ranks_per_node, plan.unit_bytes, plan.root) == (per_node, unit, root)
    assert plan.needs_whole_buffers == whole
    assert plan.min_bytes % unit == plan.max_bytes % unit == 0 < plan.min_bytes
    assert plan.max_bytes < 2**32


def test_memory_channels_tell_the_ranks_of_a_node() -> None:
    (plan,) = read_plans([PLANS / "napkin-allreduce_2.json"])
    assert plan.ranks_per_node == 2
    with pytest.raises(TacclError, match="do not tell how many of the 3 ranks are on a node"):
        read_plans([PLANS / "napkin-relay_3.json"])
    with pytest.raises(TacclError, match="2 ranks per node, and 3 ranks in all"):
        read_plans([PLANS / "napkin-relay_3.json"], ranks_per_node=2)


def test_two_plans_of_one_name_are_refused(tmp_path: Path) -> None:
    """They would share the runtime's context."""
    other = tmp_path / "other.json"
    plan = parse_plan((PLANS / "napkin-allgather_2.json").read_bytes())
    other.write_text(to_json(replace(plan, name="ar2")))
    with pytest.raises(TacclError, match="two plans of one name") as refused:
        read_plans([PLANS / "napkin-allreduce_2.json", other])
    assert refused.value.path == str(other)


def test_a_plan_that_is_wrong_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    text = (PLANS / "napkin-allreduce_2.json").read_text()
    broken.write_text(text.replace('"name": "wait"', '"name": "nop"', 1))
    with pytest.raises(VerificationError, match="not deployed") as refused:
        read_plans([PLANS / "napkin-allgather_2.json", broken])
    assert refused.value.findings
    assert refused.value.path == str(broken)


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    file.write_text("<algo/>")
    with pytest.raises(PlanError, match=r"is a file for the target 'all' \(.*\), not a plan"):
        read_plans([file])
    file.write_text("<foo/>")
    with pytest.raises(XmlError, match="the first element is <foo>, not <algo>"):
        read_plans([file])
    with pytest.raises(TacclError, match="no plan to deploy"):
        read_plans([])


@pytest.mark.parametrize(
    ("peers", "per_node"),
    [(((1,), (0,), (3,), (2,)), 2), (((1, 2), (0, 3), (0, 3), (1, 2)), 4), (((2,), (3,), (0,), (1,)), None)],
    ids=["two nodes", "one node", "ranks out of order"],
)
def test_ranks_that_memory_channels_join_are_a_node(
    peers: tuple[tuple[int, ...], ...], per_node: int | None
) -> None:
    rows = tuple(
        RankPlan(rank, 1, 1, 0, (), channels=(RankChannels(Channel.MEMORY, each),))
        for rank, each in enumerate(peers)
    )
    plan = ExecutionPlan("p", "allreduce", "Simple", False, rows)
    if per_node is None:
        with pytest.raises(TacclError, match="do not tell"):
            ranks_per_node_of(plan, None)
    else:
        assert ranks_per_node_of(plan, None) == per_node
    assert ranks_per_node_of(plan, 1) == 1


def test_packets_tell_nodes_without_channels() -> None:
    """They need no signals: who writes into scratch of whom is all that there is."""
    rows = tuple(
        RankPlan(
            rank, 1, 1, 1, (), remote_buffers=(RemoteBuffer(rank ^ 1, Buffer.SCRATCH, (Channel.MEMORY,)),)
        )
        for rank in range(4)
    )
    plan = ExecutionPlan("p", "allreduce", "LL", True, rows)
    assert ranks_per_node_of(plan, None) == 2


def test_what_plans_share_with_others_is_said() -> None:
    """The runtime has one scratch for all plans that reuse resources, and its own kernels write into it."""
    (plan,) = read_plans([PLANS / "repo-allreduce_packet_2.json"])
    assert not any("reuse_resources" in each for each in cautions(plan))
    reusing = replace(plan, plan=replace(plan.plan, reuse_resources=True))
    assert sum("reuse_resources its scratch" in each for each in cautions(reusing)) == 1
