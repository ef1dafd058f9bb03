// Joins what several processes sent, element by element, in the order of their ranks: so the bits
// depend neither on the library nor on how tensors were put into buckets.
#ifndef OPWRIGHT_MPI_JOINING_H_
#define OPWRIGHT_MPI_JOINING_H_

#include <cstdint>
#include <string>

#include "opwright/sdk.hpp"

namespace opwright_mpi {

enum class Reduce { kSum, kMean, kMax, kMin };

// "sum", "mean", "max" or "min", which the description of the operator has checked.
Reduce ReduceOf(const std::string& name);

// out[i] joins parts[0][i] to parts[n_parts - 1][i]; out may be one of the parts. `weights`, one
// for each part, is NULL, or what a mean weights the parts by; it is then divided by their sum.
using Join = void (*)(Reduce reduce, const void* const* parts, int64_t n_parts, int64_t n,
                      const double* weights, void* out);

// Up to so many bytes over all processes, everybody gets everything and joins all of it.
constexpr int64_t kSmallBytes = 32 * 1024;

// The function for a dtype: one of those that the kernels are registered for.
Join JoinOf(DLDataType dtype);

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_JOINING_H_
