// Tensors partitioned along an axis, one part per process.
#ifndef OPWRIGHT_MPI_PARTS_H_
#define OPWRIGHT_MPI_PARTS_H_

#include <cstdint>
#include <cstring>

#include "opwright/sdk.hpp"

namespace opwright_mpi {

// A tensor viewed as [outer, axis, inner], with one part of the axis per process. A buffer of parts
// has the layout [part, outer, axis / parts, inner].
struct Parts {
  int64_t n_parts = 1;
  int64_t outer = 1;
  int64_t run_bytes = 0;  // contiguous bytes of a part for each outer index

  template <typename Tensor>
  void SetUp(const Tensor& whole, int64_t axis, int64_t n, int64_t item) {
    const opwright::Shape shape = whole.shape();
    const int64_t at = axis < 0 ? axis + shape.rank() : axis;
    n_parts = n;
    run_bytes = item;
    for (int64_t i = 0; i < shape.rank(); ++i) {
      const int64_t dim = shape.dims()[static_cast<size_t>(i)];
      if (i < at) outer *= dim;
      if (i == at) run_bytes *= dim / n;
      if (i > at) run_bytes *= dim;
    }
  }
  int64_t part_bytes() const { return outer * run_bytes; }
  bool is_whole() const { return outer == 1; }

  // Divide copies from a tensor to a buffer of parts; Join copies back.
  void Divide(const char* tensor, char* parts) const { Move(tensor, parts, true); }
  void Join(const char* parts, char* tensor) const { Move(parts, tensor, false); }

 private:
  void Move(const char* from, char* to, bool divides) const {
    for (int64_t part = 0; part < n_parts; ++part) {
      for (int64_t i = 0; i < outer; ++i) {
        const int64_t in_tensor = (i * n_parts + part) * run_bytes;
        const int64_t in_parts = (part * outer + i) * run_bytes;
        std::memcpy(to + (divides ? in_parts : in_tensor), from + (divides ? in_tensor : in_parts),
                    static_cast<size_t>(run_bytes));
      }
    }
  }
};

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_PARTS_H_
