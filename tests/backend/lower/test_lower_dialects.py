import pytest

from taccl.backend.lower.dialects import SPELLINGS, dialects
from taccl.errors import CollectiveError
from taccl.model.collectives import COLLECTIVES


@pytest.mark.parametrize("name", ["allgather", "allreduce", "alltoall", "broadcast", "reduce"])
def test_one_file_serves_all_runtimes(name: str) -> None:
    (dialect,) = dialects(name, "all")
    assert (dialect.spelling, dialect.readers) == (name, ("msccl", "executor", "rccl"))


def test_reducescatter_has_two_spellings() -> None:
    assert [(d.spelling, d.readers) for d in dialects("reducescatter", "all")] == [
        ("reduce_scatter", ("msccl",)),
        ("reducescatter", ("executor", "rccl")),
    ]


def test_a_collective_of_ones_own_is_custom_and_for_msccl_alone() -> None:
    assert [(d.spelling, d.readers) for d in dialects("shuffle", "all")] == [("custom", ("msccl",))]
    with pytest.raises(CollectiveError, match="rccl has no collectives of one's own") as caught:
        dialects("shuffle", "rccl")
    assert caught.value.hint == "--target msccl"


def test_every_collective_is_known_to_some_runtime() -> None:
    for name in COLLECTIVES:
        assert any(name in words for words in SPELLINGS.values())
