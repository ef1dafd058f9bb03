// Element-wise reduction of data from several processes in rank order: the bits depend neither on
// the library nor on buckets.
#ifndef OPWRIGHT_MPI_JOINING_H_
#define OPWRIGHT_MPI_JOINING_H_

#include <cstdint>
#include <string>

#include "opwright/sdk.hpp"

namespace opwright_mpi {

enum class Reduce { kSum, kMean, kMax, kMin };

// "sum", "mean", "max" or "min", as checked by the operator's definition.
Reduce ReduceOf(const std::string& name);

// out[i] reduces parts[0][i] to parts[n_parts - 1][i]; out may be one of the parts. `weights`, one
// per part, is NULL or the weights of a mean, which is divided by their sum.
using Join = void (*)(Reduce reduce, const void* const* parts, int64_t n_parts, int64_t n,
                      const double* weights, void* out);

// Up to this many bytes in total, every process receives everything and reduces all of it.
constexpr int64_t kSmallBytes = 32 * 1024;

// The function for a dtype of the registered kernels.
Join JoinOf(DLDataType dtype);

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_JOINING_H_
