// What thread blocks of a GPU do by themselves: rows of CSV go to stdout, one for each operation and size.
//
// Built by measure.py with nvcc or hipcc. launch and graph: a call of an empty kernel, in a stream and as a graph.
// bounce: a flag from one thread block to another, one way. copy, sum and packets: one pass of `blocks` thread
// blocks that move `slices` slices of `bytes / slices` each, a launch not included; sum reads two sources, packets
// writes 8 bytes with two flags of 4. Places: local; peer (a copy and packets write to the next GPU, a sum reads one
// source there); multicast (NVIDIA, Hopper or later: a copy goes to all GPUs, a sum is loaded from all).

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#ifdef __HIPCC__
#include <hip/hip_runtime.h>
#define cudaDeviceCanAccessPeer hipDeviceCanAccessPeer
#define cudaDeviceEnablePeerAccess hipDeviceEnablePeerAccess
#define cudaDeviceProp hipDeviceProp_t
#define cudaDeviceSynchronize hipDeviceSynchronize
#define cudaError_t hipError_t
#define cudaEventCreate hipEventCreate
#define cudaEventElapsedTime hipEventElapsedTime
#define cudaEventRecord hipEventRecord
#define cudaEventSynchronize hipEventSynchronize
#define cudaEvent_t hipEvent_t
#define cudaGetDeviceCount hipGetDeviceCount
#define cudaGetDeviceProperties hipGetDeviceProperties
#define cudaGetErrorString hipGetErrorString
#define cudaGetLastError hipGetLastError
#define cudaGraphExec_t hipGraphExec_t
#define cudaGraphInstantiate(exec, graph, flags) hipGraphInstantiate(exec, graph, nullptr, nullptr, 0)
#define cudaGraphLaunch hipGraphLaunch
#define cudaGraph_t hipGraph_t
#define cudaMalloc hipMalloc
#define cudaMemset hipMemset
#define cudaSetDevice hipSetDevice
#define cudaStreamBeginCapture hipStreamBeginCapture
#define cudaStreamCaptureModeGlobal hipStreamCaptureModeGlobal
#define cudaStreamCreate hipStreamCreate
#define cudaStreamEndCapture hipStreamEndCapture
#define cudaStream_t hipStream_t
#define cudaSuccess hipSuccess
#else
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#endif

namespace {

// Of a thread block: 512 as NCCL's kernels have at most at one time, 1024 as MSCCL++'s executor.
#ifndef THREADS
#define THREADS 512
#endif
constexpr int kThreads = THREADS;
constexpr int kRepeats = 5;
// Of each buffer, in units of 16 bytes: 256 MB, more than caches hold, so that a pass meets nothing of the last.
constexpr long kCapacity = 1L << 24;
constexpr long kBytesOfRound = 1L << 28;
constexpr long kMostSpins = 1L << 32;

void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

struct Work {
    uint4* to;
    const uint4* from;
    const uint4* other;
    unsigned* flags;
    long slice;  // in units of 16 bytes, a power of two
    int slices;
    int rounds;
};

// Where a slice of this thread block begins.
__device__ long place(const Work& work, int round, int slice) {
    const long index = (static_cast<long>(round) * gridDim.x + blockIdx.x) * work.slices + slice;
    return index * work.slice % kCapacity;
}

// Says that all bytes up to here are there, as a sender does after each slice.
__device__ void post(const Work& work, int count) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        *static_cast<volatile unsigned*>(work.flags + blockIdx.x) = count;
    }
}

template <typename Body>
__device__ void in_slices(const Work& work, Body body) {
    for (int round = 0; round < work.rounds; round++) {
        for (int slice = 0; slice < work.slices; slice++) {
            const long begin = place(work, round, slice);
            for (long at = begin + threadIdx.x; at < begin + work.slice; at += kThreads) body(at);
            post(work, round + 1);
        }
    }
}

__device__ float added(unsigned one, unsigned two) { return __uint_as_float(one) + __uint_as_float(two); }

__global__ void empty(Work) {}

__global__ void __launch_bounds__(kThreads) copy(Work work) {
    in_slices(work, [&](long at) { work.to[at] = work.from[at]; });
}

__global__ void __launch_bounds__(kThreads) sum(Work work) {
    in_slices(work, [&](long at) {
        const uint4 one = work.from[at], two = work.other[at];
        work.to[at] = make_uint4(
            __float_as_uint(added(one.x, two.x)), __float_as_uint(added(one.y, two.y)),
            __float_as_uint(added(one.z, two.z)), __float_as_uint(added(one.w, two.w)));
    });
}

// Flags are in the data, so nothing is posted: only the threads of a block wait for each other.
__global__ void __launch_bounds__(kThreads) packets(Work work) {
    const uint2* from = reinterpret_cast<const uint2*>(work.from);
    for (int round = 0; round < work.rounds; round++) {
        for (int slice = 0; slice < work.slices; slice++) {
            const long begin = 2 * place(work, round, slice);
            for (long at = begin + threadIdx.x; at < begin + 2 * work.slice; at += kThreads)
                work.to[at] = make_uint4(from[at].x, round + 1, from[at].y, round + 1);
            __syncthreads();
        }
    }
}

// Two thread blocks take turns; on one GPU they are the two of a grid, on two GPUs each is alone.
__global__ void bounce(volatile unsigned* mine, volatile unsigned* other, int turns, bool first) {
    if (blockIdx.x == 1) {
        volatile unsigned* swapped = mine;
        mine = other, other = swapped, first = !first;
    }
    for (unsigned turn = 1; turn <= turns; turn++) {
        if (first) *other = turn;
        long spins = 0;
        while (*mine < turn) assert(++spins < kMostSpins);
        __threadfence_system();
        if (!first) *other = turn;
    }
}

// Microseconds of a call, the median of repeats; calls follow each other without waiting.
double time_us(int calls, cudaStream_t stream, const std::function<void()>& call) {
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "an event");
    check(cudaEventCreate(&end), "an event");
    std::vector<double> times;
    for (int repeat = 0; repeat <= kRepeats; repeat++) {
        check(cudaEventRecord(begin, stream), "an event");
        for (int i = 0; i < calls; i++) call();
        check(cudaEventRecord(end, stream), "an event");
        check(cudaGetLastError(), "a kernel");
        check(cudaEventSynchronize(end), "a kernel");
        float ms = 0;
        check(cudaEventElapsedTime(&ms, begin, end), "an event");
        if (repeat > 0) times.push_back(1e3 * ms / calls);
    }
    std::sort(times.begin(), times.end());
    return times[kRepeats / 2];
}

class Bench {
  public:
    Bench(const char* gpu, int multiprocessors, cudaStream_t stream)
        : gpu_(gpu), multiprocessors_(multiprocessors), stream_(stream) {
        std::printf("gpu,multiprocessors,operation,place,blocks,bytes,slices,time_us\n");
    }

    std::vector<int> block_counts() const {
        std::vector<int> counts;
        for (int blocks = 1; blocks < multiprocessors_; blocks *= 2) counts.push_back(blocks);
        counts.push_back(multiprocessors_);
        return counts;
    }

    void launches() const {
        for (int blocks : block_counts()) {
            const auto launch = [&] { empty<<<blocks, kThreads, 0, stream_>>>(Work{}); };
            row("launch", "local", blocks, 0, 0, time_us(200, stream_, launch));
            cudaGraph_t graph;
            cudaGraphExec_t exec;
            check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "a graph");
            launch();
            check(cudaStreamEndCapture(stream_, &graph), "a graph");
            check(cudaGraphInstantiate(&exec, graph, 0), "a graph");
            row("graph", "local", blocks, 0, 0,
                time_us(200, stream_, [&] { check(cudaGraphLaunch(exec, stream_), "a graph"); }));
        }
    }

    // `second` : starts the other side on its own GPU; null where both are here.
    void bounces(const char* where, unsigned* mine, unsigned* other, const std::function<void(int)>& second) const {
        const int few = 100, many = 1100;
        const auto took = [&](int turns) {
            return time_us(1, stream_, [&] {
                check(cudaMemset(mine, 0, 4), "a flag");
                check(cudaMemset(other, 0, 4), "a flag");
                check(cudaDeviceSynchronize(), "a flag");
                if (second) second(turns);
                bounce<<<second ? 1 : 2, 1, 0, stream_>>>(mine, other, turns, true);
            });
        };
        row("bounce", where, 1, 4, 1, (took(many) - took(few)) / (2 * (many - few)));
    }

    void moves(const char* operation, const char* where, void (*kernel)(Work), Work work) const {
        for (int blocks : block_counts()) {
            for (long bytes = 1L << 12; bytes <= 1L << 20; bytes *= 4) {
                for (int slices : {1, 4}) {
                    work.slice = bytes / 16 / slices;
                    work.slices = slices;
                    const int more = static_cast<int>(std::clamp(kBytesOfRound / (blocks * bytes), 8L, 4096L));
                    const auto took = [&](int rounds) {
                        work.rounds = rounds;
                        return time_us(1, stream_, [&] { kernel<<<blocks, kThreads, 0, stream_>>>(work); });
                    };
                    row(operation, where, blocks, blocks * bytes, slices, (took(1 + more) - took(1)) / more);
                }
            }
        }
    }

  private:
    void row(const char* operation, const char* where, int blocks, long bytes, int slices, double us) const {
        std::printf("%s,%d,%s,%s,%d,%ld,%d,%.4f\n", gpu_, multiprocessors_, operation, where, blocks, bytes, slices, us);
        std::fflush(stdout);
    }

    const char* gpu_;
    int multiprocessors_;
    cudaStream_t stream_;
};

template <typename T>
T* room(long bytes) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "memory");
    check(cudaMemset(memory, 0, bytes), "memory");
    return static_cast<T*>(memory);
}

#ifndef __HIPCC__
__global__ void __launch_bounds__(kThreads) multicast_copy(Work work) {
#if __CUDA_ARCH__ >= 900
    in_slices(work, [&](long at) {
        const uint4 data = work.from[at];
        asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(work.to + at),
                     "f"(__uint_as_float(data.x)), "f"(__uint_as_float(data.y)), "f"(__uint_as_float(data.z)),
                     "f"(__uint_as_float(data.w))
                     : "memory");
    });
#endif
}

__global__ void __launch_bounds__(kThreads) multicast_sum(Work work) {
#if __CUDA_ARCH__ >= 900
    in_slices(work, [&](long at) {
        float x, y, z, w;
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                     : "l"(work.other + at)
                     : "memory");
        work.to[at] = make_uint4(__float_as_uint(x), __float_as_uint(y), __float_as_uint(z), __float_as_uint(w));
    });
#endif
}

// An address at which all GPUs' memory stands, as their switch sees it; null where that cannot be had.
uint4* multicast_room(int gpus) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return nullptr;
#define DRIVER(name) const auto name##_ = reinterpret_cast<decltype(&name)>(dlsym(library, #name))
    DRIVER(cuMulticastGetGranularity);
    DRIVER(cuMulticastCreate);
    DRIVER(cuMulticastAddDevice);
    DRIVER(cuMulticastBindMem);
    DRIVER(cuMemCreate);
    DRIVER(cuMemAddressReserve);
    DRIVER(cuMemMap);
    DRIVER(cuMemSetAccess);
#undef DRIVER
    if (cuMulticastCreate_ == nullptr) return nullptr;
    CUmulticastObjectProp shared{};
    shared.numDevices = gpus;
    shared.size = 16 * kCapacity;
    size_t granularity = 0;
    bool good = cuMulticastGetGranularity_(&granularity, &shared, CU_MULTICAST_GRANULARITY_RECOMMENDED) == CUDA_SUCCESS;
    if (!good || granularity == 0) return nullptr;
    const size_t bytes = shared.size = (shared.size + granularity - 1) / granularity * granularity;
    CUmemGenericAllocationHandle all, one;
    if (cuMulticastCreate_(&all, &shared) != CUDA_SUCCESS) return nullptr;
    for (int gpu = 0; gpu < gpus; gpu++) good = good && cuMulticastAddDevice_(all, gpu) == CUDA_SUCCESS;
    for (int gpu = 0; gpu < gpus; gpu++) {
        CUmemAllocationProp own{};
        own.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        own.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu};
        good = good && cuMemCreate_(&one, bytes, &own, 0) == CUDA_SUCCESS &&
               cuMulticastBindMem_(all, 0, one, 0, bytes, 0) == CUDA_SUCCESS;
    }
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUdeviceptr address = 0;
    good = good && cuMemAddressReserve_(&address, bytes, granularity, 0, 0) == CUDA_SUCCESS &&
           cuMemMap_(address, bytes, 0, all, 0) == CUDA_SUCCESS &&
           cuMemSetAccess_(address, bytes, &access, 1) == CUDA_SUCCESS;
    return good ? reinterpret_cast<uint4*>(address) : nullptr;
}
#endif

}  // namespace

int main() {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        std::fprintf(stderr, "no GPU here\n");
        return 3;
    }
    int peer = 0;
    if (gpus > 1) check(cudaDeviceCanAccessPeer(&peer, 0, 1), "the next GPU");
    const long bytes = 16 * kCapacity;

    cudaStream_t far_stream = nullptr;
    Work far{};
    unsigned* far_flag = nullptr;
    if (peer) {
        check(cudaSetDevice(1), "the next GPU");
        check(cudaDeviceEnablePeerAccess(0, 0), "the next GPU");
        check(cudaStreamCreate(&far_stream), "a stream");
        // Packets are twice as large as their data.
        far.to = room<uint4>(2 * bytes);
        far.other = room<uint4>(bytes);
        far.flags = room<unsigned>(1 << 20);
        far_flag = room<unsigned>(4);
    }

    check(cudaSetDevice(0), "the GPU");
    if (peer) check(cudaDeviceEnablePeerAccess(1, 0), "the next GPU");
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0), "the GPU");
    cudaStream_t stream;
    check(cudaStreamCreate(&stream), "a stream");
    Work near{};
    near.to = room<uint4>(2 * bytes);
    near.from = room<uint4>(bytes);
    near.other = room<uint4>(bytes);
    near.flags = room<unsigned>(1 << 20);
    unsigned* near_flags = room<unsigned>(1 << 12);

    const Bench bench(properties.name, properties.multiProcessorCount, stream);
    bench.launches();
    bench.bounces("local", near_flags, near_flags + 1024 / 4, nullptr);
    bench.moves("copy", "local", copy, near);
    bench.moves("sum", "local", sum, near);
    bench.moves("packets", "local", packets, near);
    if (peer) {
        bench.bounces("peer", near_flags, far_flag, [&](int turns) {
            check(cudaSetDevice(1), "the next GPU");
            bounce<<<1, 1, 0, far_stream>>>(far_flag, near_flags, turns, false);
            check(cudaSetDevice(0), "the GPU");
        });
        const Work put{far.to, near.from, nullptr, far.flags};
        bench.moves("copy", "peer", copy, put);
        bench.moves("sum", "peer", sum, Work{near.to, near.from, far.other, near.flags});
        bench.moves("packets", "peer", packets, put);
    }
#ifndef __HIPCC__
    uint4* all = gpus > 1 && properties.major >= 9 ? multicast_room(gpus) : nullptr;
    if (all != nullptr) {
        bench.moves("copy", "multicast", multicast_copy, Work{all, near.from, nullptr, near.flags});
        bench.moves("sum", "multicast", multicast_sum, Work{near.to, nullptr, all, near.flags});
    }
#endif
    return 0;
}
