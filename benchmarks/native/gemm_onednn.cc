// A square float32 matrix product with one oneDNN primitive, whose memory objects are created once.
#include <cstdint>
#include <exception>
#include <memory>
#include <unordered_map>

#include "dnnl.hpp"

namespace {

struct Gemm {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> args;
};

std::unique_ptr<Gemm> gemm;

}  // namespace

extern "C" {

// Returns 0, or 1 if oneDNN refuses. The caller keeps ownership of the arrays.
int prepare(int64_t n, float* a, float* b, float* c) try {
  using tag = dnnl::memory::format_tag;
  gemm = std::make_unique<Gemm>();
  const dnnl::memory::desc plain({n, n}, dnnl::memory::data_type::f32, tag::ab);
  gemm->primitive = dnnl::matmul({gemm->engine, plain, plain, plain});
  gemm->args = {{DNNL_ARG_SRC, {plain, gemm->engine, a}},
                {DNNL_ARG_WEIGHTS, {plain, gemm->engine, b}},
                {DNNL_ARG_DST, {plain, gemm->engine, c}}};
  return 0;
} catch (const std::exception&) {
  return 1;
}

void run() {
  gemm->primitive.execute(gemm->stream, gemm->args);
  gemm->stream.wait();
}

}  // extern "C"
