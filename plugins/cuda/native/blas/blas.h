// Matrix products by cuBLASLt, which is loaded at first use.
#ifndef OPWRIGHT_CUDA_BLAS_BLAS_H_
#define OPWRIGHT_CUDA_BLAS_BLAS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver/driver.h"

namespace opwright_cuda {

// Specifies D = op(A) op(B) + bias. All matrices are column-major, as in cuBLASLt. D is m x n, and
// the bias has length m.
struct ProductSpec {
  enum Number {
    kM,
    kN,
    kK,
    kTransposeA,
    kTransposeB,
    kLeadingA,
    kLeadingB,
    kLeadingD,
    kBatch,
    kStrideA,  // elements between the matrices of a batch
    kStrideB,
    kStrideD,
    kDataType,     // cudaDataType of A, B and the bias
    kOutType,      // cudaDataType of D
    kComputeType,  // cublasComputeType
    kScaleType,    // cudaDataType of the factors
    kEpilogue,     // cublasLtEpilogue
    kAccumulates,  // 1 if the product is added to D
    kAlignment,    // alignment of every pointer in bytes
    kWorkspace,    // workspace size in bytes
    kMostTried,    // number of algorithms to benchmark; 1 uses the first
    kNumbers
  };
  std::array<int64_t, kNumbers> numbers{};
  // Offsets of the pointers to A, B, D, bias and workspace in the constants of a launch.
  std::array<size_t, 5> pointers{};
};

struct BlasApi;

// A product with its algorithm. It is immutable except for the bias address, which cuBLASLt stores
// in the description.
class Product {
 public:
  static constexpr size_t kPointers = 5;

  Product(const BlasApi& api, const Driver& driver, void* handle, const ProductSpec& spec);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  // Chooses the algorithm; refuses if cuBLASLt does not support the product.
  Status Choose();
  const std::array<size_t, kPointers>& places() const { return spec_.pointers; }
  Status Run(void* const* pointers, CUstream stream) const;

 private:
  using Algorithm = std::array<unsigned char, 64>;

  Status Describe();
  // Collects the algorithms to benchmark; refuses if none exists.
  Status Collect(std::vector<Algorithm>* found) const;
  Status FindFastest(const std::vector<Algorithm>& found);
  Status MakeLayout(ProductSpec::Number type, bool transposed, int64_t rows, int64_t columns,
                    int64_t leading, int64_t stride, void** layout) const;

  const BlasApi& api_;
  const Driver& driver_;
  void* handle_;
  ProductSpec spec_;
  mutable std::mutex mutex_;
  void* description_ = nullptr;
  void* layouts_[3] = {nullptr, nullptr, nullptr};
  alignas(8) Algorithm algorithm_{};
};

class Blas {
 public:
  // Opens the library in the current context; returns an error if the library is missing.
  static Status Open(const Driver& driver, std::unique_ptr<Blas>* blas);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  Status Make(const ProductSpec& spec, std::unique_ptr<Product>* product) const;

 private:
  Blas(const BlasApi& api, const Driver& driver, void* handle)
      : api_(api), driver_(driver), handle_(handle) {}

  const BlasApi& api_;
  const Driver& driver_;
  void* handle_;
};

// Sets the path of libcublasLt. Python calls this function before the first product.
void SetBlasPath(const std::string& path);

}  // namespace opwright_cuda

#endif  // OPWRIGHT_CUDA_BLAS_BLAS_H_
