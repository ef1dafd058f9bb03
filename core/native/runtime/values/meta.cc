#include "runtime/values/meta.h"

#include "runtime/status.h"

namespace opwright {

namespace {

struct NamedDtype {
  const char* name;
  DLDataType dtype;
};

constexpr NamedDtype kDtypes[] = {
    {"bool", {kDLBool, 8, 1}},        {"int8", {kDLInt, 8, 1}},
    {"int16", {kDLInt, 16, 1}},       {"int32", {kDLInt, 32, 1}},
    {"int64", {kDLInt, 64, 1}},       {"uint8", {kDLUInt, 8, 1}},
    {"uint16", {kDLUInt, 16, 1}},     {"uint32", {kDLUInt, 32, 1}},
    {"uint64", {kDLUInt, 64, 1}},     {"float16", {kDLFloat, 16, 1}},
    {"bfloat16", {kDLBfloat, 16, 1}}, {"float32", {kDLFloat, 32, 1}},
    {"float64", {kDLFloat, 64, 1}},   {"float8_e4m3fn", {kDLFloat8_e4m3fn, 8, 1}},
    {"int4", {kDLInt, 4, 1}},         {"float8_e5m2", {kDLFloat8_e5m2, 8, 1}},
    {"uint4", {kDLUInt, 4, 1}},
};

}  // namespace

DLDataType DtypeFromCode(uint32_t code) {
  for (const NamedDtype& known : kDtypes) {
    if (DtypeToCode(known.dtype) == code) return known.dtype;
  }
  Throw(ErrorKind::kDtype, "dtype: unknown DLPack type, got code ", code);
}

DLDataType DtypeFromName(const std::string& name) {
  for (const NamedDtype& known : kDtypes) {
    if (known.name == name) return known.dtype;
  }
  Throw(ErrorKind::kDtype, "dtype: unknown dtype, got '", name, "'");
}

bool IsKnownDtype(DLDataType dtype) {
  for (const NamedDtype& known : kDtypes) {
    if (SameDtype(known.dtype, dtype)) return true;
  }
  return false;
}

const char* DtypeName(DLDataType dtype) {
  for (const NamedDtype& known : kDtypes) {
    if (SameDtype(known.dtype, dtype)) return known.name;
  }
  return "?";
}

std::string ShapeText(const int64_t* shape, int32_t ndim) {
  std::string text = "(";
  for (int32_t i = 0; i < ndim; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + (ndim == 1 ? ",)" : ")");
}

int64_t CheckedNumel(const std::string& who, const int64_t* shape, int32_t ndim,
                     int64_t item_size) {
  int64_t bytes = item_size;
  bool empty = false;
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0) {
      Throw(ErrorKind::kShape, who, ": dims must be at least 0, got shape ",
            ShapeText(shape, ndim));
    }
    // A later 0 makes the tensor empty, regardless of the size of earlier dims.
    if (shape[i] == 0) empty = true;
  }
  if (empty) return 0;
  for (int32_t i = 0; i < ndim; ++i) {
    if (__builtin_mul_overflow(bytes, shape[i], &bytes)) {
      Throw(ErrorKind::kShape, who, ": the size in bytes must fit in 64 bits, got shape ",
            ShapeText(shape, ndim), " of ", item_size, "-byte items; make it smaller");
    }
  }
  return bytes / item_size;
}

void FillRowMajorStrides(const int64_t* shape, int32_t ndim, int64_t* strides) {
  int64_t stride = 1;
  for (int32_t i = ndim - 1; i >= 0; --i) {
    strides[i] = stride;
    // Strides of an empty tensor are unused, but they must neither be 0 nor overflow.
    if (shape[i] > 1 && __builtin_mul_overflow(stride, shape[i], &stride)) stride = 1;
  }
}

}  // namespace opwright
