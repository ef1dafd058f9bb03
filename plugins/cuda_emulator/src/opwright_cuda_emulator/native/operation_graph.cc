#include "operation_graph.h"

#include <cstring>

#include "elements.h"

namespace emulator {

namespace {

constexpr uintptr_t kAlignment = 16;
constexpr int kCudaTypes[] = {kFloat, kDouble, kHalf};  // indexed by cudnnDataType

int TypeOf(const Tensor& tensor) { return tensor.type == 9 ? kBFloat16 : kCudaTypes[tensor.type]; }

int64_t CountOf(const Tensor& tensor) {
  int64_t n = 1;
  for (const int64_t extent : tensor.extents) n *= extent;
  return n;
}

// Calls `function` with the offset and the index of each element, row by row.
template <typename Function>
void ForEach(const Tensor& tensor, const Function& function) {
  const auto& [n, channels, height, width] = tensor.extents;
  int64_t i = 0;
  for (int64_t a = 0; a < n; ++a) {
    for (int64_t b = 0; b < channels; ++b) {
      for (int64_t c = 0; c < height; ++c) {
        for (int64_t d = 0; d < width; ++d) {
          function(a * tensor.strides[0] + b * tensor.strides[1] + c * tensor.strides[2] +
                       d * tensor.strides[3],
                   i++);
        }
      }
    }
  }
}

// Rounds to 10 fraction bits, as tensor cores do.
double ToTf32(double value) {
  const auto single = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &single, sizeof(bits));
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof(rounded));
  return rounded;
}

using Values = std::vector<double>;

// Visits every product in the sum of each result. `function` gets the offsets of x, weight and
// result; the offset of x is -1 in the padding.
template <typename Function>
void Convolve(const Operation& operation, const Function& function) {
  const auto& x = operation.x.extents;
  const auto& w = operation.weight.extents;
  const auto& y = operation.result.extents;
  const Windows& windows = operation.windows;
  const int64_t filters_of_group = w[0] * w[1] / x[1];  // w[0] / (x[1] / w[1]) groups
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t k = 0; k < y[1]; ++k) {
      const int64_t first = k / filters_of_group * w[1];
      for (int64_t p = 0; p < y[2]; ++p) {
        for (int64_t q = 0; q < y[3]; ++q) {
          const int64_t result = ((n * y[1] + k) * y[2] + p) * y[3] + q;
          for (int64_t c = 0; c < w[1]; ++c) {
            for (int64_t r = 0; r < w[2]; ++r) {
              const int64_t h =
                  p * windows.strides[0] - windows.before[0] + r * windows.dilations[0];
              for (int64_t s = 0; s < w[3]; ++s) {
                const int64_t v =
                    q * windows.strides[1] - windows.before[1] + s * windows.dilations[1];
                const bool is_inside = h >= 0 && h < x[2] && v >= 0 && v < x[3];
                function(is_inside ? ((n * x[1] + first + c) * x[2] + h) * x[3] + v : -1,
                         ((k * w[1] + c) * w[2] + r) * w[3] + s, result);
              }
            }
          }
        }
      }
    }
  }
}

// The values of all tensors of one run.
class Computation {
 public:
  explicit Computation(const GraphCall& call) : call_(call) {}

  void Compute(const Operation& operation) {
    switch (operation.what) {
      case Operation::kForward: {
        const Values x = Factor(operation.x), weight = Factor(operation.weight);
        Values out(Size(operation.result), 0.0);
        Convolve(operation, [&](int64_t i, int64_t j, int64_t k) {
          out[k] += (i < 0 ? 0.0 : x[i]) * weight[j];
        });
        return Store(operation.result, out);
      }
      case Operation::kDataGradient: {
        const Values gradients = Factor(operation.result), weight = Factor(operation.weight);
        Values out(Size(operation.x), 0.0);
        Convolve(operation, [&](int64_t i, int64_t j, int64_t k) {
          if (i >= 0) out[i] += gradients[k] * weight[j];
        });
        return Store(operation.x, out);
      }
      case Operation::kWeightGradient: {
        const Values x = Factor(operation.x), gradients = Factor(operation.result);
        Values out(Size(operation.weight), 0.0);
        Convolve(operation, [&](int64_t i, int64_t j, int64_t k) {
          out[j] += (i < 0 ? 0.0 : x[i]) * gradients[k];
        });
        return Store(operation.weight, out);
      }
      case Operation::kAdd:
        return Add(operation);
    }
  }

 private:
  static size_t Size(const Tensor& tensor) { return static_cast<size_t>(CountOf(tensor)); }

  // The addend is broadcast along dimensions of length 1.
  void Add(const Operation& operation) {
    Values out = Load(operation.x);
    const Values added = Load(operation.weight);
    Tensor repeated = operation.x;
    int64_t stride = 1;
    for (size_t i = 4; i-- > 0;) {
      repeated.strides[i] = operation.weight.extents[i] == 1 ? 0 : stride;
      stride *= operation.weight.extents[i];
    }
    ForEach(repeated, [&](int64_t at, int64_t i) { out[i] += added[at]; });
    Store(operation.result, out);
  }

  Values Load(const Tensor& tensor) {
    if (tensor.is_virtual) return virtual_.at(tensor.name);
    Values values(Size(tensor));
    const char* data = call_.pointers.at(tensor.name);
    ForEach(tensor, [&](int64_t at, int64_t i) { values[i] = Read(data, at, TypeOf(tensor)); });
    return values;
  }

  // Returns the values of a factor, rounded to TF32 if the product rounds them.
  Values Factor(const Tensor& tensor) {
    Values values = Load(tensor);
    if (call_.rounds_to_tf32 && TypeOf(tensor) == kFloat) {
      for (double& value : values) value = ToTf32(value);
    }
    return values;
  }

  void Store(const Tensor& tensor, const Values& values) {
    if (tensor.is_virtual) {
      Values& kept = virtual_[tensor.name];
      for (const double value : values) kept.push_back(static_cast<float>(value));
      return;
    }
    char* data = call_.pointers.at(tensor.name);
    ForEach(tensor, [&](int64_t at, int64_t i) { Write(data, at, TypeOf(tensor), values[i]); });
  }

  const GraphCall& call_;
  std::map<int64_t, Values> virtual_;
};

}  // namespace

std::string Operation::FindMismatch() const {
  if (what == kAdd) {
    for (size_t i = 0; i < 4; ++i) {
      const bool fits = weight.extents[i] == x.extents[i] || weight.extents[i] == 1;
      if (!fits || x.extents[i] != result.extents[i]) return "the extents of a sum do not fit";
    }
    return "";
  }
  const auto& w = weight.extents;
  if (x.extents[1] % w[1] != 0 || w[0] % (x.extents[1] / w[1]) != 0) return "the groups do not fit";
  if (result.extents[0] != x.extents[0] || result.extents[1] != w[0]) return "n or channels differ";
  for (size_t i = 0; i < 2; ++i) {
    const int64_t room = x.extents[2 + i] + windows.before[i] + windows.behind[i] -
                         (w[2 + i] - 1) * windows.dilations[i] - 1;
    if (result.extents[2 + i] != room / windows.strides[i] + 1) return "the windows do not fit";
  }
  return "";
}

std::string GraphCall::FindMisuse() const {
  if (workspace_bytes > 0 && workspace == nullptr) return "the workspace is missing";
  for (const Operation& operation : graph->operations) {
    for (const Tensor* tensor : {&operation.x, &operation.weight, &operation.result}) {
      if (tensor->is_virtual) continue;
      const auto found = pointers.find(tensor->name);
      if (found == pointers.end() || found->second == nullptr) return "a tensor pointer is null";
      if (reinterpret_cast<uintptr_t>(found->second) % kAlignment != 0) {
        return "a pointer is misaligned";
      }
    }
  }
  return "";
}

std::string GraphCall::Run() const {
  // On a GPU, the contents of the shared workspace would also be overwritten.
  if (workspace_bytes > 0) std::memset(workspace, 0xff, workspace_bytes);
  Computation computation(*this);
  for (const Operation& operation : graph->operations) computation.Compute(operation);
  return "";
}

}  // namespace emulator
