"""Which plan a call takes, and what one rank does then."""

import pytest

from taccl import bundle, synthesize
from taccl.deployment.jobs.plans import read_plans
from taccl.deployment.jobs.steps import steps_of
from taccl.errors import FileError, TacclError


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    for name in ("allgather", "allreduce"):
        found = synthesize(name, topology="ring:3", size="3KB", engine="greedy", time_limit=5, executor=False)
        found.write(folder / f"{name}.xml")
    return [folder / "allgather.xml", folder / "allreduce.xml"]


def test_a_call_takes_the_plan_of_its_collective(files):
    plans = read_plans(files)
    assert plans.plan_for("allgather", 3072).name == "allgather.xml"
    assert plans.plan_for("allreduce", 3072).name == "allreduce.xml"
    assert plans.plan_for("alltoall", 3072) is None


def test_all_ranks_together_do_what_the_rounds_say(files):
    plan = read_plans(files[0]).plans[0]
    rounds = plan.rounds(in_place=False)
    steps = [steps_of(rounds, rank) for rank in range(3)]
    sent = sorted((rank, peer) for rank in range(3) for each in steps[rank].rounds for peer, _ in each.sends)
    got = sorted(
        (peer, rank) for rank in range(3) for each in steps[rank].rounds for peer, _ in each.receives
    )
    assert sent == got == sorted((m.source, m.target) for each in rounds.rounds for m in each.messages)


def test_plans_for_another_number_of_ranks_are_refused(files):
    read_plans(files).check_ranks(3)
    with pytest.raises(TacclError, match="is for 3 ranks, and this group has 4"):
        read_plans(files).check_ranks(4)


def test_pipelined_rounds_are_other_plans_on_all_ranks(files):
    fewest, more = read_plans(files), read_plans(files, pipelined=True)
    assert fewest.digest != more.digest
    for a, b in zip(fewest.plans, more.plans, strict=True):
        assert len(a.rounds(in_place=False).rounds) <= len(b.rounds(in_place=False).rounds)


def test_other_files_have_another_digest(files):
    assert read_plans(files).digest == read_plans(files).digest
    assert read_plans(files).digest != read_plans(files[::-1]).digest


def test_what_is_no_plan_is_refused_with_its_name(tmp_path):
    with pytest.raises(FileError):
        read_plans(tmp_path / "nothing.xml")
    (tmp_path / "bad.xml").write_text("<algo/>")
    with pytest.raises(TacclError, match=r"bad\.xml"):
        read_plans(tmp_path / "bad.xml")
    with pytest.raises(TacclError, match="no plans"):
        read_plans([])


def test_a_bundle_gives_a_plan_for_each_window(tmp_path):
    made = bundle("allgather", topology="ring:3", sizes="3KB..6KB", effort=200, cache=False)
    made.write(tmp_path / "bundle")
    plans = read_plans(tmp_path / "bundle")
    assert plans.plan_for("allgather", 3072) is not None
    assert plans.plan_for("allgather", 2**30) is None
    for path in (tmp_path / "bundle").rglob("*.xml"):
        path.write_text(path.read_text() + "<!-- changed -->")
    with pytest.raises(FileError, match="SHA-256"):
        read_plans(tmp_path / "bundle")
