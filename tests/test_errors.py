import pickle
from pathlib import Path

import pytest

from taccl import errors
from taccl.errors import CheckError, SketchError, TacclError, VerificationError

ALL = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TacclError)]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({}, "an offset is no symmetry"),
        ({"path": "a.yaml"}, "a.yaml: an offset is no symmetry"),
        ({"path": Path("a.yaml"), "line": 3}, "a.yaml:3: an offset is no symmetry"),
        ({"line": 3}, "line 3: an offset is no symmetry"),
        ({"hint": "offset 2"}, "an offset is no symmetry\n  try: offset 2"),
        (
            {"path": "a.yaml", "line": 3, "hint": "offset 2"},
            "a.yaml:3: an offset is no symmetry\n  try: offset 2",
        ),
    ],
)
def test_an_error_says_where_what_and_what_to_try(place: dict, text: str) -> None:
    assert str(SketchError("an offset is no symmetry", **place)) == text


def test_a_failed_check_lists_its_findings_after_the_hint() -> None:
    error = VerificationError(
        "not right", path="a.xml", findings=["rank 0 hangs", "rank 1 hangs"], hint="less"
    )
    assert str(error) == "a.xml: not right\n  try: less\n  - rank 0 hangs\n  - rank 1 hangs"
    assert error.findings == ("rank 0 hangs", "rank 1 hangs")


def test_each_error_has_the_exit_code_of_its_meaning() -> None:
    codes = {kind.__name__: kind.exit_code for kind in ALL}
    assert codes == {
        "TacclError": 2,
        "FileError": 2,
        "UnitError": 2,
        "TopologyError": 2,
        "MeasurementError": 2,
        "SketchError": 2,
        "CollectiveError": 2,
        "TooLargeError": 2,
        "SolverError": 2,
        "ClusterError": 2,
        "XmlError": 2,
        "PlanError": 2,
        "InfeasibleError": 3,
        "NoScheduleInTime": 3,
        "OutOfMemory": 2,
        "CheckError": 4,
        "ScheduleError": 4,
        "ProgramLimitError": 4,
        "VerificationError": 4,
    }


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_says_what_it_means(kind: type[TacclError]) -> None:
    assert kind.__doc__


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_error_survives_the_way_from_another_process(kind: type[TacclError]) -> None:
    more = {"findings": ["one"]} if issubclass(kind, CheckError) else {}
    error = kind("message", path="p", line=2, hint="hint", **more)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
