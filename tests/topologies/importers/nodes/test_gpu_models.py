"""The model of a GPU comes from any line of a paste, or from the user; else a warning says so."""

import pytest

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.gpu_models import unnamed_generation, with_model
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.registry import parse_dump


def topo(numa="N/A", links="NV18", gpus=4):
    names = [f"GPU{i}" for i in range(gpus)]
    rows = [
        "\t".join([name, *("X" if name == other else links for other in names), "0-3", "0", numa])
        for name in names
    ]
    return "\n".join(["\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]), *rows]) + "\n"


@pytest.mark.parametrize(
    "above",
    [
        "".join(f"GPU {i}: NVIDIA B200 (UUID: GPU-{i})\n" for i in range(4)),
        "GPU 0,1,2,3: NVIDIA B200\n",
        "GPU 0,1,..: NVIDIA B200\n",
        "|   0  NVIDIA B200                    On  |   00000000:1B:00.0 Off |                    0 |\n",
        "#  Rank  0 Group  0 Pid  8415 on  node01 device  0 [0000:1b:00] NVIDIA B200\n",
    ],
    ids=["nvidia-smi -L", "a list", "a shortened list", "nvidia-smi", "nccl-tests"],
)
def test_a_line_of_the_paste_names_the_generation(above):
    machine = make_machine(parse_dump(above + topo()))
    assert machine.gpu_gbps == (721.8,) * 4
    assert not any("Hopper" in warning for warning in machine.warnings)


def test_lines_of_several_machines_name_none():
    dump = parse_dump("GPU 0: NVIDIA B200 (UUID: a)\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: b)\n" + topo())
    assert {gpu.model for gpu in dump.gpus} == {None}


@pytest.mark.parametrize(
    "line", ["Device name: NVIDIA B200\n", "Our 8xB200 box:\n", "NVIDIA B200, 00:1B:00.0\n"]
)
def test_a_line_of_prose_that_mentions_one_generation_is_believed_with_a_warning(line):
    machine = make_machine(parse_dump("hello\n" + line + topo(), "topo.txt"))
    assert machine.gpu_gbps == (721.8,) * 4
    assert machine.warnings == ("topo.txt:2: the GPUs are taken for B200, which this line mentions",)


def test_a_line_that_compares_two_generations_is_not():
    dump = parse_dump("B200 is faster than H100\n" + topo())
    assert {gpu.model for gpu in dump.gpus} == {None}


@pytest.mark.parametrize(
    ("text", "gbps", "taken", "others"),
    [
        (topo(), 370.8, "Hopper", "Blackwell"),
        (topo("8"), 721.8, "Grace Blackwell", "Grace Hopper at NVLink switches"),
        (topo(links="NV8"), 160, "the A800", "the H800"),
        (topo(links="NV12", gpus=2), 240, "the A100 as a card", "the H100 as a card"),
    ],
)
def test_a_number_of_links_of_several_models_is_told(text, gbps, taken, others):
    machine = make_machine(parse_dump(text, "topo.txt"))
    assert set(machine.gpu_gbps) == {gbps}
    warning = machine.warnings[-1]
    assert warning.startswith("topo.txt:2: ")
    assert f"NVLinks of a GPU are of {taken} or of {others}: {taken} is taken" in warning
    assert "--gpu" in warning


def test_the_user_names_the_model():
    machine = make_machine(parse_dump(topo()), gpu="B200")
    assert machine.gpu_gbps == (721.8,) * 4
    assert unnamed_generation(machine.dump) is None


def test_a_model_that_a_line_contradicts_is_refused_with_the_line():
    dump = parse_dump("GPU 0,1,2,3: NVIDIA H100 80GB HBM3\n" + topo(), "topo.txt")
    with pytest.raises(TopologyError, match="GPU 0 is H100 80GB HBM3 here, but --gpu says B200") as error:
        with_model(dump, "B200")
    assert (error.value.path, error.value.line) == ("topo.txt", 3)
    with pytest.raises(TopologyError, match="no GPU called 'X9'"):
        with_model(dump, "X9")


def test_memory_of_gpus_in_numa_nodes_means_grace():
    dump = parse_dump(topo("8"))
    assert [cpu.arch for cpu in dump.cpus] == ["arm64"]
    assert parse_dump(topo()).cpus is None


def test_a_network_of_a_speed_that_no_file_tells_is_told_where_there_are_nodes_to_join():
    rows = ["GPU0\tX\tNV18\tPIX", "GPU1\tNV18\tX\tPIX", "NIC0\tPIX\tPIX\tX"]
    text = "\n".join(["GPU 0,1: NVIDIA B200", "\tGPU0\tGPU1\tNIC0", *rows, ""])
    dump = parse_dump(text)
    said = (
        "no file tells the speed of a NIC: 25 GB/s is taken between nodes; edit `fabric` in the machine file"
    )
    assert said in make_machine(dump, nodes=2).warnings
    assert said not in make_machine(dump).warnings


@pytest.mark.parametrize(
    ("text", "gpu", "model", "how"),
    [
        ("GPU 0,1,2,3: NVIDIA H100 80GB HBM3\n" + topo(), None, "H100", "inferred"),
        ("GPU 0: NVIDIA A100-SXM4-80GB (UUID: a)\n" + topo(links="NV12"), None, "A100", "inferred"),
        (topo(), "b200", "B200", "inferred"),
        (topo(), None, "H100", "assumed"),
        (topo("8"), None, "GB200", "assumed"),
        (topo(links="NV2"), None, "V100", "assumed"),
        (topo(links="NV8"), None, "A800", "assumed"),
    ],
)
def test_the_machine_file_says_of_which_model_its_gpus_are(text, gpu, model, how):
    machine = make_machine(parse_dump(text), gpu=gpu)
    assert machine.topology.gpu == model
    (row,) = [row for row in machine.values if row.quantity == "model of the GPUs"]
    assert (row.value, row.how) == (model, how)


def test_gpus_of_two_models_are_of_none():
    text = "GPU 0: NVIDIA A100 80GB PCIe (UUID: a)\nGPU 1: NVIDIA H100 PCIe (UUID: b)\n" + topo(
        links="SYS", gpus=2
    )
    assert make_machine(parse_dump(text)).topology.gpu is None


def sums(text, **options):
    """GB/s of a GPU through the sums of its switch, and the helpers of the machine."""
    machine = make_machine(parse_dump(text, "topo.txt"), **options).topology
    helpers = machine.gpus[machine.num_members :]
    return {round(1048.576 / helper.beta_us_per_mb, 6) for helper in helpers}, [each.name for each in helpers]


FACES = ["node0.nvswitch.sum", "node0.nvswitch.copy"]


@pytest.mark.parametrize(
    ("model", "gbps"), [("H100", 18 * 17.3), ("H20", 18 * 17.3), ("B200", 18 * 30.2), ("GB200", 18 * 30.2)]
)
def test_switches_of_hopper_and_later_sum_and_copy(model, gbps):
    assert sums(topo(), gpu=model) == ({round(gbps, 6)}, FACES)


def test_switches_before_hopper_and_links_without_a_switch_do_not():
    assert sums(topo(links="NV12", gpus=8)) == (set(), [])
    assert sums(topo(links="NV6"), gpu="GH200") == (set(), [])


def test_switches_of_gpus_that_nobody_names_sum_as_those_that_are_taken():
    assert sums(topo()) == ({311.4}, FACES)
    assert sums(topo("8")) == ({543.6}, FACES)
    assert sums(topo(), bandwidth="peak") == ({450.0}, FACES)


def test_a_gpu_whose_links_are_down_sets_the_rate_of_its_switch():
    assert sums(topo().replace("NV18\tX\tNV18\tNV18", "NV9\tX\tNV9\tNV9"), gpu="H100")[0] == {155.7}
