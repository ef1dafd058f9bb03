// cuBLASLt on the CPU. The functions that native/blas/blas.cc of opwright-cuda uses are simple
// loops in double precision.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "driver.h"
#include "elements.h"

using namespace emulator;

namespace {

constexpr int kInvalidValue = 7;
constexpr int kNotSupported = 15;
constexpr int kResultBytes = 96;  // size of cublasLtMatmulHeuristicResult_t
constexpr int kSumsOfFloat = 68;  // cublasComputeType_t
constexpr int kSumsOfDouble = 70;
constexpr int kSumsOfTf32 = 77;

struct Description {
  int compute;
  int scale;
  int32_t transpose_a = 0;
  int32_t transpose_b = 0;
  int32_t epilogue = 1;
  int32_t bias_type = -1;
  const void* bias = nullptr;
};

struct Layout {
  int type;
  uint64_t rows;
  uint64_t columns;
  int64_t leading;
  int32_t batch = 1;
  int64_t stride = 0;
};

struct Call {
  Description description;
  Layout a, b, d;
  double alpha, beta;
  const char* a_data;
  const char* b_data;
  char* d_data;

  std::string Run() const {
    const int64_t m = static_cast<int64_t>(d.rows);
    const int64_t n = static_cast<int64_t>(d.columns);
    const int64_t k = static_cast<int64_t>(description.transpose_a != 0 ? a.rows : a.columns);
    for (int64_t batch = 0; batch < d.batch; ++batch) {
      for (int64_t column = 0; column < n; ++column) {
        for (int64_t row = 0; row < m; ++row) {
          double sum = 0.0;
          for (int64_t i = 0; i < k; ++i) {
            const int64_t at_a =
                description.transpose_a != 0 ? i + row * a.leading : row + i * a.leading;
            const int64_t at_b =
                description.transpose_b != 0 ? column + i * b.leading : i + column * b.leading;
            sum += Read(a_data, at_a + batch * a.stride, a.type) *
                   Read(b_data, at_b + batch * b.stride, b.type);
          }
          sum *= alpha;
          const int64_t at = row + column * d.leading + batch * d.stride;
          if (beta != 0.0) sum += beta * Read(d_data, at, d.type);
          if ((description.epilogue & 4) != 0) {
            sum += Read(static_cast<const char*>(description.bias), row, d.type);
          }
          Write(d_data, at, d.type, sum);
        }
      }
    }
    return "";
  }
};

double Factor(const void* pointer, int scale) {
  return scale == kDouble ? *static_cast<const double*>(pointer)
                          : *static_cast<const float*>(pointer);
}

}  // namespace

EMULATED cublasLtCreate(void** handle) {
  static char only;
  *handle = &only;
  return 0;
}
EMULATED cublasLtDestroy(void*) { return 0; }
EMULATED cublasLtMatmulDescCreate(void** made, int compute, int scale) {
  *made = new Description{compute, scale};
  return 0;
}
EMULATED cublasLtMatmulDescDestroy(void* description) {
  delete static_cast<Description*>(description);
  return 0;
}
EMULATED cublasLtMatmulDescSetAttribute(void* handle, int attribute, const void* value,
                                        size_t bytes) {
  auto* description = static_cast<Description*>(handle);
  if (attribute == 8) {
    if (bytes != sizeof(void*)) return kInvalidValue;
    std::memcpy(&description->bias, value, bytes);
    return 0;
  }
  int32_t* field = attribute == 3    ? &description->transpose_a
                   : attribute == 4  ? &description->transpose_b
                   : attribute == 7  ? &description->epilogue
                   : attribute == 26 ? &description->bias_type
                                     : nullptr;
  if (field == nullptr || bytes != sizeof(int32_t)) return kInvalidValue;
  std::memcpy(field, value, bytes);
  return 0;
}
EMULATED cublasLtMatrixLayoutCreate(void** made, int type, uint64_t rows, uint64_t columns,
                                    int64_t leading) {
  if (rows == 0 || columns == 0 || leading < static_cast<int64_t>(rows)) return kInvalidValue;
  *made = new Layout{type, rows, columns, leading};
  return 0;
}
EMULATED cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return 0;
}
EMULATED cublasLtMatrixLayoutSetAttribute(void* handle, int attribute, const void* value,
                                          size_t bytes) {
  auto* layout = static_cast<Layout*>(handle);
  if (attribute == 5 && bytes == sizeof(int32_t)) {
    std::memcpy(&layout->batch, value, bytes);
  } else if (attribute == 6 && bytes == sizeof(int64_t)) {
    std::memcpy(&layout->stride, value, bytes);
  } else {
    return kInvalidValue;
  }
  return 0;
}
EMULATED cublasLtMatmulPreferenceCreate(void** made) {
  static char only;
  *made = &only;
  return 0;
}
EMULATED cublasLtMatmulPreferenceDestroy(void*) { return 0; }
EMULATED cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }

EMULATED cublasLtMatmulAlgoGetHeuristic(void*, void* description, void* a, void* b, void*, void* d,
                                        void*, int most, void* results, int* n) {
  const auto& wanted = *static_cast<Description*>(description);
  const auto& left = *static_cast<Layout*>(a);
  const auto& right = *static_cast<Layout*>(b);
  const auto& out = *static_cast<Layout*>(d);
  *n = 0;
  const bool is_narrow = left.type == kHalf || left.type == kBFloat16;
  const bool is_known = left.type == right.type &&
                        (out.type == left.type || (is_narrow && out.type == kFloat)) &&
                        (is_narrow || left.type == kFloat || left.type == kDouble);
  const bool sums_are_known = left.type == kDouble
                                  ? wanted.compute == kSumsOfDouble
                                  : wanted.compute == kSumsOfFloat || wanted.compute == kSumsOfTf32;
  if (!is_known || !sums_are_known) return kNotSupported;
  const uint64_t k = wanted.transpose_a != 0 ? left.rows : left.columns;
  const bool fits = (wanted.transpose_a != 0 ? left.columns : left.rows) == out.rows &&
                    (wanted.transpose_b != 0 ? right.rows : right.columns) == out.columns &&
                    (wanted.transpose_b != 0 ? right.columns : right.rows) == k;
  if (!fits) return kInvalidValue;
  // The number of algorithms can be set by tests.
  *n = static_cast<int>(std::min<int64_t>(most, emulator::Setting("blas_algorithms", 1)));
  for (int i = 0; i < *n; ++i) {
    auto* result = static_cast<unsigned char*>(results) + i * kResultBytes;
    std::memset(result, 0, kResultBytes);
    result[0] = static_cast<unsigned char>(i);
  }
  return 0;
}

EMULATED cublasLtMatmul(void*, void* description, const void* alpha, const void* a, void* a_layout,
                        const void* b, void* b_layout, const void* beta, const void*, void*,
                        void* d, void* d_layout, const void* algorithm, void*, size_t,
                        void* stream) {
  Call call;
  call.description = *static_cast<Description*>(description);
  call.a = *static_cast<Layout*>(a_layout);
  call.b = *static_cast<Layout*>(b_layout);
  call.d = *static_cast<Layout*>(d_layout);
  call.alpha = Factor(alpha, call.description.scale);
  call.beta = Factor(beta, call.description.scale);
  call.a_data = static_cast<const char*>(a);
  call.b_data = static_cast<const char*>(b);
  call.d_data = static_cast<char*>(d);
  const int chosen = *static_cast<const unsigned char*>(algorithm);
  emulator::Count("products", 1);
  emulator::Count(("products_by_" + std::to_string(chosen)).c_str(), 1);
  const std::string cost = "blas_milliseconds_" + std::to_string(chosen);
  const auto milliseconds = static_cast<float>(emulator::Setting(cost.c_str(), 1));
  return emulator::Enqueue(stream, [call, milliseconds] {
    emulator::Advance(milliseconds);
    return call.Run();
  });
}
