"""Launch, copies, sums and packets of thread blocks on the GPUs of this computer, as rows of CSV.

    python -m benchmarks.gpu.measure -o gpu.csv [--compiler nvcc] [--arch 80,90] [--threads 512]

Needs a GPU of NVIDIA's (Ampere or later; two for what goes from GPU to GPU; Hopper or later for what a switch
sums and copies) and nvcc of CUDA 12 or later, or GPUs of AMD's and hipcc, which finds their architecture by
itself. `blocks.cu` says what is measured, and `python -m benchmarks.gpu.executor` makes a machine's section
`executor:` of it. A run takes 15 s on an H100 (docs/results/gpu.md).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("blocks.cu")
COMPILERS = ("nvcc", "hipcc")
THREADS = (256, 512, 1024)
#: What `blocks.cu` exits with where it finds no GPU.
NO_GPU = 3


def main() -> None:
    """Compile, run, and write what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--compiler", choices=COMPILERS, help="default: the first that is on the path")
    parser.add_argument("--arch", default="80,90", help="of nvcc: later GPUs translate the last")
    parser.add_argument("--threads", type=int, choices=THREADS, default=512, help="of a thread block")
    arguments = parser.parse_args()
    compiler = arguments.compiler or next(filter(shutil.which, COMPILERS), None)
    if compiler is None:
        parser.exit(1, "neither nvcc nor hipcc is on the path, one of which compiles blocks.cu\n")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "blocks")
        compile_it = command(compiler, arguments.arch, arguments.threads, program)
        if subprocess.run(compile_it, check=False).returncode:
            parser.exit(1, f"{compiler} does not compile blocks.cu\n")
        ran = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode == NO_GPU:
        parser.exit(1, "it measures GPUs of NVIDIA's or AMD's: run it where there is one, or two for links\n")
    if ran.returncode:
        parser.exit(1, "the GPU did not finish\n")
    arguments.output.write_text(ran.stdout)
    print(f"{len(ran.stdout.splitlines()) - 1} measured times in {arguments.output}")


def command(compiler: str, architectures: str, threads: int, program: Path) -> list[str]:
    """What compiles the kernels; `architectures` : of NVIDIA's GPUs, `80,90`."""
    flags = ["-std=c++17", "-O3", f"-DTHREADS={threads}", "-o", str(program)]
    if compiler == "hipcc":
        return [compiler, *flags, "-x", "hip", str(SOURCE)]
    for each in architectures.split(","):
        flags += ["-gencode", f"arch=compute_{each},code=[sm_{each},compute_{each}]"]
    return [compiler, *flags, str(SOURCE), "-ldl"]


if __name__ == "__main__":
    main()
