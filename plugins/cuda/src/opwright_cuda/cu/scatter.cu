// Combines elements with updates deterministically. For each index, the updates are listed
// (add_slices.cu), sorted by one thread, and applied in order.
#include "kernel.h"
#include "listed.h"

using namespace opwright_cuda;

struct Last {
  template <typename T>
  static OW_INLINE T Of(T, T update) {
    return update;
  }
};
// Integers are added and multiplied as unsigned integers so that they wrap around.
struct Add {
  template <typename T>
  static OW_INLINE T Of(T x, T update) {
    if constexpr (IsFloat<T>::value) return x + update;
    return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(update));
  }
};
struct Multiply {
  template <typename T>
  static OW_INLINE T Of(T x, T update) {
    if constexpr (IsFloat<T>::value) return x * update;
    return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(update));
  }
};
// NaN propagates from both x and the updates.
struct Maximum {
  template <typename T>
  static OW_INLINE T Of(T x, T update) {
    return x >= update || x != x ? x : update;
  }
};
struct Minimum {
  template <typename T>
  static OW_INLINE T Of(T x, T update) {
    return x <= update || x != x ? x : update;
  }
};

OW_INLINE void SiftDown(int32_t* heap, int32_t at, int32_t n) {
  const int32_t value = heap[at];
  while (2 * at + 1 < n) {
    int32_t child = 2 * at + 1;
    if (child + 1 < n && heap[child + 1] > heap[child]) ++child;
    if (heap[child] <= value) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = value;
}

// Sorts by heap sort, which works in place and is no slower if all updates have the same index.
OW_INLINE void PutInOrder(int32_t* numbers, int32_t n) {
  for (int32_t i = n / 2; i-- > 0;) SiftDown(numbers, i, n);
  for (int32_t end = n - 1; end > 0; --end) {
    const int32_t greatest = numbers[0];
    numbers[0] = numbers[end];
    numbers[end] = greatest;
    SiftDown(numbers, 0, end);
  }
}

// The updates of one index, in order.
struct Updates {
  int64_t place;
  int32_t* numbers;
  int32_t n;
};

OW_INLINE Updates UpdatesOf(const Listed& listed, int64_t which) {
  const int32_t place = listed.present[which];
  const int32_t n = listed.counts[place];
  Updates updates = {place, listed.list + (listed.ends[place] - n), n};
  PutInOrder(updates.numbers, n);
  return updates;
}

// `out` must be initialized with x.
template <typename T, typename Rule>
__global__ void combine(T* out, const T* updates, Listed listed) {
  for (int64_t i = GlobalIndex(); i < listed.used->n_positions; i += GridThreads()) {
    const Updates of = UpdatesOf(listed, i);
    Compute<T> value = Load(out[of.place]);
    for (int32_t k = 0; k < of.n; ++k) {
      value = Rule::template Of<Compute<T>>(value, Load(updates[of.numbers[k]]));
    }
    out[of.place] = Store<T>(value);
  }
}

template <typename T>
struct Slots {
  const T* x;
  const T* updates;
  const T* out;
  const T* grad;
  T* x_grad;        // null, or initialized with the gradient of out
  T* updates_grad;  // null if not requested
};

template <typename T>
OW_INLINE bool Took(T value, T out) {
  return value == out || (value != value && out != out);
}

// The following rules write the gradients of one index. `before` is scratch memory as large as the
// updates.
struct GradOfLast {
  template <typename T>
  static OW_INLINE void Write(const Slots<T>& s, const Updates& of, Compute<T>*) {
    for (int32_t k = 0; k < of.n && s.updates_grad != nullptr; ++k) {
      s.updates_grad[of.numbers[k]] = k + 1 == of.n ? s.grad[of.place] : Store<T>(0.0f);
    }
    if (s.x_grad != nullptr) s.x_grad[of.place] = Store<T>(0.0f);
  }
};
struct GradOfSum {
  template <typename T>
  static OW_INLINE void Write(const Slots<T>& s, const Updates& of, Compute<T>*) {
    for (int32_t k = 0; k < of.n && s.updates_grad != nullptr; ++k) {
      s.updates_grad[of.numbers[k]] = s.grad[of.place];
    }
  }
};
// Multiplies all other factors instead of dividing the product, since factors may be zero.
struct GradOfProduct {
  template <typename T>
  static OW_INLINE void Write(const Slots<T>& s, const Updates& of, Compute<T>* before) {
    const Compute<T> grad = Load(s.grad[of.place]);
    Compute<T> product = Load(s.x[of.place]);
    for (int32_t k = 0; k < of.n; ++k) {
      before[of.numbers[k]] = product;
      product *= Load(s.updates[of.numbers[k]]);
    }
    Compute<T> behind = 1;
    for (int32_t k = of.n; k-- > 0;) {
      const int32_t i = of.numbers[k];
      if (s.updates_grad != nullptr) s.updates_grad[i] = Store<T>(grad * (before[i] * behind));
      behind *= Load(s.updates[i]);
    }
    if (s.x_grad != nullptr) s.x_grad[of.place] = Store<T>(grad * behind);
  }
};
// All elements equal to the extremum share its gradient.
struct GradOfExtremum {
  template <typename T>
  static OW_INLINE void Write(const Slots<T>& s, const Updates& of, Compute<T>*) {
    const Compute<T> out = Load(s.out[of.place]);
    const bool x_took = Took(Load(s.x[of.place]), out);
    int32_t count = x_took ? 1 : 0;
    for (int32_t k = 0; k < of.n; ++k) {
      if (Took(Load(s.updates[of.numbers[k]]), out)) ++count;
    }
    const Compute<T> part = Load(s.grad[of.place]) / static_cast<Compute<T>>(count);
    for (int32_t k = 0; k < of.n && s.updates_grad != nullptr; ++k) {
      const int32_t i = of.numbers[k];
      s.updates_grad[i] = Store<T>(Took(Load(s.updates[i]), out) ? part : Compute<T>(0));
    }
    if (s.x_grad != nullptr) s.x_grad[of.place] = Store<T>(x_took ? part : Compute<T>(0));
  }
};

template <typename T, typename Rule>
__global__ void combine_grad(Slots<T> slots, Compute<T>* before, Listed listed) {
  for (int64_t i = GlobalIndex(); i < listed.used->n_positions; i += GridThreads()) {
    Rule::Write(slots, UpdatesOf(listed, i), before);
  }
}
