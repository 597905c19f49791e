"""What is built at once, of several numbers of chunks, and handed over for files to be made of."""

from __future__ import annotations

import napkin_executor
import pytest

from taccl import synthesize
from taccl.encoding.core.options import SearchOptions
from taccl.errors import NoScheduleInTime
from taccl.support.budget import Budget
from taccl.synthesis.autotune.file_choice import Searched
from taccl.synthesis.autotune.first_look import built, listed
from taccl.synthesis.autotune.tuning import LOOK_MOST_CHUNKS
from taccl.synthesis.job import Job, formulate
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request
from taccl.synthesis.search import STOP, Answer, Progress
from taccl.topologies import PhysicalTopology, parse_topology

#: GPUs in a line, so that a message in one piece passes one link after another.
LINE = (
    """
name: line
occupancy: pipelined
gpus: 4
links:
  - {pairs: [0-1, 1-2, 2-3], alpha_us: 1, bandwidth_gbps: 40}
"""
    + napkin_executor.SECTION
)


def line() -> PhysicalTopology:
    return parse_topology(LINE)


def ring() -> PhysicalTopology:
    return parse_topology(LINE.replace("2-3]", "2-3, 0-3]"))


def job(
    collective: str = "broadcast", topology: PhysicalTopology | None = None, chunks: int | None = None
) -> Job:
    request = Request(collective, topology=topology or line(), size="16MB", chunks=chunks)
    return formulate(request, OutputOptions(file=False))


def looked(stated: Job, engine: str = "auto") -> Searched:
    options = SearchOptions(engine=engine, effort=2000)
    return built(stated, stated.configurations[0], options, Budget.of_work(2000))


def numbers(searched: Searched) -> set[int]:
    return {formulated.problem.collective.chunks_per_rank for formulated, _ in searched.all_found}


@pytest.mark.parametrize("collective", ["broadcast", "allgather", "allreduce"])
def test_several_numbers_of_chunks_are_handed_over_and_all_schedules_are_valid(collective: str) -> None:
    searched = looked(job(collective, ring()))
    assert len(numbers(searched)) > 2 and max(numbers(searched)) <= LOOK_MOST_CHUNKS
    for formulated, found in searched.all_found:
        found.schedule.check()
        assert found.schedule.problem is formulated.problem
        assert found.lower_bound_us <= found.schedule.makespan_us + 1e-6
    assert {each.chunks for each in searched.tried} == numbers(searched)
    assert [each.remark for each in searched.tried].count("chosen") == 1


@pytest.mark.parametrize("chunks", [None, 2])
def test_what_is_built_is_news_and_a_listener_may_end_the_look(chunks: int | None) -> None:
    stated, options, news = job(chunks=chunks), SearchOptions(effort=2000), list[Progress]()
    request = stated, stated.configurations[0], options

    def stop(progress: Progress) -> Answer:
        news.append(progress)
        return STOP

    searched = built(*request, Budget.of_work(2000), news.append)
    assert {each.time_us for each in news} >= {searched.found.schedule.makespan_us}
    named = {f"built at once, chunks {number}" for number in numbers(searched)}
    assert {each.stage for each in news} == (named if chunks is None else {"built at once"})
    news.clear()
    assert len(numbers(built(*request, Budget.of_work(2000), stop))) == len(news) == 1


def test_a_number_of_chunks_that_is_given_stays_the_only_one() -> None:
    assert numbers(looked(job(chunks=2))) == {2}


def test_where_another_engine_is_requested_nothing_is_built() -> None:
    with pytest.raises(NoScheduleInTime, match="another engine"):
        looked(job(), engine="greedy")


def test_where_there_is_no_time_nothing_is_built_and_list_scheduling_has_a_schedule_in_any_case() -> None:
    stated, options, none = job(), SearchOptions(effort=1), Budget.of_work(1)
    with pytest.raises(NoScheduleInTime, match="at once"):
        built(stated, stated.configurations[0], options, none)
    (only,) = listed(stated, stated.configurations[0], options, none, None).all_found
    only[1].schedule.check()


@pytest.mark.parametrize("chunks", [1, 4, 16])
def test_with_little_time_a_file_is_no_slower_than_with_chunks_that_are_given(
    chunks: int,
) -> None:
    few = {"topology": line(), "size": "16MB", "effort": 1500, "file": False}
    free, given = synthesize("broadcast", **few), synthesize("broadcast", chunks=chunks, **few)
    assert free.execution.time_us <= 1.1 * given.execution.time_us
