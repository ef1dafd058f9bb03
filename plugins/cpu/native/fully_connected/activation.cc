#include "fully_connected/activation.h"

#include <opwright/functors.h>

#include "common/clones.h"

namespace opwright_cpu {
namespace {

template <typename T>
OPWRIGHT_CPU_CLONES void AddParts(const T* parts, int64_t n_parts, int64_t stride, const T* bias,
                                  int64_t n, T* out) {
  for (int64_t j = 0; j < n; ++j) out[j] = bias != nullptr ? parts[j] + bias[j] : parts[j];
  for (int64_t part = 1; part < n_parts; ++part) {
    const T* more = parts + part * stride;
    for (int64_t j = 0; j < n; ++j) out[j] += more[j];
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void ReluRow(T* out, int64_t n) {
  for (int64_t j = 0; j < n; ++j) out[j] = opwright::functors::Relu(out[j]);
}

template <typename T>
OPWRIGHT_CPU_CLONES void SigmoidRow(T* out, int64_t n) {
  for (int64_t j = 0; j < n; ++j) out[j] = opwright::functors::Sigmoid(out[j]);
}

template <typename T>
OPWRIGHT_CPU_CLONES void TanhRow(T* out, int64_t n) {
  for (int64_t j = 0; j < n; ++j) out[j] = opwright::functors::Tanh(out[j]);
}

template <typename T>
OPWRIGHT_CPU_CLONES void SoftmaxRow(T* out, int64_t n) {
  if (n == 0) return;
  T maximum = out[0];
  for (int64_t j = 1; j < n; ++j) maximum = opwright::functors::Maximum(maximum, out[j]);
  for (int64_t j = 0; j < n; ++j) out[j] = opwright::functors::Exp(out[j] - maximum);
  T total = T(0);
  for (int64_t j = 0; j < n; ++j) total += out[j];
  for (int64_t j = 0; j < n; ++j) out[j] /= total;
}

template <typename T>
void ActivateRow(Activation activation, T* out, int64_t n) {
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return ReluRow(out, n);
    case Activation::kSigmoid:
      return SigmoidRow(out, n);
    case Activation::kTanh:
      return TanhRow(out, n);
    case Activation::kSoftmax:
      return SoftmaxRow(out, n);
  }
}

template <typename T>
OPWRIGHT_CPU_CLONES void ReluDerivative(const T* out, T* grad, int64_t n) {
  for (int64_t j = 0; j < n; ++j) grad[j] = opwright::functors::ReluGrad(out[j], grad[j]);
}

template <typename T>
OPWRIGHT_CPU_CLONES void SigmoidDerivative(const T* out, T* grad, int64_t n) {
  for (int64_t j = 0; j < n; ++j) grad[j] = opwright::functors::SigmoidGrad(out[j], grad[j]);
}

template <typename T>
OPWRIGHT_CPU_CLONES void TanhDerivative(const T* out, T* grad, int64_t n) {
  for (int64_t j = 0; j < n; ++j) grad[j] = opwright::functors::TanhGrad(out[j], grad[j]);
}

template <typename T>
OPWRIGHT_CPU_CLONES void AddRow(const T* row, T* sums, int64_t n) {
  for (int64_t j = 0; j < n; ++j) sums[j] += row[j];
}

}  // namespace

template <typename T>
void FinishRows(Activation activation, const T* parts, int64_t n_parts, int64_t stride,
                const T* bias, int64_t rows, int64_t n, T* out) {
  for (int64_t i = 0; i < rows; ++i) {
    AddParts(parts + i * n, n_parts, stride, bias, n, out + i * n);
    // The activation is applied right after the row is computed, while the row is in the L1 cache.
    ActivateRow(activation, out + i * n, n);
  }
}

template <typename T>
void MultiplyByDerivative(Activation activation, const T* out, T* grad, int64_t rows, int64_t n,
                          int64_t stride, T* bias_grad) {
  if (bias_grad != nullptr) {
    for (int64_t j = 0; j < n; ++j) bias_grad[j] = T(0);
  }
  for (int64_t i = 0; i < rows; ++i) {
    T* row = grad + i * stride;
    switch (activation) {
      case Activation::kRelu:
        ReluDerivative(out + i * stride, row, n);
        break;
      case Activation::kSigmoid:
        SigmoidDerivative(out + i * stride, row, n);
        break;
      case Activation::kTanh:
        TanhDerivative(out + i * stride, row, n);
        break;
      case Activation::kNone:
      case Activation::kSoftmax:
        break;
    }
    if (bias_grad != nullptr) AddRow(row, bias_grad, n);
  }
}

template void FinishRows(Activation, const float*, int64_t, int64_t, const float*, int64_t, int64_t,
                         float*);
template void FinishRows(Activation, const double*, int64_t, int64_t, const double*, int64_t,
                         int64_t, double*);
template void MultiplyByDerivative(Activation, const float*, float*, int64_t, int64_t, int64_t,
                                   float*);
template void MultiplyByDerivative(Activation, const double*, double*, int64_t, int64_t, int64_t,
                                   double*);

}  // namespace opwright_cpu
