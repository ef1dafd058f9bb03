// Sums, extrema and their indices along lines.
#include "columns.h"
#include "functions.h"

using namespace opwright_cuda;

// A reduction is a functor as in reduce.h with conversions from an element (`Of`) and to the output
// (`Finish`).
template <typename Acc>
struct Total : SumOf<Acc> {
  using Value = Acc;
  Acc count;  // the divisor of the sum, to compute means
  template <typename In>
  OW_INLINE Acc Of(In x, int64_t) const {
    return static_cast<Acc>(x);
  }
  template <typename Out>
  OW_INLINE Out Finish(Acc total) const {
    if constexpr (IsFloat<Acc>::value) total = total / count;
    return Store<Out>(total);
  }
};

template <typename Acc>
struct Product {
  using Value = Acc;
  static OW_INLINE Acc Identity() { return Acc(1); }
  OW_INLINE Acc operator()(Acc x, Acc y) const { return x * y; }
  template <typename In>
  OW_INLINE Acc Of(In x, int64_t) const {
    return static_cast<Acc>(x);
  }
  template <typename Out>
  OW_INLINE Out Finish(Acc product) const {
    return Store<Out>(product);
  }
};

// The square root of the sum of squares.
template <typename Acc>
struct Norm : SquareSumOf<Acc> {
  using Value = functors::SquareSum<Acc>;
  OW_INLINE Value Of(Acc x, int64_t) const {
    Value sum = SquareSumOf<Acc>::Identity();
    sum.Add(x);
    return sum;
  }
  OW_INLINE Value Of(const Value& sum, int64_t) const { return sum; }
  template <typename Out>
  OW_INLINE Out Finish(const Value& sum) const {
    if constexpr (IsSame<Out, Value>::value) {
      return sum;
    } else {
      return Store<Out>(sum.Root());
    }
  }
};

// Tests whether all elements (if is_all) or any element is nonzero.
template <bool is_all>
struct Truth {
  using Value = uint8_t;
  static OW_INLINE uint8_t Identity() { return is_all ? 1 : 0; }
  OW_INLINE uint8_t operator()(uint8_t x, uint8_t y) const {
    return static_cast<uint8_t>(is_all ? x & y : x | y);
  }
  template <typename In>
  OW_INLINE uint8_t Of(In x, int64_t) const {
    return x != In(0) ? 1 : 0;
  }
  template <typename Out>
  OW_INLINE Out Finish(uint8_t value) const {
    return static_cast<Out>(value);
  }
};

template <typename Base, typename Acc>
struct Extremum : Base {
  using Value = Acc;
  OW_INLINE Acc Of(Acc x, int64_t) const { return x; }
  template <typename Out>
  OW_INLINE Out Finish(Acc value) const {
    return Store<Out>(value);
  }
};
template <typename Acc>
struct Greatest : Extremum<MaxOf<Acc>, Acc> {};
template <typename Acc>
struct Least : Extremum<MinOf<Acc>, Acc> {};

template <typename Acc, bool is_largest>
struct Position : BestOf<Acc, is_largest> {
  using Value = Indexed<Acc>;
  OW_INLINE Value Of(Acc x, int64_t i) const { return {x, i}; }
  OW_INLINE Value Of(Value found, int64_t) const { return found; }
  template <typename Out>
  OW_INLINE Out Finish(Value found) const {
    if constexpr (IsSame<Out, Value>::value) {
      return found;
    } else {
      return static_cast<Out>(found.index);
    }
  }
};

// Number of values that are read together so that their latencies overlap.
constexpr int kWays = 4;

template <typename In>
constexpr int kVectorWidth = sizeof(In) >= 16 ? 1 : 16 / static_cast<int>(sizeof(In));

// Reduces contiguous elements, which are read as vectors if their alignment permits.
template <typename Team, typename Function, typename In>
OW_INLINE void ReduceRow(const Team& team, const In* x, Function function,
                         typename Function::Value* values) {
  constexpr int kWidth = kVectorWidth<In>;
  const In* row = x + team.At(team.begin);
  const int64_t n = team.end - team.begin;
  const int misplaced = static_cast<int>(reinterpret_cast<uint64_t>(row) / sizeof(In) % kWidth);
  const int64_t head = min(n, static_cast<int64_t>((kWidth - misplaced) % kWidth));
  const int64_t n_vectors = (n - head) / kWidth;
  const auto take = [&](int64_t i) {
    values[0] = function(values[0], function.Of(Load(row[i]), team.begin + i));
  };
  for (int64_t i = team.thread; i < head; i += team.size) take(i);
  const auto* vectors = reinterpret_cast<const Vector<In, kWidth>*>(row + head);
#pragma unroll 4
  for (int64_t i = team.thread; i < n_vectors; i += team.size) {
    const Vector<In, kWidth> vector = vectors[i];
    const int64_t place = team.begin + head + i * kWidth;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      values[k % kWays] = function(values[k % kWays], function.Of(Load(vector.at[k]), place + k));
    }
  }
  for (int64_t i = head + n_vectors * kWidth + team.thread; i < n; i += team.size) take(i);
}

template <typename Team, typename Function, typename In, typename Out>
__global__ void reduce_lines(Out* out, const In* x, Function function, Lines lines, int32_t width) {
  const Team team(lines, width);
  typename Function::Value values[kWays];
#pragma unroll
  for (int k = 0; k < kWays; ++k) values[k] = Function::Identity();
  ReduceRow(team, x, function, values);
#pragma unroll
  for (int k = 1; k < kWays; ++k) values[0] = function(values[0], values[k]);
  const auto value = team.Reduce(values[0], function);
  if (team.IsFirst()) out[team.slot] = function.template Finish<Out>(value);
}

template <typename Team, typename Function, typename In, typename Out>
__global__ void __launch_bounds__(kTileThreads, kSummingBlocks)
    reduce_columns(Out* out, const In* x, Function function, Lines lines, int32_t width) {
  constexpr int n = Team::kColumns;
  const Team team(lines, width);
  typename Function::Value values[n];
#pragma unroll
  for (int k = 0; k < n; ++k) values[k] = Function::Identity();
  team.template EachRow<kRowsAtOnce>([&](auto many, int64_t row, int64_t place) {
    constexpr int kMany = decltype(many)::value;
    Vector<In, n> rows[kMany];
    team.Read(rows, x, place);
#pragma unroll
    for (int k = 0; k < n; ++k) {
#pragma unroll
      for (int r = 0; r < kMany; ++r) {
        const int64_t i = row + r * team.size;
        values[k] = function(values[k], function.Of(Load(rows[r].at[k]), i));
      }
    }
  });
  team.Reduce(values, function);
  if (!team.IsFirst()) return;
#pragma unroll
  for (int k = 0; k < n; ++k) out[team.slot + k] = function.template Finish<Out>(values[k]);
}
