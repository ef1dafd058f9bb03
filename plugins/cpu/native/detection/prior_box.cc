// prior_box: a box depends only on shapes, attributes, and its row and column.
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/half_rows.h"
#include "detection/attributes.h"
#include "movement/tensors.h"
#include "movement/widths.h"

namespace opwright_cpu {
namespace {

struct Size {
  double width;
  double height;
};

// Returns 1 and the distinct other ratios, each followed by its reciprocal if requested.
std::vector<double> ExpandRatios(const PriorBoxAttrs& attrs) {
  std::vector<double> found = {1.0};
  for (double ratio : attrs.aspect_ratios) {
    const auto is_close = [ratio](double other) { return std::abs(ratio - other) < 1e-6; };
    if (std::any_of(found.begin(), found.end(), is_close)) continue;
    found.push_back(ratio);
    if (attrs.flip) found.push_back(1.0 / ratio);
  }
  return found;
}

std::vector<Size> SizesOf(const PriorBoxAttrs& attrs) {
  const std::vector<double> ratios = ExpandRatios(attrs);
  std::vector<Size> sizes;
  for (size_t i = 0; i < attrs.min_sizes.size(); ++i) {
    const double size = attrs.min_sizes[i];
    const size_t square = attrs.max_size_second ? 0 : ratios.size() - 1;
    for (size_t k = 0; k < ratios.size(); ++k) {
      const double root = std::sqrt(ratios[k]);
      sizes.push_back(Size{size * root, size / root});
      if (attrs.max_sizes.empty() || k != square) continue;
      const double side = std::sqrt(size * attrs.max_sizes[i]);
      sizes.push_back(Size{side, side});
    }
  }
  return sizes;
}

// Slots: x, image; out, variances.
template <typename T>
struct PriorBoxKernel {
  static void Configure(opwright::KernelOptions& options) { options.library = "native"; }

  opwright::Status Prepare(opwright::PrepareContext& ctx, const PriorBoxAttrs& attrs) {
    const opwright::Shape x = ctx.input(0).shape(), image = ctx.input(1).shape();
    const std::vector<Size> sizes = SizesOf(attrs);
    priors_ = static_cast<int64_t>(sizes.size());
    rows_ = x.dim(2), columns_ = x.dim(3);
    const bool given = attrs.steps[0] > 0.0 && attrs.steps[1] > 0.0;
    const auto fill = [&](int64_t count, int64_t pixels, double step, auto extent_of) {
      const auto extent = static_cast<double>(pixels);
      const double pitch = given ? step : extent / static_cast<double>(count);
      std::vector<T> sides;
      for (int64_t i = 0; i < count; ++i) {
        const double center = (static_cast<double>(i) + attrs.offset) * pitch;
        for (const Size& size : sizes) {
          for (double half : {-extent_of(size) / 2, extent_of(size) / 2}) {
            const double side = (center + half) / extent;
            sides.push_back(Rounded<T>(attrs.clip ? std::clamp(side, 0.0, 1.0) : side));
          }
        }
      }
      return sides;
    };
    across_ = fill(columns_, image.dim(3), attrs.steps[0], [](const Size& s) { return s.width; });
    down_ = fill(rows_, image.dim(2), attrs.steps[1], [](const Size& s) { return s.height; });
    for (double number : attrs.variance) variance_.push_back(Rounded<T>(number));
    const auto bytes = rows_ * columns_ * priors_ * 8 * static_cast<int64_t>(sizeof(T));
    ctx.SetEstimate(MoveNanoseconds(bytes, ctx.n_threads()));
    return opwright::Status::Ok();
  }

  opwright::Status Run(const opwright::RunContext& ctx, const PriorBoxAttrs&) const {
    if (rows_ * columns_ == 0) return opwright::Status::Ok();
    T* out = ctx.output(0).template data<T>();
    T* variances = ctx.output(1).template data<T>();
    const int64_t row_bytes = columns_ * priors_ * 8 * static_cast<int64_t>(sizeof(T));
    ParallelFor(ctx.n_threads(), rows_, kCopyGrainBytes / row_bytes + 1, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    const int64_t at = row * columns_ * priors_ * 4;
                    WriteRow(down_.data() + row * priors_ * 2, out + at, variances + at);
                  }
                });
    return opwright::Status::Ok();
  }

 private:
  void WriteRow(const T* down, T* out, T* variances) const {
    for (int64_t column = 0; column < columns_; ++column) {
      const T* across = across_.data() + column * priors_ * 2;
      for (int64_t k = 0; k < priors_; ++k, out += 4, variances += 4) {
        out[0] = across[2 * k];
        out[1] = down[2 * k];
        out[2] = across[2 * k + 1];
        out[3] = down[2 * k + 1];
        for (int i = 0; i < 4; ++i) variances[i] = variance_[static_cast<size_t>(i)];
      }
    }
  }

  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t priors_ = 0;
  std::vector<T> across_;  // [columns, priors, 2]: left and right
  std::vector<T> down_;    // [rows, priors, 2]: top and bottom
  std::vector<T> variance_;
};

}  // namespace
}  // namespace opwright_cpu

OPWRIGHT_REGISTER_KERNEL_FOR("prior_box", "cpu", opwright_cpu::PriorBoxKernel, float, double,
                             OPWRIGHT_CPU_HALVES);
