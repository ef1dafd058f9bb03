// Kernels with one mistake each, and correct kernels. The checks of CUDA kernels must report the
// mistakes and nothing else. All kernels are launched with one block of 64 threads and n = 64.
#include "kernel.h"

using namespace opwright_cuda;

constexpr int kThreads = 64;

// A correct kernel that sums a block by warps with barriers and shuffles, and reuses shared memory.
__global__ void sound(float* out, const float* in, int n) {
  OW_SHARED(float, partial, kThreads / 32);
  const int t = static_cast<int>(threadIdx.x);
  for (int round = 0; round < 2; ++round) {
    float sum = t < n ? in[t] : 0.0f;
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (t % 32 == 0) partial[t / 32] = sum;
    __syncthreads();
    out[t] = partial[0] + partial[1];
    __syncthreads();
  }
  // Half a warp shuffles values first, then the complete warp.
  float x = in[t];
  if (t % 32 < 16) x += __shfl_xor_sync(0x0000ffffu, x, 1);
  __syncwarp();
  out[t] += 0.0f * __shfl_xor_sync(0xffffffffu, x, 31);
}

__global__ void missing_barrier(float* out, const float* in, int n) {
  OW_SHARED(float, row, kThreads);
  const int t = static_cast<int>(threadIdx.x);
  row[t] = in[t];
  out[t] = t + 1 < n ? row[t + 1] : 0.0f;  // the next thread may not have written yet
}

__global__ void missing_barrier_backwards(float* out, const float* in, int n) {
  OW_SHARED(float, row, kThreads);
  const int t = static_cast<int>(threadIdx.x);
  row[t] = in[t];
  out[t] = t > 0 && t < n ? row[t - 1] : 0.0f;
}

__global__ void missing_second_barrier(float* out, const float* in, int n) {
  OW_SHARED(float, row, kThreads);
  const int t = static_cast<int>(threadIdx.x);
  row[t] = in[t];
  __syncthreads();
  const float x = row[(t + 1) % n];
  row[t] = 2.0f * x;  // the previous thread may not have read yet
  out[t] = x;
}

// A shuffle is not a memory barrier.
__global__ void exchange_for_barrier(float* out, const float* in, int n) {
  OW_SHARED(float, row, kThreads);
  const int t = static_cast<int>(threadIdx.x);
  row[t] = in[t];
  const float x = __shfl_xor_sync(0xffffffffu, in[t], 0);
  out[t] = x + row[(t + 1) % n];
}

__global__ void barrier_in_branch(float* out, const float* in, int n) {
  const int t = static_cast<int>(threadIdx.x);
  if (t < 40) __syncthreads();
  out[t] = in[t] + static_cast<float>(n);
}

__global__ void early_return(float* out, const float* in, int n) {
  const int t = static_cast<int>(threadIdx.x);
  if (t >= n - 1) return;
  __syncthreads();  // never reached by the last thread
  out[t] = in[t];
}

__global__ void missing_lane(float* out, const float* in, int n) {
  const int t = static_cast<int>(threadIdx.x);
  float x = in[t] + static_cast<float>(n);
  if (t != 5) x += __shfl_down_sync(0xffffffffu, x, 1);
  out[t] = x;
}

// Lane 16 does not take part in the shuffle.
__global__ void absent_lane(float* out, const float* in, int n) {
  const int t = static_cast<int>(threadIdx.x);
  float x = in[t] + static_cast<float>(n);
  if (t % 32 < 16) x = __shfl_sync(0x0000ffffu, x, 16);
  out[t] = x;
}

__global__ void uninitialized_shared(float* out, const float* in, int n) {
  OW_SHARED(float, sums, kThreads);
  const int t = static_cast<int>(threadIdx.x);
  sums[t] += in[t] + static_cast<float>(n);
  out[t] = sums[t];
}

__global__ void shared_overrun(float* out, const float* in, int n) {
  OW_SHARED(float, row, kThreads);
  const int t = static_cast<int>(threadIdx.x);
  row[t] = in[t];
  __syncthreads();
  out[t] = row[t + n - 63];
}

__global__ void dynamic_overrun(float* out, const float* in, int n) {
  OW_DYNAMIC_SHARED(float, row);  // the launch requests 64 floats
  const int t = static_cast<int>(threadIdx.x);
  row[t + n - 63] = in[t];
  out[t] = 0.0f;
}

__global__ void global_overrun(float* out, const float* in, int n) {
  const int t = static_cast<int>(threadIdx.x);
  out[t] = in[t + n - 63];
}

__global__ void local_overrun(float* out, const float* in, int n) {
  float kept[4] = {};
  const int t = static_cast<int>(threadIdx.x);
  float* end = kept + n / 16;
  __syncthreads();
  end[t / 64] = in[t];
  out[t] = kept[t % 4];
}

__global__ void misaligned_vector(float* out, const float* in, int n) {
  const int t = static_cast<int>(threadIdx.x);
  if (t >= n / 4 - 1) return;
  const Vector<float, 4> four = reinterpret_cast<const Vector<float, 4>*>(in + 1)[t];
  out[t] = four.at[0];
}

// CUDA aligns the array only for floats, so vector accesses may be misaligned.
__global__ void misaligned_shared(float* out, const float* in, int n) {
  OW_SHARED(float, row, kThreads);
  const int t = static_cast<int>(threadIdx.x);
  if (t < n / 4) reinterpret_cast<Vector<float, 4>*>(row)[t] = {in[t], 0.0f, 0.0f, 0.0f};
  __syncthreads();
  out[t] = row[t];
}

__global__ void misaligned_number(float* out, const float* in, int n) {
  const int t = static_cast<int>(threadIdx.x);
  if (t < n / 2 - 1) out[t] = static_cast<float>(reinterpret_cast<const double*>(in + 1)[t]);
}

__global__ void misaligned_atomic(float* out, const float* in, int n) {
  const int t = static_cast<int>(threadIdx.x);
  out[t] = in[t];
  char* between = reinterpret_cast<char*>(out) + n / 32;
  atomicAdd(reinterpret_cast<int32_t*>(between), 1);
}

// Correct: an array of vectors and the dynamic shared memory of a launch are aligned for vectors.
__global__ void aligned_vectors(float* out, const float* in, int n) {
  using Four = Vector<float, 4>;
  OW_SHARED(Four, rows, kThreads / 4);
  OW_DYNAMIC_SHARED(float, copy);
  const int t = static_cast<int>(threadIdx.x);
  reinterpret_cast<float*>(rows)[t] = in[t];
  __syncthreads();
  if (t < n / 4) reinterpret_cast<Four*>(copy)[t] = rows[t];
  __syncthreads();
  out[t] = copy[t];
}

__global__ void index_overflow(float* out, const float* in, int n) {
  const int t = static_cast<int>(threadIdx.x);
  const int row = t * (1 << 26);  // 32 * 2**26 overflows
  out[t] = in[row / (1 << 26) % n];
}

__global__ void unordered_writes(float* out, const float* in, int n) {
  const int t = static_cast<int>(threadIdx.x);
  out[0] = in[t] + static_cast<float>(n);
}
