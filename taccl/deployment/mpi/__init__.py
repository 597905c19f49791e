"""Plans under mpirun: their rounds as messages of MPI. The one room that imports mpi4py (`taccl[mpi]`)."""
