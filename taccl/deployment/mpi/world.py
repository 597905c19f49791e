"""All processes that mpirun started, and how they agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from taccl.errors import TacclError

_Done = TypeVar("_Done")


class World:
    """All processes that mpirun started, and this one's place among them.

    Raises
    ------
    TacclError : mpi4py is not installed, or finds no MPI library.
    """

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise TacclError(
                f"this needs mpi4py and an MPI library: {error}",
                hint="pip install 'taccl[mpi]', and openmpi or mpich from the system's packages",
            ) from None
        except RuntimeError as error:
            raise TacclError(
                f"mpi4py finds no MPI library: {str(error).splitlines()[0]}",
                hint="install openmpi or mpich from the system's packages",
            ) from None
        self.mpi: Any = MPI
        self.comm: Any = MPI.COMM_WORLD.Dup()
        self.rank: int = self.comm.Get_rank()
        self.size: int = self.comm.Get_size()

    def agree(self, error: TacclError | None) -> None:
        """If any process has an error, raise its own or the first on every process."""
        errors = [each for each in self.comm.allgather(error and (error.exit_code, str(error))) if each]
        if error is not None:
            raise error
        if errors:
            other = TacclError(errors[0][1])
            other.exit_code = errors[0][0]
            raise other

    def all_do(self, work: Callable[[], _Done]) -> _Done:
        """Do this process's part of some work; if that of any process fails, raise on every process."""
        done, trouble = None, None
        try:
            done = work()
        except TacclError as error:
            trouble = error
        self.agree(trouble)
        assert done is not None
        return done
