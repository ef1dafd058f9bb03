// SIMD vectors of 64 bytes; the compiler splits them into registers of the processor's width.
#ifndef OPWRIGHT_CPU_ALGEBRA_VECTORS_H_
#define OPWRIGHT_CPU_ALGEBRA_VECTORS_H_

#include <cstring>

#include "common/clones.h"

namespace opwright_cpu {

template <typename T>
struct Vector;
template <>
struct Vector<float> {
  typedef float Type
      __attribute__((vector_size(64)));  // NOLINT(modernize-use-using): as GCC has it
};
template <>
struct Vector<double> {
  typedef double Type __attribute__((vector_size(64)));  // NOLINT(modernize-use-using)
};

template <typename V, typename T>
OPWRIGHT_CPU_INLINE void Get(const T* from, V& vector) {
  std::memcpy(&vector, from, sizeof(V));
}

template <typename V, typename T>
OPWRIGHT_CPU_INLINE void Put(const V& vector, T* to) {
  std::memcpy(to, &vector, sizeof(V));
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_ALGEBRA_VECTORS_H_
