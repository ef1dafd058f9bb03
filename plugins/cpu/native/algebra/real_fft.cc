// rfft and irfft. A line of 2 h real numbers is transformed as h complex numbers, and a last pass
// separates the transforms of the even and odd elements. A line of odd length is transformed as
// complex numbers with imaginary part 0.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "algebra/attributes.h"
#include "algebra/line_batch.h"

namespace opwright_cpu {
namespace {

template <typename T>
struct RealLines {
  opwright::Status Prepare(opwright::PrepareContext& ctx, int64_t n, int64_t n_lines) {
    n_ = n;
    is_even_ = n % 2 == 0;
    const int64_t length = is_even_ ? n / 2 : n;
    if (n == 0 || !LineTransform<T>::Takes(length)) {
      return opwright::Status::Refused("supports only prime factors up to 31, got length ", n);
    }
    batch_ = LineBatch<T>(n_lines, 1, length);
    transform_ = LineTransform<T>(length, batch_.width());
    for (int64_t k = 0; is_even_ && k < length; ++k) {
      const double angle =
          3.14159265358979323846 * static_cast<double>(k) / static_cast<double>(length);
      turns_.push_back(static_cast<T>(std::cos(angle)));
      turns_.push_back(static_cast<T>(std::sin(angle)));
    }
    turns_.insert(turns_.end(), {T(-1), T(0)});
    const int64_t workers = batch_.n_workers(ctx.n_threads());
    ctx.SetWorkspace(static_cast<uint64_t>(workers * batch_.worker_items()) * sizeof(T));
    const double work = static_cast<double>(n * n_lines);
    ctx.SetEstimate(100 +
                    static_cast<uint64_t>(work * (1.5 + std::log2(static_cast<double>(n)) / 8.0) /
                                          ctx.n_threads()));
    return opwright::Status::Ok();
  }

  int64_t n_ = 1;
  bool is_even_ = false;
  LineBatch<T> batch_;
  LineTransform<T> transform_;
  std::vector<T> turns_;  // exp(i pi k / h) for k up to h
};

// Computes the h + 1 outputs for a line of 2 h real numbers from `z`, the transform of the same
// line as h complex numbers.
template <typename T>
OPWRIGHT_CPU_CLONES void Separate(int64_t h, int64_t width, const T* turns, Planes<T> z,
                                  Planes<T> out) {
  for (int64_t k = 0; k <= h; ++k) {
    const T c = turns[2 * k], s = turns[2 * k + 1];
    const int64_t a = (k == h ? 0 : k) * width, b = (k == 0 ? 0 : h - k) * width;
#pragma GCC ivdep
    for (int64_t l = 0; l < width; ++l) {
      const T even_r = z.re[a + l] + z.re[b + l], even_i = z.im[a + l] - z.im[b + l];
      const T odd_r = z.im[a + l] + z.im[b + l], odd_i = z.re[b + l] - z.re[a + l];
      out.re[k * width + l] = T(0.5) * (even_r + (c * odd_r + s * odd_i));
      out.im[k * width + l] = T(0.5) * (even_i + (c * odd_i - s * odd_r));
    }
  }
}

// Computes the inverse of Separate, times 2. After an inverse transform of the result, the real
// parts are the even elements of the line, and the imaginary parts are its odd elements.
template <typename T>
OPWRIGHT_CPU_CLONES void Join(int64_t h, int64_t width, const T* turns, Planes<T> x,
                              Planes<T> out) {
  for (int64_t k = 0; k < h; ++k) {
    const T c = turns[2 * k], s = turns[2 * k + 1];
    const int64_t a = k * width, b = (h - k) * width;
#pragma GCC ivdep
    for (int64_t l = 0; l < width; ++l) {
      const T even_r = x.re[a + l] + x.re[b + l], even_i = x.im[a + l] - x.im[b + l];
      const T less_r = x.re[a + l] - x.re[b + l], less_i = x.im[a + l] + x.im[b + l];
      out.re[k * width + l] = even_r - (c * less_i + s * less_r);
      out.im[k * width + l] = even_i + (c * less_r - s * less_i);
    }
  }
}

template <typename T>
struct RfftKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const opwright::NoAttrs&) {
    const int64_t n = ctx.input(0).dim(-1);
    return real_.Prepare(ctx, n, n == 0 ? 0 : ctx.input(0).numel() / n);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const opwright::NoAttrs&) const {
    const T* x = ctx.input(0).template data<T>();
    T* out = ctx.output(0).template data<T>();
    const LineBatch<T>& batch = real_.batch_;
    const int64_t n = real_.n_, h = n / 2, width = batch.width();
    const auto one = [&](int64_t first, int64_t count, Planes<T> planes, Planes<T> others) {
      int64_t starts[LineTransform<T>::kLanes];
      if (real_.is_even_) {
        ReadLines<T, 2>(batch.At(first, count, h, starts), x, width, planes);
      } else {
        ReadLines<T, 1>(batch.At(first, count, n, starts), x, width, planes);
      }
      Planes<T> found = real_.transform_.Run(planes, others);
      if (real_.is_even_) {
        const Planes<T> to = found.re == planes.re ? others : planes;
        Separate(h, width, real_.turns_.data(), found, to);
        found = to;
      }
      WriteLines<T, 2>(batch.At(first, count, h + 1, starts), found, width, T(1), out);
    };
    batch.Run(ctx.n_threads(), ctx.workspace<T>(), one);
    return opwright::Status::Ok();
  }

  RealLines<T> real_;
};

template <typename T>
struct IrfftKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const IrfftAttrs&) {
    const int64_t n = ctx.output(0).dim(-1);
    return real_.Prepare(ctx, n, n == 0 ? 0 : ctx.output(0).numel() / n);
  }

  opwright::Status Run(const opwright::RunContext& ctx, const IrfftAttrs&) const {
    const T* x = ctx.input(0).template data<T>();
    T* out = ctx.output(0).template data<T>();
    const LineBatch<T>& batch = real_.batch_;
    const int64_t n = real_.n_, h = n / 2, width = batch.width();
    const T factor = T(1) / static_cast<T>(n);
    const auto one = [&](int64_t first, int64_t count, Planes<T> planes, Planes<T> others) {
      int64_t starts[LineTransform<T>::kLanes];
      ReadLines<T, 2>(batch.At(first, count, h + 1, starts), x, width, planes);
      std::fill_n(planes.im, width, T(0));
      if (real_.is_even_) {
        std::fill_n(planes.im + h * width, width, T(0));
        Join(h, width, real_.turns_.data(), planes, others);
        std::swap(planes, others);
      } else {
        Mirror(planes, width);
      }
      const Planes<T> found = Swapped(real_.transform_.Run(Swapped(planes), Swapped(others)));
      if (real_.is_even_) {
        WriteLines<T, 2>(batch.At(first, count, h, starts), found, width, factor, out);
      } else {
        WriteLines<T, 1>(batch.At(first, count, n, starts), found, width, factor, out);
      }
    };
    batch.Run(ctx.n_threads(), ctx.workspace<T>(), one);
    return opwright::Status::Ok();
  }

 private:
  // Writes the conjugates that make up the second half of the line.
  void Mirror(Planes<T> planes, int64_t width) const {
    for (int64_t k = 1; k <= real_.n_ / 2; ++k) {
      for (int64_t l = 0; l < width; ++l) {
        planes.re[(real_.n_ - k) * width + l] = planes.re[k * width + l];
        planes.im[(real_.n_ - k) * width + l] = -planes.im[k * width + l];
      }
    }
  }

  RealLines<T> real_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("rfft", "cpu", opwright_cpu::RfftKernel, float, double);
OPWRIGHT_REGISTER_KERNEL_FOR("irfft", "cpu", opwright_cpu::IrfftKernel, float, double);
