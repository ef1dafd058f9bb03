#include "softmax/softmax_lines.h"

#include <opwright/functors.h>
#include <algorithm>
#include <limits>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/stream.h"
#include "reduction/blocks.h"
#include "softmax/softmax_stream.h"

namespace opwright_cpu {
namespace {

namespace functors = opwright::functors;

// Lines longer than this do not fit into the caches. Such lines are read from memory twice, chunk
// by chunk, instead of being read, written, reread and rewritten.
constexpr int64_t kLongLine = 65536;
constexpr int64_t kLineChunk = 8192;
// Lines up to this length would leave most vector lanes unused if processed one by one.
constexpr int64_t kShortLine = 32;

template <typename T, bool kLog>
OPWRIGHT_CPU_INLINE void WriteLine(const T* x, int64_t n, T maximum, T total, T* out) {
  if constexpr (kLog) {
    const T log_total = functors::Log(total);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - maximum) - log_total;
  } else {
    const T share = T(1) / total;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = functors::ExpNonPositive(x[i] - maximum) * share;
  }
}

constexpr int64_t kLanes = 16;

// The exponentials of the last elements of a line, if these do not fill a vector. They are computed
// in a vector that ends with the line, and lanes of elements that have already been counted are
// zeroed. Processing the last elements one by one would take longer than the rest of the line.
template <typename T>
struct LastPowers {
  OPWRIGHT_CPU_INLINE LastPowers(const T* x, int64_t n, T maximum) {
    const int64_t n_counted = kLanes - n % kLanes;
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const T power = functors::ExpNonPositive(x[n - kLanes + lane] - maximum);
      powers[lane] = lane < n_counted ? T(0) : power;
    }
  }
  OPWRIGHT_CPU_INLINE T Sum() const {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t lane = 0; lane < kLanes; ++lane) sum += powers[lane];
    return sum;
  }
  T powers[kLanes];
};

// Processes one line of more than kShortLine elements at a time. `out` holds the exponentials until
// their sum is known.
template <typename T, bool kLog>
OPWRIGHT_CPU_CLONES void SoftmaxRows(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima,
                                     T* totals) {
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t row = 0; row < n_rows; ++row, x += n, out += n) {
    const T maximum = MaxOf(x, n);
    T total;
    if constexpr (kLog) {
      total = SumOver<T>(whole, [=](int64_t i) OPWRIGHT_CPU_TERM {
        return functors::ExpNonPositive(x[i] - maximum);
      });
      if (whole < n) total += LastPowers<T>(x, n, maximum).Sum();
      WriteLine<T, true>(x, n, maximum, total, out);
    } else {
      total = SumOver<T>(whole, [=](int64_t i) OPWRIGHT_CPU_TERM {
        const T power = functors::ExpNonPositive(x[i] - maximum);
        out[i] = power;
        return power;
      });
      if (whole < n) {
        const LastPowers<T> last(x, n, maximum);
        total += last.Sum();
        for (int64_t i = whole; i < n; ++i) out[i] = last.powers[i + kLanes - n];
      }
      const T share = T(1) / total;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] *= share;
    }
    if (maxima != nullptr) maxima[row] = maximum;
    if (totals != nullptr) totals[row] = total;
  }
}

// Transposes rows: turned[i, lane] = x[lane, i]. Lanes beyond n_rows repeat the first lane.
template <typename T>
OPWRIGHT_CPU_INLINE void TurnIn(const T* x, int64_t n_rows, int64_t n, T* turned) {
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      turned[i * kLanes + lane] = x[(lane < n_rows ? lane * n : 0) + i];
    }
  }
}

template <typename T>
OPWRIGHT_CPU_INLINE void TurnOut(const T* turned, int64_t n_rows, int64_t n, T* out) {
  if (n_rows == kLanes) {
    for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 16
      for (int64_t lane = 0; lane < kLanes; ++lane) out[lane * n + i] = turned[i * kLanes + lane];
    }
    return;
  }
  for (int64_t lane = 0; lane < n_rows; ++lane) {
    for (int64_t i = 0; i < n; ++i) out[lane * n + i] = turned[i * kLanes + lane];
  }
}

// Processes short lines, sixteen at a time, transposed so that each occupies one lane.
template <typename T, bool kLog>
OPWRIGHT_CPU_CLONES void SoftmaxShortRows(const T* x, int64_t n_rows, int64_t n, T* out, T* maxima,
                                          T* totals) {
  T turned[kShortLine * kLanes];
  for (int64_t first = 0; first < n_rows; first += kLanes) {
    const int64_t rows = std::min(kLanes, n_rows - first);
    TurnIn(x + first * n, rows, n, turned);
    T maximum[kLanes];
    T total[kLanes];
    T factor[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      maximum[lane] = turned[lane];
      total[lane] = 0;
    }
    for (int64_t i = 1; i < n; ++i) {
      const T* row = turned + i * kLanes;
#pragma omp simd
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        maximum[lane] = row[lane] > maximum[lane] ? row[lane] : maximum[lane];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      T* row = turned + i * kLanes;
#pragma omp simd
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const T shifted = row[lane] - maximum[lane];
        const T power = functors::ExpNonPositive(shifted);
        total[lane] += power;
        row[lane] = kLog ? shifted : power;
      }
    }
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      factor[lane] = kLog ? functors::Log(total[lane]) : T(1) / total[lane];
    }
    for (int64_t i = 0; i < n; ++i) {
      T* row = turned + i * kLanes;
#pragma omp simd
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        row[lane] = kLog ? row[lane] - factor[lane] : row[lane] * factor[lane];
      }
    }
    TurnOut(turned, rows, n, out + first * n);
    if (maxima != nullptr) std::copy(maximum, maximum + rows, maxima + first);
    if (totals != nullptr) std::copy(total, total + rows, totals + first);
  }
}

// Processes `width` lines side by side, whose elements are `stride` apart.
template <typename T, bool kLog>
OPWRIGHT_CPU_CLONES void SoftmaxColumns(const T* x, int64_t n, int64_t stride, int64_t width,
                                        T* out, T* maxima, T* totals) {
  T maximum[kLineStrip];
  T total[kLineStrip];
  for (int64_t c = 0; c < width; ++c) {
    maximum[c] = -std::numeric_limits<T>::infinity();
    total[c] = 0;
  }
  for (int64_t i = 0; i < n; ++i) {
    const T* row = x + i * stride;
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) maximum[c] = row[c] > maximum[c] ? row[c] : maximum[c];
  }
  for (int64_t i = 0; i < n; ++i) {
    const T* row = x + i * stride;
    T* result = out + i * stride;
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) {
      const T shifted = row[c] - maximum[c];
      const T power = functors::ExpNonPositive(shifted);
      total[c] += power;
      result[c] = kLog ? shifted : power;
    }
  }
  for (int64_t c = 0; c < width; ++c) {
    if (maxima != nullptr) maxima[c] = maximum[c];
    if (totals != nullptr) totals[c] = total[c];
    total[c] = kLog ? functors::Log(total[c]) : T(1) / total[c];
  }
  for (int64_t i = 0; i < n; ++i) {
    T* result = out + i * stride;
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) {
      result[c] = kLog ? result[c] - total[c] : result[c] * total[c];
    }
  }
}

// Computes the maximum and sum of one chunk. If all elements are -inf, the sum is 0, which avoids
// exp(-inf - -inf).
template <typename T>
OPWRIGHT_CPU_CLONES void SumChunk(const T* x, int64_t n, T* maximum, T* total) {
  *maximum = MaxOf(x, n);
  const T shift = *maximum < -std::numeric_limits<T>::max() ? T(0) : *maximum;
  *total = SumOver<T>(
      n, [=](int64_t i) OPWRIGHT_CPU_TERM { return functors::ExpNonPositive(x[i] - shift); });
}

template <typename T, bool kLog>
OPWRIGHT_CPU_CLONES void WriteChunk(const T* x, int64_t n, T maximum, T total, T* out) {
  WriteLine<T, kLog>(x, n, maximum, total, out);
}

template <typename T>
void JoinChunks(const T* maxima, const T* totals, int64_t n, T* maximum, T* total) {
  *maximum = MaxOf(maxima, n);
  *total = 0;
  for (int64_t i = 0; i < n; ++i)
    *total += totals[i] * functors::ExpNonPositive(maxima[i] - *maximum);
}

}  // namespace

template <typename T, bool kLog>
SoftmaxLines<T, kLog>::SoftmaxLines(const Lines& lines, int32_t n_threads) : lines_(lines) {
  constexpr auto kItemBytes = static_cast<int64_t>(sizeof(T));
  if (lines.inner != 1 || lines.outer == 0) return;
  if (lines.numel() * kItemBytes >= kStreamBytes && lines.length > kShortLine &&
      lines.length * kItemBytes <= kStreamedLineBytes) {
    buffer_ = StreamSoftmaxBuffer<T>(lines.length);
    workspace_bytes_ = static_cast<uint64_t>(buffer_ * std::max(n_threads, 1)) * sizeof(T);
  }
  if (lines.length <= kLongLine) return;
  n_chunks_ = (lines.length + kLineChunk - 1) / kLineChunk;
  workspace_bytes_ = static_cast<uint64_t>(2 * lines.outer * (n_chunks_ + 1)) * sizeof(T);
}

template <typename T, bool kLog>
uint64_t SoftmaxLines<T, kLog>::EstimateNs(int32_t n_threads) const {
  return StreamNs(8 * lines_.numel() * static_cast<int64_t>(sizeof(T)), n_threads);
}

template <typename T, bool kLog>
void SoftmaxLines<T, kLog>::Run(const T* x, T* out, const LineSums<T>& sums, void* workspace,
                                int32_t n_threads) const {
  if (n_chunks_ > 1) return RunLong(x, out, sums, static_cast<T*>(workspace), n_threads);
  const auto at = [](T* values, int64_t line) {
    return values == nullptr ? values : values + line;
  };
  const int64_t n = lines_.length;
  if (buffer_ > 0 && out != x) {
    Parallel(n_threads, [&](int32_t thread, int32_t threads) {
      const Part part = PartOf(lines_.outer, 1, thread, threads);
      StreamSoftmax<T, kLog>(x + part.begin * n, part.end - part.begin, n, out + part.begin * n,
                             at(sums.maximum, part.begin), at(sums.total, part.begin),
                             static_cast<T*>(workspace) + thread * buffer_);
    });
    return;
  }
  ParallelFor(n_threads, lines_.count(), LineGrain(lines_), 1, [&](int64_t begin, int64_t end) {
    if (lines_.inner == 1) {
      const auto rows = n <= kShortLine ? SoftmaxShortRows<T, kLog> : SoftmaxRows<T, kLog>;
      rows(x + begin * n, end - begin, n, out + begin * n, at(sums.maximum, begin),
           at(sums.total, begin));
      return;
    }
    ForStrips(lines_, begin, end, [&](int64_t line, int64_t width, int64_t offset) {
      SoftmaxColumns<T, kLog>(x + offset, n, lines_.inner, width, out + offset,
                              at(sums.maximum, line), at(sums.total, line));
    });
  });
}

template <typename T, bool kLog>
void SoftmaxLines<T, kLog>::RunLong(const T* x, T* out, const LineSums<T>& sums, T* partial,
                                    int32_t n_threads) const {
  const int64_t n_pieces = lines_.outer * n_chunks_, n = lines_.length;
  T* const maxima = partial;
  T* const totals = partial + n_pieces;
  T* const maximum = totals + n_pieces;
  T* const total = maximum + lines_.outer;
  // Calls function(chunk, line, first element, number of elements) for all chunks.
  const auto for_chunks = [&](const auto& function) {
    ParallelFor(n_threads, n_pieces, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t line = piece / n_chunks_;
        const int64_t first = piece % n_chunks_ * kLineChunk;
        function(piece, line, line * n + first, std::min(kLineChunk, n - first));
      }
    });
  };
  for_chunks([&](int64_t piece, int64_t, int64_t first, int64_t count) {
    SumChunk(x + first, count, maxima + piece, totals + piece);
  });
  for (int64_t line = 0; line < lines_.outer; ++line) {
    JoinChunks(maxima + line * n_chunks_, totals + line * n_chunks_, n_chunks_, maximum + line,
               total + line);
    if (sums.maximum != nullptr) sums.maximum[line] = maximum[line];
    if (sums.total != nullptr) sums.total[line] = total[line];
  }
  for_chunks([&](int64_t, int64_t line, int64_t first, int64_t count) {
    WriteChunk<T, kLog>(x + first, count, maximum[line], total[line], out + first);
  });
}

template class SoftmaxLines<float, false>;
template class SoftmaxLines<float, true>;
template class SoftmaxLines<double, false>;
template class SoftmaxLines<double, true>;

}  // namespace opwright_cpu
