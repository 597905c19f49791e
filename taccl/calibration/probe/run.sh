#!/bin/sh
# Runs each program of this folder with nccl-tests or rccl-tests, and keeps what that prints next to it.
#
# usage: sh run.sh RUNTIME TESTS [LAUNCHER ...]
#   RUNTIME   msccl, executor or rccl: who reads MSCCL-XML here
#   TESTS     the folder of all_gather_perf and all_reduce_perf, built with MPI
#   LAUNCHER  what starts one process per GPU; without one: mpirun -np @RANKS@
#             On several nodes it must pass on the variables set below, as in
#             mpirun -np @RANKS@ -H a,b -x MSCCL_XML_FILES -x NCCL_ALGO -x MSCCL_ALGO_DIR

if [ $# -lt 2 ]; then
    sed -n '4,9s/^# //p' "$0" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
runtime=$1
tests=$2
shift 2
[ $# -gt 0 ] || set -- mpirun -np @RANKS@

measure() {
    name=$1
    test=$2
    shift 2
    alone="$here/alone/$name"
    mkdir -p "$alone"
    cp "$here/$name.xml" "$alone/"
    case $runtime in
        msccl) export MSCCL_XML_FILES="$alone/$name.xml" NCCL_ALGO=MSCCL,RING,TREE ;;
        executor) export MSCCL_ALGO_DIR="$alone" ;;
        rccl) export MSCCL_ALGO_DIR="$alone" RCCL_MSCCL_FORCE_ENABLE=1 ;;
        *) echo "no runtime $runtime: msccl, executor or rccl" >&2; exit 2 ;;
    esac
    echo "$name"
    timeout 600 "$@" "$tests/$test" -b @LEAST@ -e @LARGEST@ -f @FACTOR@ -g 1 -w 20 -n 100 -c 1 \
        > "$here/$name.txt" 2> "$here/$name.err" || echo "$name: did not end well, see $name.err" >&2
}

@CALLS@
rm -r "$here/alone"
