// A core of a later minor version that opens a library and runs its kernel.
#include <cstdio>

#include "plans.h"
#include "runtime/library/host.h"
#include "runtime/library/infer.h"
#include "runtime/library/library.h"
#include "runtime/library/plugin_table.h"

namespace {

using opwright::Meta;

// Computes out = 3 * x with a complete plan.
float Run(const std::shared_ptr<opwright::Library>& library, const ow_attr& factor) {
  opwright::PrepareRequest request;
  request.device = opwright::HostDevice();
  request.inputs = request.outputs = {{Meta{{8}, plans::kFloat32}}};
  request.attrs = {factor};
  auto prepared =
      opwright::PrepareNative(&opwright::KernelAt(library->plugin(), 0), request, library);
  plans::Maker maker;
  const uint32_t x = maker.Outside(opwright::Role::kFeed, "x");
  const uint32_t out = maker.Outside(opwright::Role::kFetch, "out");
  maker.Kernel(prepared, {x}, {out});
  const auto outcome = plans::Run(maker.Build(), nullptr, {std::vector<float>(8, 2.0F)});
  return outcome.status == OW_OK ? outcome.fetches[0][7] : -1.0F;
}

int64_t Infer(const opwright::Library& library, const ow_attr& factor) {
  opwright::InferRequest request;
  request.inputs = {{Meta{{-1, 4}, plans::kFloat32}}};
  request.attrs = {factor};
  request.output_counts = {1};
  return opwright::InferNative(opwright::OpAt(library.plugin(), 0), request)[0][0]->shape[0];
}

}  // namespace

int main(int, char** argv) {
  const auto library = opwright::Library::Open(argv[1]);
  ow_attr factor{};
  factor.size = sizeof(factor);
  factor.name = "factor";
  factor.type = OW_ATTR_FLOAT;
  factor.count = 1;
  factor.float_value = 3.0;
  const ow_plugin& plugin = library->plugin();
  std::printf("host 1.%u library 1.%u out %g dim %ld later %d\n",
              opwright::HostServices()->abi_minor, plugin.abi_minor, Run(library, factor),
              Infer(*library, factor), OW_HAS(&plugin, later) ? 1 : 0);
  return 0;
}
