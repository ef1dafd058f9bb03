// Lines of a tensor along one axis, taken in groups that are transformed together.
#ifndef OPWRIGHT_CPU_ALGEBRA_LINE_BATCH_H_
#define OPWRIGHT_CPU_ALGEBRA_LINE_BATCH_H_

#include <algorithm>
#include <cstdint>

#include "algebra/line_transform.h"
#include "common/clones.h"
#include "common/parallel.h"

namespace opwright_cpu {

// The positions of several lines in a tensor: element k of line l is item starts[l] + k * step.
struct Lines {
  int64_t count;
  int64_t length;
  int64_t step;
  const int64_t* starts;
};

// ReadLines and WriteLines copy items of kParts numbers between lines and planes. Both copy eight
// elements of a line at a time, which fill a cache line, because elements of different lines often
// map to the same cache set.
template <typename T, int64_t kParts>
OPWRIGHT_CPU_CLONES void ReadLines(const Lines& lines, const T* x, int64_t width, Planes<T> to) {
  constexpr int64_t kBlock = 8;
  for (int64_t first = 0; first < lines.length; first += kBlock) {
    const int64_t end = std::min(first + kBlock, lines.length);
    for (int64_t l = 0; l < lines.count; ++l) {
      const T* from = x + lines.starts[l] * kParts;
      for (int64_t k = first; k < end; ++k) {
        to.re[k * width + l] = from[k * lines.step * kParts];
        to.im[k * width + l] = kParts == 2 ? from[k * lines.step * kParts + 1] : T(0);
      }
    }
  }
}

template <typename T, int64_t kParts>
OPWRIGHT_CPU_CLONES void WriteLines(const Lines& lines, Planes<T> from, int64_t width, T factor,
                                    T* out) {
  constexpr int64_t kBlock = 8;
  for (int64_t first = 0; first < lines.length; first += kBlock) {
    const int64_t end = std::min(first + kBlock, lines.length);
    for (int64_t l = 0; l < lines.count; ++l) {
      T* to = out + lines.starts[l] * kParts;
      for (int64_t k = first; k < end; ++k) {
        to[k * lines.step * kParts] = from.re[k * width + l] * factor;
        if (kParts == 2) to[k * lines.step * kParts + 1] = from.im[k * width + l] * factor;
      }
    }
  }
}

// The lines along an axis of n elements. Adjacent elements of a line are `inner` items apart. The
// grouping of lines depends only on the shape, not on the number of threads.
template <typename T>
class LineBatch {
 public:
  LineBatch() = default;
  LineBatch(int64_t n_lines, int64_t inner, int64_t n) : n_lines_(n_lines), inner_(inner), n_(n) {
    constexpr int64_t kLanes = LineTransform<T>::kLanes;
    constexpr int64_t kMostItems = 512 * 1024;  // items per plane: a few planes fit into a cache
    if (n_lines >= kLanes / 2 && n * kLanes <= kMostItems) width_ = kLanes;
  }

  int64_t width() const { return width_; }
  // Returns the elements per plane; for a real transform, this is half the line length, plus one.
  int64_t plane() const { return (n_ + 1) * width_; }
  int64_t worker_items() const { return 4 * plane(); }
  int64_t n_groups() const { return (n_lines_ + width_ - 1) / width_; }
  int32_t n_workers(int32_t n_threads) const {
    const int64_t most = std::min(n_groups(), n_lines_ * n_ / 2048);
    return static_cast<int32_t>(std::clamp<int64_t>(most, 1, std::max(n_threads, 1)));
  }

  // Calls function(first, count, planes, others) for each group of lines.
  template <typename Function>
  void Run(int32_t n_threads, T* workspace, const Function& function) const {
    Parallel(n_workers(n_threads), [&](int32_t thread, int32_t threads) {
      T* memory = workspace + thread * worker_items();
      std::fill_n(memory, worker_items(), T(0));  // unused lanes are computed as well
      const Planes<T> planes{memory, memory + plane()};
      const Planes<T> others{memory + 2 * plane(), memory + 3 * plane()};
      const Part part = PartOf(n_groups(), 1, thread, threads);
      for (int64_t group = part.begin; group < part.end; ++group) {
        const int64_t first = group * width_;
        function(first, std::min(width_, n_lines_ - first), planes, others);
      }
    });
  }

  // Writes the offsets of `count` lines of `length` elements to `starts`.
  Lines At(int64_t first, int64_t count, int64_t length, int64_t* starts) const {
    for (int64_t l = 0; l < count; ++l) {
      const int64_t line = first + l;
      starts[l] = line / inner_ * length * inner_ + line % inner_;
    }
    return {count, length, inner_, starts};
  }

 private:
  int64_t n_lines_ = 0;
  int64_t inner_ = 1;
  int64_t n_ = 1;
  int64_t width_ = 1;
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ALGEBRA_LINE_BATCH_H_
