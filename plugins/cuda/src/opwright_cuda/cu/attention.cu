// Row operations on the scores of scaled_dot_product_attention.
#include "attention.h"
#include "functions.h"
#include "lines.h"
#include "reduce.h"

using namespace opwright_cuda;

// Computes weights = softmax(scale * products + mask). If all keys of a line are hidden, its
// weights are 0. Products and weights may share memory if they have the same dtype.
template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    attention_lines(T* weights, Compute<T>* log_sum_exp, const Compute<T>* products,
                    Compute<T> scale, Mask<T> mask, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const int64_t begin = line.is_there ? mask.Begin(line.line) : 0;
  const int64_t query = line.line % mask.queries;
  const auto score_of = [&](int64_t i, C product) {
    return mask.Apply(begin, query, i, product * scale);
  };
  C top = Lowest<C>();
  const auto compare = [&](int64_t i, C& kept, C product) {
    kept = score_of(i, product);
    top = MaxOf<C>()(top, kept);
  };
  ForEach(line, compare, products);
  top = line.Reduce(top, MaxOf<C>());
  if (top == Lowest<C>()) top = C(0);  // no visible key
  C total = C(0);
  const auto power_of = [&](int64_t i, C kept, C again) {
    return functors::Exp((Line::kKeeps ? kept : score_of(i, again)) - top);
  };
  const auto add = [&](int64_t i, C kept, C again) { total += power_of(i, kept, again); };
  ForEach(line, add, Again<C>{products});
  total = line.Reduce(total, SumOf<C>());
  const C share = total == C(0) ? C(0) : C(1) / total;
  const auto apply = [&](int64_t i, C kept, C again) { return power_of(i, kept, again) * share; };
  Transform(line, weights, apply, Again<C>{products});
  if (line.IsFirst()) log_sum_exp[line.line] = top + functors::Log(total);
}

// Recomputes the attention weights from `products` (of queries and keys). Then computes the
// gradient of these products from the weights and from `inner` (the products of out_grad and
// values). Both results may be computed in place if all arrays have the same dtype.
template <typename Line, typename T>
__global__ void __launch_bounds__(kMostLineThreads)
    attention_grad_lines(T* weights, T* products_grad, const Compute<T>* products,
                         const Compute<T>* inner, const Compute<T>* log_sum_exp, Compute<T> scale,
                         Mask<T> mask, Lines lines, int32_t width) {
  using C = Compute<T>;
  Line line(lines, width);
  const int64_t begin = line.is_there ? mask.Begin(line.line) : 0;
  const int64_t query = line.line % mask.queries;
  C shift = line.is_there ? log_sum_exp[line.line] : C(0);
  if (shift == Lowest<C>()) shift = C(0);
  const auto pair_of = [&](int64_t i, C product, C grad) {
    const C score = mask.Apply(begin, query, i, product * scale);
    if (score == Lowest<C>()) return Pair<C>{C(0), grad};  // even if the shift is NaN
    // Products can exceed the shift, because they are summed in a different order. For huge
    // products, the excess is large.
    const C below = score - shift;
    return Pair<C>{functors::Exp(below > C(0) ? C(0) : below), grad};
  };
  C mean = C(0);
  const auto add = [&](int64_t i, Pair<C>& kept, C product, C grad) {
    kept = pair_of(i, product, grad);
    if (kept.first != C(0)) mean += kept.first * kept.second;
  };
  ForEach(line, add, products, inner);
  mean = line.Reduce(mean, SumOf<C>());
  const auto apply = [&](int64_t i, Pair<C> kept, C product, C grad) {
    const Pair<C> pair = Line::kKeeps ? kept : pair_of(i, product, grad);
    if (pair.first == C(0)) return Pair<C>{C(0), C(0)};
    return Pair<C>{pair.first, pair.first * (pair.second - mean) * scale};
  };
  TransformBoth(line, weights, products_grad, apply, Again<C>{products}, Again<C>{inner});
}
