"""`taccl deploy`: a module for some plans, and what to type for a first run."""

import ast
import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Taccl = Callable[..., Result]

PLANS = Path(__file__).parents[1] / "data" / "mscclpp"


@pytest.fixture
def plans(taccl: Taccl) -> Taccl:
    """The folder that the commands run in has three plans."""
    for new, old in (("ag", "napkin-allgather_2"), ("ar", "napkin-allreduce_2"), ("b", "napkin-relay_3")):
        shutil.copy(PLANS / f"{old}.json", f"{new}.json")
    Path("ar-too.json").write_text(Path("ar.json").read_text().replace('"ar2"', '"ar2-too"'))
    return taccl


def test_a_module_is_written_and_the_commands_are_told(plans: Taccl) -> None:
    done = plans("deploy", "ag.json", "ar.json", "-o", "mine.py")
    assert done.exit_code == 0, done.stderr
    ast.parse(Path("mine.py").read_text())
    assert "wrote mine.py: 2 plans" in done.stdout
    assert f"-path {Path('ar.json').resolve()} --size" in done.stdout
    assert (
        "LD_PRELOAD=$MSCCLPP_BUILD/lib/libmscclpp_nccl.so torchrun --nnodes=1 --nproc_per_node=2"
        in done.stdout
    )
    assert "Starting execution with plan: ar2, collective: allreduce" in done.stdout
    assert "file='ar.json'" in Path("mine.py").read_text()


def test_a_module_names_its_plans_from_where_it_is(plans: Taccl) -> None:
    Path("there").mkdir()
    assert plans("deploy", "ag.json", "-o", "there/mine.py").exit_code == 0
    assert "file='../ag.json'" in Path("there/mine.py").read_text()


def test_a_folder_has_the_plans_beside_the_module(plans: Taccl) -> None:
    done = plans("deploy", "ag.json", "ar.json", "-o", "new")
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in Path("new").iterdir()) == ["ag.json", "ar.json", "taccl_plans.py"]
    assert Path("new/ag.json").read_bytes() == Path("ag.json").read_bytes()
    assert f"-path {Path('new/ag.json').resolve()}" in done.stdout
    again = plans("deploy", "ag.json", "-o", "new")
    assert (again.exit_code, "the folder is not empty" in again.stderr) == (2, True)


def test_standard_output_has_the_module_for_itself(plans: Taccl) -> None:
    done = plans("deploy", "ag.json", "-o", "-")
    ast.parse(done.stdout)
    assert str(Path("ag.json").resolve()) in done.stdout
    assert "executor_test.py" in done.stderr


def test_commands_for_several_nodes_name_hosts_and_nics(plans: Taccl) -> None:
    done = plans("deploy", "ag.json", "b.json", "-o", "mine.py", "--ranks-per-node", "1")
    network = "MSCCLPP_HCA_DEVICES=$NICS", "MSCCLPP_SOCKET_IFNAME=$INTERFACE", "MSCCLPP_IB_GID_INDEX="
    hosts = "mpirun -np 2 -hostfile $HOSTS -map-by ppr:1:node -x MSCCLPP_HCA_DEVICES=$NICS"
    assert hosts in done.stdout and "--nnodes=3 --nproc_per_node=1 --rdzv_backend=c10d" in done.stdout
    assert all(done.stdout.count(each) == 3 for each in network)  # a test, and two numbers of nodes
    assert done.stdout.count("  where  ") == 1
    assert "MSCCLPP_HCA_DEVICES" not in plans("deploy", "ag.json", "-o", "mine.py").stdout


def test_the_order_is_that_of_predicted_times_where_a_machine_is_named(plans: Taccl) -> None:
    both = ("deploy", "ar.json", "ar-too.json", "-o", "mine.py")
    done = plans(*both)
    assert "the one given first is taken" in done.stdout
    shown = json.loads(plans(*both, "--topology", "switch:2", "--json").stdout)
    assert {each["name"] for each in shown["predicted"]} == {"ar2", "ar2-too"}
    assert all(each["lower_bound_us"] <= each["time_us"] for each in shown["predicted"])
    assert shown["notes"] == []


def test_a_name_is_text_and_never_code(plans: Taccl) -> None:
    name = '"""\n\x1b[31m\\'
    Path("odd.json").write_text(Path("ar.json").read_text().replace('"ar2"', json.dumps(name)))
    done = plans("deploy", "odd.json", "-o", "mine.py")
    assert done.exit_code == 0, done.stderr
    assert "\x1b" not in done.stdout
    spec = importlib.util.spec_from_file_location("mine", "mine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PLANS[0].name == name


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("ag.json", "-o", "ag.json"), 2, "ag.json is for a plan"),
        (("ag.json", "ag.json", "-o", "mine.py"), 2, "is given more than once"),
        (("ag.json", "-o", "my-plans.py"), 2, "Python imports no module of this name"),
        (("ag.json", "-o", "class.py"), 2, "Python imports no module of this name"),
        (("ag.json", "-o", "-", "--json"), 2, "both want standard output"),
        (("b.json", "-o", "mine.py"), 2, "--ranks-per-node N"),
        (("wrong.json", "-o", "mine.py"), 4, "the plan is wrong, so it is not deployed"),
        (("none.json", "-o", "mine.py"), 2, "none.json"),
        (("empty.json", "-o", "mine.py"), 2, "empty.json: the file is empty"),
        (("ar.json", "ar-too.json", "-o", "mine.py", "--topology", "ring:3"), 2, "ring:3 has 3"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_refused_writes_nothing(plans: Taccl, words: tuple[str, ...], code: int, why: str) -> None:
    Path("wrong.json").write_text(Path("ar.json").read_text().replace('"name": "wait"', '"name": "nop"', 1))
    Path("empty.json").touch()
    before = {path: path.read_bytes() for path in Path().iterdir()}
    done = plans("deploy", *words)
    assert (done.exit_code, why in done.stderr) == (code, True), done.stderr
    assert {path: path.read_bytes() for path in Path().iterdir()} == before
