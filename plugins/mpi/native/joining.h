// Elementwise reduction of the data of several processes in rank order, so results do not depend on
// the library or on buckets.
#ifndef OPWRIGHT_MPI_JOINING_H_
#define OPWRIGHT_MPI_JOINING_H_

#include <cstdint>
#include <string>

#include "opwright/sdk.hpp"

namespace opwright_mpi {

enum class Reduce { kSum, kMean, kMax, kMin };

// Converts "sum", "mean", "max" or "min"; the operator definition has checked the name.
Reduce ReduceOf(const std::string& name);

// Reduces parts[0][i], ..., parts[n_parts - 1][i] into out[i]; out can be one of the parts.
// A weighted mean has one weight per part and is divided by their sum; otherwise `weights` is NULL.
using Join = void (*)(Reduce reduce, const void* const* parts, int64_t n_parts, int64_t n,
                      const double* weights, void* out);

// Up to this total number of bytes, every process receives and reduces all data.
constexpr int64_t kSmallBytes = 32 * 1024;

// Returns the function for a dtype, which must be one that the registered kernels support.
Join JoinOf(DLDataType dtype);

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_JOINING_H_
