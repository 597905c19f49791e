"""`make package`: what is in `dist/`, installed and tried in a clean environment of each Python that is here.

    python tests/installed.py dist python3.10 python3.13

A test of the suite tries four commands of a wheel; this takes a minute or two for each Python.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What the wheel is built from.
SOURCES = ("taccl", "sketches", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")
_BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
#: Commands whose data come from files of the package, and what each must show.
COMMANDS = (
    ("--version", "taccl "),
    ("sketch list", "ndv2-sk-1"),
    # Links alone: a call of a file is timed by loops, which each environment would compile anew.
    (
        "synthesize --sketch ndv2-sk-1 --collective allgather --size 1MB --effort 30 --no-executor -o ag.xml",
        "wrote ag.xml",
    ),
    ("verify ag.xml", "ag.xml: ok"),
    ("topology show dgx-h100", "dgx-h100"),
    ("show ag.xml --topology ndv2 --nodes 2 --size 1MB --html ag.html", "wrote ag.html"),
    ("baseline nccl --topology dgx-h100 --nodes 1 --size 1MB", "us"),
    ("probe --topology ring:4 --nodes 1 -o probe", "probe"),
)


def built_wheel(folder: Path) -> Path:
    """The wheel of this tree, without a network."""
    tree = folder / "tree"
    tree.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(folder)], cwd=tree, capture_output=True, text=True, check=True
    )
    return folder / done.stdout.split()[-1]


def missing(wheel: Path) -> list[str]:
    """Files of the package and sketches that a wheel lacks."""
    names = set(zipfile.ZipFile(wheel).namelist())
    here = [
        path for path in (ROOT / "taccl").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    sketches = {name.rpartition("/")[2] for name in names if "/share/taccl/sketches/" in name}
    return [
        *(name for path in here if (name := path.relative_to(ROOT).as_posix()) not in names),
        *(path.name for path in (ROOT / "sketches").glob("*.yaml") if path.name not in sketches),
    ]


def tried(
    taccl: Sequence[str], folder: Path, env: Mapping[str, str], most: int | None = None
) -> Iterator[str]:
    """What is wrong with the first commands (None: all), run in an empty folder one after another."""
    for words, shown in COMMANDS[:most]:
        done = subprocess.run(
            [*taccl, *words.split()], cwd=folder, env={**env}, capture_output=True, text=True, check=False
        )
        if done.returncode or shown not in done.stdout:
            yield f"taccl {words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"


def _in_clean_environment(python: str, package: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([python, "-m", "venv", folder / "env"], check=True)
        install = [folder / "env/bin/python", "-m", "pip", "install", "--quiet", package]
        subprocess.run(install, check=True)
        (folder / "empty").mkdir()
        env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        env["TACCL_CACHE"] = str(folder / "cache")
        return list(tried([str(folder / "env/bin/taccl")], folder / "empty", env))


def main(dist: Path, pythons: Sequence[str]) -> int:
    """Exit code 1: something does not work."""
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    wrong = [f"{wheel.name} lacks {name}" for name in missing(wheel)]
    there = [python for python in pythons if shutil.which(python)]
    for number, python in enumerate(there):
        for package in (wheel, source) if number == 0 else (wheel,):
            found = _in_clean_environment(python, package)
            print(f"{python}: {package.name}: {'ok' if not found else 'wrong'}")
            wrong += found
    for python in set(pythons) - set(there):
        print(f"{python}: is not here")
    print(*wrong, sep="\n")
    return 1 if wrong or not there else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
