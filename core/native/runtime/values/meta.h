// Dtypes and shapes: names, item sizes, and sizes with overflow checks.
#ifndef OPWRIGHT_RUNTIME_META_H_
#define OPWRIGHT_RUNTIME_META_H_

#include <cstdint>
#include <string>
#include <vector>

#include "opwright/abi.h"

namespace opwright {

using Shape = std::vector<int64_t>;

inline bool SameDtype(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

inline uint32_t DtypeToCode(DLDataType dtype) {
  return dtype.code | static_cast<uint32_t>(dtype.bits) << 8 |
         static_cast<uint32_t>(dtype.lanes) << 16;
}

// Throws kDtype unless the code is a known dtype with one lane.
DLDataType DtypeFromCode(uint32_t code);

// Throws kDtype unless the name is canonical.
DLDataType DtypeFromName(const std::string& name);

bool IsKnownDtype(DLDataType dtype);

// Returns the canonical name, such as "float32", or "?" for an unknown dtype.
const char* DtypeName(DLDataType dtype);

// The item size in bytes; int4 and uint4 take one byte per element.
inline int64_t ItemSize(DLDataType dtype) { return (dtype.bits + 7) / 8; }

// Formats a shape as "(2, 3)".
std::string ShapeText(const int64_t* shape, int32_t ndim);
inline std::string ShapeText(const Shape& shape) {
  return ShapeText(shape.data(), static_cast<int32_t>(shape.size()));
}

// Returns the element count; throws kShape, with a message that begins with `who`, for a negative
// dim or a size in bytes that overflows 64 bits.
int64_t CheckedNumel(const std::string& who, const int64_t* shape, int32_t ndim, int64_t item_size);

void FillRowMajorStrides(const int64_t* shape, int32_t ndim, int64_t* strides);

inline bool IsEmpty(const int64_t* shape, int32_t ndim) {
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] == 0) return true;
  }
  return false;
}

inline int64_t Numel(const DLTensor& tensor) {
  int64_t numel = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) numel *= tensor.shape[i];
  return numel;
}

inline uint64_t SizeBytes(const DLTensor& tensor) {
  return static_cast<uint64_t>(Numel(tensor) * ItemSize(tensor.dtype));
}

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_META_H_
