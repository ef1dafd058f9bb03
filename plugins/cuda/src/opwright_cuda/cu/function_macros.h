// Macros for one-line functors.
#ifndef OPWRIGHT_CUDA_FUNCTION_MACROS_H_
#define OPWRIGHT_CUDA_FUNCTION_MACROS_H_

// Functors of one or two operands of type T; `W` is the type in which integers wrap around.
#define OW_FUNCTION_1(name, expression)                      \
  template <typename T>                                      \
  struct name {                                              \
    using W = Wrapping<T>;                                   \
    OW_INLINE T operator()(T x) const { return expression; } \
  }
#define OW_FUNCTION_2(name, expression)                           \
  template <typename T>                                           \
  struct name {                                                   \
    using W = Wrapping<T>;                                        \
    OW_INLINE T operator()(T x, T y) const { return expression; } \
  }
#define OW_PREDICATE(name, expression)                               \
  template <typename T>                                              \
  struct name {                                                      \
    OW_INLINE bool operator()(T x, T y) const { return expression; } \
  }
#define OW_WITH_ALPHA(name, parameters, expression)                \
  template <typename T>                                            \
  struct name {                                                    \
    T alpha;                                                       \
    OW_INLINE T operator() parameters const { return expression; } \
  }
// Functors with two attributes.
#define OW_WITH_PAIR(name, parameters, expression)                 \
  template <typename T>                                            \
  struct name {                                                    \
    T first;                                                       \
    T second;                                                      \
    OW_INLINE T operator() parameters const { return expression; } \
  }

#endif  // OPWRIGHT_CUDA_FUNCTION_MACROS_H_
