"""Pieces of what benchmarks print, small enough to be read, for the tests of their readers."""

import json

HEADER = """\
#     size     count   type  redop  root    time  algbw  busbw #wrong    time  algbw  busbw #wrong
#      (B) (elements)                       (us) (GB/s) (GB/s)           (us) (GB/s) (GB/s)
"""
ROW = "   1048576    262144  float    sum    -1  148.09   7.08   7.08      0  141.44   7.41   7.41    N/A\n"
MORE = "   2097152    524288  float    sum    -1  220.00   9.53   9.53      0  219.00   9.58   9.58    N/A\n"
DEVICES = """\
#  Rank  0 Group  0 Pid 7841 on       n013 device  0 [0000:81:00] NVIDIA A100-PCIE-40GB
#  Rank  1 Group  0 Pid 2334 on       {other} device  0 [0000:81:00] NVIDIA A100-PCIE-40GB
"""
SENDRECV = "# Collective test starting: sendrecv_perf\n"


def as_json(**out_of_place: object) -> str:
    row = {"size": 4096, "count": 1024, "out_of_place": out_of_place, "in_place": {"time": "N/A"}}
    devices = [{"rank": 0, "hostname": "a"}, {"rank": 1, "hostname": "b"}]
    return json.dumps({"args": ["sendrecv_perf"], "devices": devices, "results": [row]}, indent=1)


CSV = """\
numCycle,name,nodes,ranks,size,type,redop,inPlace,time,algBw,busBw,wrong
0,sendrecv_perf,2,2,1024,float,sum,0,21.5,0.1,0.1,0
0,sendrecv_perf,2,2,2048,float,sum,0,22.5,0.1,0.1,0
0,sendrecv_perf,2,2,2048,float,sum,1,22.0,0.1,0.1,0
"""


def nvbandwidth(arrow: str, test: str = "device_to_device_memcpy_write_ce", extra: str = "") -> str:
    return (
        f"nvbandwidth Version: v0.8\nRunning {test}.\n"
        f"memcpy CE GPU(row) {arrow} GPU(column) {extra}bandwidth (GB/s)\n"
        f"           0         1\n 0       N/A     10.00\n 1     20.00       N/A\n\nSUM {test} 30.00\n"
    )


P2P = """\
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 801.28  22.23
     1  22.32 813.80
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1
     0   1.39   1.12
     1   1.14   1.42

   CPU     0      1
     0   1.64   1.32
     1   1.32   1.58
"""


MPIGRAPH = """\
START mpiGraph v1.6
MsgSize\t16384
Procs\t4

1 of 4 (25.0%)
Send\ta:0\ta:1\tb:2\tc:3\t
a:0 to\t0.000\t9000.0\t1000.0\t1010.0\t
a:1 to\t9000.0\t0.000\t1000.0\t1010.0\t
b:2 to\t1000.0\t1000.0\t0.000\t400.0\t
c:3 to\t1000.0\t1000.0\t1000.0\t0.000\t

Recv\ta:0\ta:1\tb:2\tc:3\t
a:0 from\t0.000\t9000.0\t1000.0\t1010.0\t
END mpiGraph
"""


def perftest(unit: str, title: str = "RDMA_Write BW Test") -> str:
    return (
        f"                    {title}\n"
        f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n"
        " 1048576    5000           800.0            800.0            0.1\n"
    )


TRANSFERBENCH = """\
Bytes Per Direction 4194304
Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
   SRC+EXE\\DST    CPU 00       GPU 00    GPU 01
   CPU 00  ->     24.37        17.32     16.97
   GPU 00  ->     23.83       108.95     64.58
   GPU 01  ->     24.05        66.52    109.18
Bidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
   SRC\\DST    CPU 00       GPU 00    GPU 01
   GPU 00  ->     23.99          N/A     62.40
   GPU 00 <-      16.87          N/A     65.21
   GPU 00 <->     40.85          N/A    127.61
"""


def perftest_json(size: int, bandwidth: float, rate: float, title: str = "RDMA_Write_BW_Test") -> str:
    info = f'"test": "{title}", "Dual_port": "OFF", "Device": "mlx5_0", "Mtu": 4096'
    results = f'"MsgSize": {size}, "BW_peak": 0.0, "BW_average": {bandwidth}, "MsgRate": {rate}'
    return f'{{\n"test_info": {{\n{info}\n}},\n"results": {{\n{results}\n}}\n}}\n'
