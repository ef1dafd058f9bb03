#include "blas/blas.h"

#include <dlfcn.h>

#include <cstring>
#include <limits>
#include <vector>

#include "driver/trial.h"

namespace opwright_cuda {

// Each entry is a name, a symbol and its parameters. Handles and descriptions are opaque pointers.
#define OPWRIGHT_CUDA_BLAS_FUNCTIONS(X)                                                           \
  X(Create, "cublasLtCreate", (void**))                                                           \
  X(Destroy, "cublasLtDestroy", (void*))                                                          \
  X(DescCreate, "cublasLtMatmulDescCreate", (void**, int, int))                                   \
  X(DescDestroy, "cublasLtMatmulDescDestroy", (void*))                                            \
  X(DescSet, "cublasLtMatmulDescSetAttribute", (void*, int, const void*, size_t))                 \
  X(LayoutCreate, "cublasLtMatrixLayoutCreate", (void**, int, uint64_t, uint64_t, int64_t))       \
  X(LayoutDestroy, "cublasLtMatrixLayoutDestroy", (void*))                                        \
  X(LayoutSet, "cublasLtMatrixLayoutSetAttribute", (void*, int, const void*, size_t))             \
  X(PreferenceCreate, "cublasLtMatmulPreferenceCreate", (void**))                                 \
  X(PreferenceDestroy, "cublasLtMatmulPreferenceDestroy", (void*))                                \
  X(PreferenceSet, "cublasLtMatmulPreferenceSetAttribute", (void*, int, const void*, size_t))     \
  X(Heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                  \
    (void*, void*, void*, void*, void*, void*, void*, int, void*, int*))                          \
  X(Matmul, "cublasLtMatmul",                                                                     \
    (void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, \
     void*, void*, void*, const void*, void*, size_t, CUstream))

struct BlasApi {
#define OPWRIGHT_CUDA_DECLARE(name, symbol, parameters) int(*name) parameters = nullptr;
  OPWRIGHT_CUDA_BLAS_FUNCTIONS(OPWRIGHT_CUDA_DECLARE)
#undef OPWRIGHT_CUDA_DECLARE
};

namespace {

using Number = ProductSpec;

// Constants of cublasLt.h.
constexpr int kTransA = 3;
constexpr int kTransB = 4;
constexpr int kEpilogue = 7;
constexpr int kBiasPointer = 8;
constexpr int kBiasDataType = 26;
constexpr int kBatchCount = 5;
constexpr int kBatchOffset = 6;
constexpr int kMaxWorkspace = 1;
constexpr int kMinAlignments[] = {5, 6, 7, 8};  // for A, B, C, D
constexpr int kEpilogueBias = 4;                // set in every epilogue with a bias
constexpr int kFloat = 0;                       // cudaDataType
constexpr int kDouble = 1;

uint64_t BytesOf(int64_t type) { return type == kDouble ? 8 : type == kFloat ? 4 : 2; }

struct HeuristicResult {
  std::array<unsigned char, 64> algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

std::mutex& PathMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::string& Path() {
  static auto* path = new std::string("libcublasLt.so.13");
  return *path;
}

Status CheckBlas(int status, const char* what) {
  if (status == 0) return Status::Ok();
  return Status::Error("cuBLASLt: ", what, " failed with status ", status,
                       status == 3 ? " (no memory)" : "");
}

struct Opened {
  BlasApi api;
  Status status = Load();

  Status Load() {
    const std::lock_guard<std::mutex> lock(PathMutex());
    void* library = dlopen(Path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return Status::Error("CUDA: matrix products need cuBLASLt, got \"", dlerror(),
                           "\"; pip install nvidia-cublas");
    }
#define OPWRIGHT_CUDA_LOAD(name, symbol, parameters)                          \
  api.name = reinterpret_cast<int(*) parameters>(dlsym(library, symbol));     \
  OPWRIGHT_ENFORCE(api.name != nullptr, "CUDA: ", Path(), " has no ", symbol, \
                   "; pip install \"nvidia-cublas>=13\"");
    OPWRIGHT_CUDA_BLAS_FUNCTIONS(OPWRIGHT_CUDA_LOAD)
#undef OPWRIGHT_CUDA_LOAD
    return Status::Ok();
  }
};

// The factors alpha and beta, in the scale type of the computation.
struct Factors {
  Factors(bool in_double, double alpha, double beta) : is_double(in_double) {
    doubles[0] = alpha;
    doubles[1] = beta;
    floats[0] = static_cast<float>(alpha);
    floats[1] = static_cast<float>(beta);
  }
  const void* at(int i) const {
    return is_double ? static_cast<const void*>(doubles + i) : static_cast<const void*>(floats + i);
  }
  bool is_double;
  double doubles[2];
  float floats[2];
};

}  // namespace

void SetBlasPath(const std::string& path) {
  const std::lock_guard<std::mutex> lock(PathMutex());
  Path() = path;
}

Status Blas::Open(const Driver& driver, std::unique_ptr<Blas>* blas) {
  static const auto* opened = new Opened;
  OPWRIGHT_RETURN_IF_ERROR(opened->status);
  void* handle = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(CheckBlas(opened->api.Create(&handle), "its start"));
  blas->reset(new Blas(opened->api, driver, handle));
  return Status::Ok();
}

Blas::~Blas() { api_.Destroy(handle_); }

Status Blas::Make(const ProductSpec& spec, std::unique_ptr<Product>* product) const {
  auto made = std::make_unique<Product>(api_, driver_, handle_, spec);
  OPWRIGHT_RETURN_IF_ERROR(made->Choose());
  *product = std::move(made);
  return Status::Ok();
}

Product::Product(const BlasApi& api, const Driver& driver, void* handle, const ProductSpec& spec)
    : api_(api), driver_(driver), handle_(handle), spec_(spec) {}

Product::~Product() {
  for (void* layout : layouts_) {
    if (layout != nullptr) api_.LayoutDestroy(layout);
  }
  if (description_ != nullptr) api_.DescDestroy(description_);
}

Status Product::MakeLayout(Number::Number type, bool transposed, int64_t rows, int64_t columns,
                           int64_t leading, int64_t stride, void** layout) const {
  const auto& n = spec_.numbers;
  if (transposed) std::swap(rows, columns);
  OPWRIGHT_RETURN_IF_ERROR(
      CheckBlas(api_.LayoutCreate(layout, static_cast<int>(n[type]), static_cast<uint64_t>(rows),
                                  static_cast<uint64_t>(columns), leading),
                "a layout"));
  const auto batch = static_cast<int32_t>(n[Number::kBatch]);
  if (batch == 1) return Status::Ok();
  OPWRIGHT_RETURN_IF_ERROR(
      CheckBlas(api_.LayoutSet(*layout, kBatchCount, &batch, sizeof(batch)), "a layout"));
  return CheckBlas(api_.LayoutSet(*layout, kBatchOffset, &stride, sizeof(stride)), "a layout");
}

Status Product::Describe() {
  const auto& n = spec_.numbers;
  OPWRIGHT_RETURN_IF_ERROR(
      CheckBlas(api_.DescCreate(&description_, static_cast<int>(n[Number::kComputeType]),
                                static_cast<int>(n[Number::kScaleType])),
                "a description"));
  const auto set = [this](int attribute, int64_t number) {
    const auto value = static_cast<int32_t>(number);
    return CheckBlas(api_.DescSet(description_, attribute, &value, sizeof(value)), "a description");
  };
  OPWRIGHT_RETURN_IF_ERROR(set(kTransA, n[Number::kTransposeA]));
  OPWRIGHT_RETURN_IF_ERROR(set(kTransB, n[Number::kTransposeB]));
  OPWRIGHT_RETURN_IF_ERROR(set(kEpilogue, n[Number::kEpilogue]));
  if ((n[Number::kEpilogue] & kEpilogueBias) != 0) {
    OPWRIGHT_RETURN_IF_ERROR(set(kBiasDataType, n[Number::kDataType]));
  }
  OPWRIGHT_RETURN_IF_ERROR(MakeLayout(Number::kDataType, n[Number::kTransposeA] != 0, n[Number::kM],
                                      n[Number::kK], n[Number::kLeadingA], n[Number::kStrideA],
                                      &layouts_[0]));
  OPWRIGHT_RETURN_IF_ERROR(MakeLayout(Number::kDataType, n[Number::kTransposeB] != 0, n[Number::kK],
                                      n[Number::kN], n[Number::kLeadingB], n[Number::kStrideB],
                                      &layouts_[1]));
  return MakeLayout(Number::kOutType, false, n[Number::kM], n[Number::kN], n[Number::kLeadingD],
                    n[Number::kStrideD], &layouts_[2]);
}

Status Product::Collect(std::vector<Algorithm>* found) const {
  const auto& n = spec_.numbers;
  void* preference = nullptr;
  OPWRIGHT_RETURN_IF_ERROR(CheckBlas(api_.PreferenceCreate(&preference), "a preference"));
  const auto workspace = static_cast<uint64_t>(n[Number::kWorkspace]);
  api_.PreferenceSet(preference, kMaxWorkspace, &workspace, sizeof(workspace));
  const auto alignment = static_cast<uint32_t>(n[Number::kAlignment]);
  for (const int attribute : kMinAlignments) {
    api_.PreferenceSet(preference, attribute, &alignment, sizeof(alignment));
  }
  std::vector<HeuristicResult> results(static_cast<size_t>(n[Number::kMostTried]));
  int n_results = 0;
  const int status =
      api_.Heuristic(handle_, description_, layouts_[0], layouts_[1], layouts_[2], layouts_[2],
                     preference, static_cast<int>(results.size()), results.data(), &n_results);
  api_.PreferenceDestroy(preference);
  results.resize(status == 0 ? static_cast<size_t>(n_results) : 0);
  for (const HeuristicResult& result : results) {
    if (result.state == 0) found->push_back(result.algorithm);
  }
  if (!found->empty()) return Status::Ok();
  return Status::Refused("cuBLASLt has no algorithm for this product (status ", status, ")");
}

Status Product::FindFastest(const std::vector<Algorithm>& found) {
  const auto& n = spec_.numbers;
  const auto bytes = [&](int64_t rows, int64_t columns, int64_t stride, Number::Number type) {
    const int64_t elements = (n[Number::kBatch] - 1) * stride + rows * columns;
    return static_cast<uint64_t>(elements) * BytesOf(n[type]);
  };
  const int64_t m = n[Number::kM];
  Trial trial(driver_);
  OPWRIGHT_RETURN_IF_ERROR(trial.Start({
      bytes(m, n[Number::kK], n[Number::kStrideA], Number::kDataType),
      bytes(n[Number::kK], n[Number::kN], n[Number::kStrideB], Number::kDataType),
      bytes(m, n[Number::kN], n[Number::kStrideD], Number::kOutType),
      static_cast<uint64_t>(m) * BytesOf(n[Number::kDataType]),
      static_cast<uint64_t>(n[Number::kWorkspace]),
  }));
  const auto run = [&](void*, CUstream stream) { return Run(trial.tensors().data(), stream); };
  Algorithm fastest = found.front();
  float least = std::numeric_limits<float>::infinity();
  Status last = Status::Ok();
  for (const Algorithm& algorithm : found) {
    algorithm_ = algorithm;
    float milliseconds = 0;
    Status timed = trial.Time(0, run, &milliseconds);
    if (!timed.ok()) {
      last = std::move(timed);
    } else if (milliseconds < least) {
      least = milliseconds;
      fastest = algorithm;
    }
  }
  algorithm_ = fastest;
  return least < std::numeric_limits<float>::infinity() ? Status::Ok() : last;
}

Status Product::Choose() {
  OPWRIGHT_RETURN_IF_ERROR(Describe());
  std::vector<Algorithm> found;
  OPWRIGHT_RETURN_IF_ERROR(Collect(&found));
  algorithm_ = found.front();
  return found.size() == 1 ? Status::Ok() : FindFastest(found);
}

Status Product::Run(void* const* pointers, CUstream stream) const {
  const auto& n = spec_.numbers;
  const Factors factors(n[Number::kScaleType] == kDouble, 1.0,
                        n[Number::kAccumulates] != 0 ? 1 : 0);
  const std::lock_guard<std::mutex> lock(mutex_);
  if ((n[Number::kEpilogue] & kEpilogueBias) != 0) {
    OPWRIGHT_RETURN_IF_ERROR(CheckBlas(
        api_.DescSet(description_, kBiasPointer, &pointers[3], sizeof(void*)), "the bias"));
  }
  return CheckBlas(api_.Matmul(handle_, description_, factors.at(0), pointers[0], layouts_[0],
                               pointers[1], layouts_[1], factors.at(1), pointers[2], layouts_[2],
                               pointers[2], layouts_[2], algorithm_.data(), pointers[4],
                               static_cast<size_t>(n[Number::kWorkspace]), stream),
                   "a matrix product");
}

}  // namespace opwright_cuda
