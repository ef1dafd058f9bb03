// Elements of arrays, for loops that compute 16-bit floats in float: they are read as float, and
// rounded once, when they are written. Elements of other dtypes are not converted.
//
//   for (int64_t i = 0; i < n; ++i) {
//     y[i] = opwright::WriteElement<T>(2 * opwright::ReadElement(x[i]));
//   }
#ifndef OPWRIGHT_SDK_ELEMENT_HPP_
#define OPWRIGHT_SDK_ELEMENT_HPP_

#include "opwright/functors/half.h"
#include "opwright/sdk/dtypes.hpp"

namespace opwright {
namespace detail {

template <typename E>
struct ElementOf {
  using Number = E;
  static OPWRIGHT_FUNCTOR E Read(E element) { return element; }
  static OPWRIGHT_FUNCTOR E Write(E number) { return number; }
};
template <>
struct ElementOf<BFloat16> {
  using Number = float;
  static OPWRIGHT_FUNCTOR float Read(BFloat16 element) {
    return functors::FloatOfBFloat16(element.bits);
  }
  static OPWRIGHT_FUNCTOR BFloat16 Write(float number) {
    return {functors::BFloat16OfFloat(number)};
  }
};
template <>
struct ElementOf<Float16> {
  using Number = float;
  static OPWRIGHT_FUNCTOR float Read(Float16 element) {
    return functors::FloatOfFloat16(element.bits);
  }
  static OPWRIGHT_FUNCTOR Float16 Write(float number) { return {functors::Float16OfFloat(number)}; }
};

}  // namespace detail

// The type of computations on elements of type E.
template <typename E>
using NumberOf = typename detail::ElementOf<E>::Number;

template <typename E>
OPWRIGHT_FUNCTOR NumberOf<E> ReadElement(E element) {
  return detail::ElementOf<E>::Read(element);
}
template <typename E>
OPWRIGHT_FUNCTOR E WriteElement(NumberOf<E> number) {
  return detail::ElementOf<E>::Write(number);
}
// The number, rounded to E.
template <typename E>
OPWRIGHT_FUNCTOR NumberOf<E> RoundedElement(NumberOf<E> number) {
  return ReadElement(WriteElement<E>(number));
}

}  // namespace opwright

#endif  // OPWRIGHT_SDK_ELEMENT_HPP_
