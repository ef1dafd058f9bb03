// Elements of arrays in loops that compute 16-bit floats in float.
#ifndef OPWRIGHT_CPU_COMMON_ELEMENT_H_
#define OPWRIGHT_CPU_COMMON_ELEMENT_H_

#include <opwright/sdk.hpp>

#include "common/clones.h"
#include "common/half.h"

namespace opwright_cpu {

// Elements of an array, and the dtype of what is computed with them: 16-bit floats are read as
// float and rounded once, when they are written.
template <typename E>
struct ElementOf {
  using Number = E;
  static OPWRIGHT_CPU_INLINE E Read(E element) { return element; }
  static OPWRIGHT_CPU_INLINE E Write(E number) { return number; }
};
template <>
struct ElementOf<opwright::BFloat16> {
  using Number = float;
  static OPWRIGHT_CPU_INLINE float Read(opwright::BFloat16 element) {
    return FloatOfBFloat16(element.bits);
  }
  static OPWRIGHT_CPU_INLINE opwright::BFloat16 Write(float number) {
    return {BFloat16OfFloat(number)};
  }
};
template <>
struct ElementOf<opwright::Float16> {
  using Number = float;
  static OPWRIGHT_CPU_INLINE float Read(opwright::Float16 element) {
    return FloatOfFloat16(element.bits);
  }
  static OPWRIGHT_CPU_INLINE opwright::Float16 Write(float number) {
    return {Float16OfFloat(number)};
  }
};
template <typename E>
using NumberOf = typename ElementOf<E>::Number;

template <typename E>
OPWRIGHT_CPU_INLINE NumberOf<E> ReadElement(E element) {
  return ElementOf<E>::Read(element);
}
template <typename E>
OPWRIGHT_CPU_INLINE E WriteElement(NumberOf<E> number) {
  return ElementOf<E>::Write(number);
}
// What is read again of a number that is written.
template <typename E>
OPWRIGHT_CPU_INLINE NumberOf<E> RoundedElement(NumberOf<E> number) {
  return ReadElement(WriteElement<E>(number));
}

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_COMMON_ELEMENT_H_
