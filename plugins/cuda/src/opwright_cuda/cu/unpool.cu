// max_unpool2d, the inverse of max pooling, and its gradient. One thread processes each channel of
// a plane, so the last of repeated indices wins. In the gradient, a thread processes an element.
#include "kernel.h"

using namespace opwright_cuda;

// The sizes of planes with `pixels` and with `out_pixels` pixels; `run` channels are adjacent.
struct Unpooling {
  int64_t n_lines;  // number of channels in all images
  int64_t pixels;
  int64_t out_pixels;
  int64_t run;
};

OW_INLINE int64_t FirstOf(int64_t line, int64_t pixels, const Unpooling& u) {
  return line / u.run * pixels * u.run + line % u.run;
}

template <typename T>
__global__ void unpool(T* out, const T* x, const int32_t* index, Unpooling u, Fault* fault,
                       int32_t text) {
  for (int64_t line = GlobalIndex(); line < u.n_lines; line += GridThreads()) {
    const int64_t from = FirstOf(line, u.pixels, u);
    T* const to = out + FirstOf(line, u.out_pixels, u);
    for (int64_t i = 0; i < u.out_pixels; ++i) to[i * u.run] = Store<T>(Compute<T>(0));
    for (int64_t i = 0; i < u.pixels; ++i) {
      const int32_t place = index[from + i * u.run];
      if (static_cast<uint64_t>(int64_t(place)) >= static_cast<uint64_t>(u.out_pixels)) {
        Report(fault, text, place);
        continue;
      }
      to[place * u.run] = x[from + i * u.run];
    }
  }
}

template <typename T>
__global__ void unpool_grad(T* x_grad, const T* out_grad, const int32_t* index, Unpooling u,
                            Fault* fault, int32_t text) {
  const int64_t n = u.n_lines * u.pixels;
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const int64_t plane = i / (u.pixels * u.run);
    const int32_t place = index[i];
    if (static_cast<uint64_t>(int64_t(place)) >= static_cast<uint64_t>(u.out_pixels)) {
      Report(fault, text, place);
      x_grad[i] = Store<T>(Compute<T>(0));
      continue;
    }
    x_grad[i] = out_grad[(plane * u.out_pixels + place) * u.run + i % u.run];
  }
}
