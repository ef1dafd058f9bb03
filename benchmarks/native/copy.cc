// Copies large arrays with two threads, to measure the memory bandwidth of the machine.
#include <emmintrin.h>
#include <omp.h>

#include <cstdint>
#include <cstring>

namespace {

// Runs copy(to, from, bytes) on an equal part of the array in each thread.
template <typename Copy>
void InParts(char* to, const char* from, int64_t bytes, Copy copy) {
#pragma omp parallel
  {
    const int64_t n_threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t part = (bytes / n_threads + 63) / 64 * 64;
    const int64_t begin = part * thread;
    const int64_t end = begin + part < bytes ? begin + part : bytes;
    if (begin < end) copy(to + begin, from + begin, end - begin);
  }
}

}  // namespace

extern "C" {

void copy_memcpy(char* to, const char* from, int64_t bytes) {
  InParts(to, from, bytes, [](char* t, const char* f, int64_t n) { std::memcpy(t, f, n); });
}

// Uses stores that bypass the cache, so the lines of `to` are not read first. Both pointers must be
// aligned to 16.
void copy_streaming(char* to, const char* from, int64_t bytes) {
  InParts(to, from, bytes, [](char* t, const char* f, int64_t n) {
    auto* out = reinterpret_cast<__m128i*>(t);
    const auto* in = reinterpret_cast<const __m128i*>(f);
    for (int64_t i = 0; i < n / 16; ++i) _mm_stream_si128(out + i, _mm_loadu_si128(in + i));
    _mm_sfence();
  });
}

}  // extern "C"
